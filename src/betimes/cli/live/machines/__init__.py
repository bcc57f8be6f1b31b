"""Verbs about the machines of the live system."""
