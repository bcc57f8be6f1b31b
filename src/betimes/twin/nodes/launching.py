"""How long the jobs of a trace take to launch, to initialise and to stop, where it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.workload import Workload

PARTS = {
    "launch_s": ("fetch_delay_s", "build_image_delay_s"),
    "init_s": ("init_delay_s",),
    "stop_s": ("kill_delay_s", "upload_delay_s"),
}
"""The columns of a trace that add up to each delay, those of Eva's artifact (spec/eva.md 2.3)."""


def launching(jobs: Workload) -> dict[str, NDArray[Any]]:
    """The delays of each job, s, and its workload's number: 0 s and -1 where the trace does not say.

    Raises InputError for a delay that is no number of 0 or more.
    """
    found: dict[str, NDArray[Any]] = {"workload": np.full(len(jobs), -1)}
    for delay, columns in PARTS.items():
        found[delay] = np.zeros(len(jobs))
        for name in columns:
            if name in jobs.extra:
                found[delay] = found[delay] + _seconds(jobs, name)
    return found


def _seconds(jobs: Workload, name: str) -> NDArray[np.float64]:
    values = np.nan_to_num(np.asarray(jobs.extra[name], dtype=np.float64), nan=0.0)
    if bad := np.flatnonzero(~((values >= 0) & np.isfinite(values))).tolist():
        raise InputError(
            f"job {jobs.job_id[bad[0]]}, field {name}: expected 0 s or more, found {values[bad[0]]:g}"
        )
    return values
