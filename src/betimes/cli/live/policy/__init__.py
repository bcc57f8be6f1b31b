"""Verbs about the policy in force, and the search for a better one."""
