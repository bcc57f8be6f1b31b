"""Tuning on the live system: the Pareto front of its recent workload, and a new search when that has changed."""
