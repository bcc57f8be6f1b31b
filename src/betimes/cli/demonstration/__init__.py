"""What `betimes demo` shows."""
