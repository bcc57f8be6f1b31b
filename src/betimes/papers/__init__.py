"""The tables and figures of the papers behind Betimes, run again: published values next to ours.

`reproduce("pcs-fig1")` gives rows; `EXPERIMENTS` lists what there is; docs/reproductions.md tells
what came of it. The verb `reproduce` alone imports this package.
"""

from betimes.papers.experiment import Experiment, Progress, Row, Workers
from betimes.papers.registry import EXPERIMENTS, find, reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "Row", "Workers", "find", "reproduce"]
