"""Verbs of the live system."""
