"""The nodes engine against queueing theory, other simulators, exhaustive search and the laws of conservation."""
