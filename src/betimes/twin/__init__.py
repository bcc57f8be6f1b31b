"""The core, driven by simulated time over a trace."""
