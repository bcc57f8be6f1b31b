"""Advice to an operator: past jobs again under every policy that fits the machines, and the few worth having."""

from betimes.foresight.advice.advising import FEW_JOBS, PERIOD_S, Candidate, Period, advise
from betimes.foresight.advice.candidates import candidates
from betimes.foresight.advice.record import FIGURES, Advice, LeftOut, Row, Worth

__all__ = [
    "FEW_JOBS",
    "FIGURES",
    "PERIOD_S",
    "Advice",
    "Candidate",
    "LeftOut",
    "Period",
    "Row",
    "Worth",
    "advise",
    "candidates",
]
