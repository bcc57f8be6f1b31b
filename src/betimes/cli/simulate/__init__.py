"""Verbs that work on traces: simulate, compare, tune."""
