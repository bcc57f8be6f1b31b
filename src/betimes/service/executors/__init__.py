"""Executors of runs: on this machine, a Ray cluster, or virtual."""
