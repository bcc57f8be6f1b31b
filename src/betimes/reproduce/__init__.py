"""The tables and figures of the papers behind Betimes, run again: published values next to ours.

`reproduce("pcs-fig1")` gives rows; `EXPERIMENTS` lists what there is; docs/reproductions.md tells
what came of it.
"""

from betimes.reproduce.experiment import Experiment, Row
from betimes.reproduce.pace import Progress
from betimes.reproduce.registry import EXPERIMENTS, find, reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "Row", "find", "reproduce"]
