"""The pool engine driven by simulated time: identical units, elastic jobs."""
