"""Betimes: a batch scheduler that looks ahead.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.foresight.simulate import simulate
    from betimes.outcome import Result, load, save, summarise
    from betimes.policies import POLICIES
    from betimes.workload import Job, Workload, read_trace
    from betimes.workload.generators import generate
    from betimes.workload.speedup import SpeedupTable

__version__ = "0.1.0"

_HOME = {
    "POLICIES": "betimes.policies",
    "Job": "betimes.workload",
    "Result": "betimes.outcome",
    "SpeedupTable": "betimes.workload.speedup",
    "Workload": "betimes.workload",
    "generate": "betimes.workload.generators",
    "load": "betimes.outcome",
    "read_trace": "betimes.workload",
    "save": "betimes.outcome",
    "simulate": "betimes.foresight.simulate",
    "summarise": "betimes.outcome",
}

__all__ = [
    "POLICIES",
    "Job",
    "Result",
    "SpeedupTable",
    "Workload",
    "generate",
    "load",
    "read_trace",
    "save",
    "simulate",
    "summarise",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
