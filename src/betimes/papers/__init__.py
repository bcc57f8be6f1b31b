"""The tables and figures of the papers behind Betimes, run again: published values next to ours.

`reproduce("pcs-fig1")` returns rows; `EXPERIMENTS` lists the experiments; docs/reproductions.md reports the results.
Only the verb `reproduce` imports this package.
"""

from betimes.papers.experiment import Experiment, Progress, Row, Workers
from betimes.papers.registry import EXPERIMENTS, find, reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "Row", "Workers", "find", "reproduce"]
