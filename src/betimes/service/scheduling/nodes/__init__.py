"""Nodes come and go, owned and rented."""
