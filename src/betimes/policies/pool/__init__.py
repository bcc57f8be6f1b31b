"""Policies that share a pool of identical units among elastic jobs: one file a published policy."""
