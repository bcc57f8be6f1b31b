"""Readers of traces; `registry` lists the formats and picks one."""
