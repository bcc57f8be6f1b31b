"""Policies for nodes: who goes first, where to, who makes room."""
