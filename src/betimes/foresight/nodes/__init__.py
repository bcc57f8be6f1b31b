"""Copies of a cluster of nodes, driven forward from now."""
