"""The cluster's state, what can happen to it, and nothing that knows a clock, a socket or a file."""
