"""Compiling policies while the service goes on."""
