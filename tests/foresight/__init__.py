"""Promises: predictions at every arrival."""
