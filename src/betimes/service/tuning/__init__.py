"""Tuning on the live system: the Pareto front of its own recent workload, and searching again when that has changed."""
