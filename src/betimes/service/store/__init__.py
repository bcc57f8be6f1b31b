"""What is kept: the event log, which is the source of truth, and tables derived from it."""
