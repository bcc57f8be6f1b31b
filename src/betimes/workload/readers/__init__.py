"""Readers of traces, one file a format; `registry` lists them and picks one."""
