"""Clusters and the reader of cluster files."""
