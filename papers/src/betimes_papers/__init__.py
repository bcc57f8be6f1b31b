"""The tables and figures of the papers behind Betimes, run again: published values next to ours.

`reproduce("pcs-fig1")` returns rows; `EXPERIMENTS` lists the experiments; docs/reproductions.md reports the results.
Betimes itself imports nothing of this package: the verb `reproduce` is an entry point.
"""

from betimes_papers.experiment import Experiment, Progress, Row, Workers
from betimes_papers.registry import EXPERIMENTS, find, reproduce

__version__ = "0.1.0"

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "Row", "Workers", "find", "reproduce"]
