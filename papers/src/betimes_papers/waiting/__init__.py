"""Waiting policies (SoCC 2021): figures 1, 2 and 4 to 11, on real traces and on a generated one."""

from betimes_papers.waiting.figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
