"""Forecasts of waits for owned machines: learned from the past, or played forward."""

from betimes.foresight.waits.learning import FEWEST, Evaluation, Observed, evaluate, fit, learn, mcc, observe
from betimes.foresight.waits.playing import play_waits

__all__ = [
    "FEWEST",
    "Evaluation",
    "Observed",
    "evaluate",
    "fit",
    "learn",
    "mcc",
    "observe",
    "play_waits",
]
