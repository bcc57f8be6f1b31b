"""Readers of cluster files: Betimes's own, and Alibaba's node lists."""
