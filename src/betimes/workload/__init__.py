"""Workloads: `Job`, the columnar `Workload`, and the readers of traces.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.workload.readers.registry import FORMATS, read_trace
    from betimes.workload.trial import draw_grace, mark_trials
    from betimes.workload.workload import Job, Notes, Workload
    from betimes.workload.writing import to_csv, to_parquet, write

__all__ = [
    "FORMATS",
    "Job",
    "Notes",
    "Workload",
    "draw_grace",
    "mark_trials",
    "read_trace",
    "to_csv",
    "to_parquet",
    "write",
]

_HOME = {
    "FORMATS": "betimes.workload.readers.registry",
    "Job": "betimes.workload.workload",
    "Notes": "betimes.workload.workload",
    "Workload": "betimes.workload.workload",
    "draw_grace": "betimes.workload.trial",
    "mark_trials": "betimes.workload.trial",
    "read_trace": "betimes.workload.readers.registry",
    "to_csv": "betimes.workload.writing",
    "to_parquet": "betimes.workload.writing",
    "write": "betimes.workload.writing",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
