"""Units by the names that people write: of time in seconds, of memory in GiB."""

TIME_UNITS = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
MEMORY_UNITS = {"k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10, "p": 2.0**20}
