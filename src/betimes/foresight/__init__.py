"""Copies of the core, driven forward from now: promises, and what would happen if."""
