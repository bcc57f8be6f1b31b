"""Runs of jobs: what executors are asked to do and report, what runs hold, and what preemptions and moves cost."""
