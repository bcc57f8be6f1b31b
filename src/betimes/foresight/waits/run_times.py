"""Run times from what is known at submission: the naive baseline (SoCC 2021, section 3; spec/waiting.md A.7)."""

from __future__ import annotations

from collections import deque

import numpy as np

from betimes.errors import InputError
from betimes.foresight.waits.estimators import fitted
from betimes.foresight.waits.learning import MOST
from betimes.kernels import Floats
from betimes.workload import Workload

RUN_TIME_KINDS = ("last-two", "linear", "forest", "boosting")


def predict_run_times(kind: str, earlier: Workload, later: Workload) -> Floats:
    """Run times (n,) of the later jobs on all their units, s: of at least one second.

    `last-two` is the mean of the user's last two jobs, of all jobs for a new user. The others are fitted to
    time of day and week, user, time limit, units, cores and memory. Raises InputError for an unknown kind.
    """
    if kind not in RUN_TIME_KINDS:
        raise InputError(f"predictor {kind!r}: choose {', '.join(RUN_TIME_KINDS)}")
    run_s = earlier.work_s / earlier.max_units
    if kind == "last-two":
        return _last_two(earlier, later)
    rows = np.linspace(0, len(earlier) - 1, min(len(earlier), MOST)).astype(np.int64)
    made = fitted(kind, _at_submission(earlier)[rows], run_s[rows])
    return np.maximum(1.0, made.predict(_at_submission(later)))


def _at_submission(workload: Workload) -> Floats:
    """(n, 7) what is known of each job."""
    known = [
        workload.submit_s % 86_400.0,
        workload.submit_s // 86_400.0 % 7,
        workload.user,
        workload.estimate_s,
        workload.max_units,
        workload.cpu * workload.max_units,
        workload.memory_gib * workload.max_units,
    ]
    return np.nan_to_num(
        np.column_stack([np.asarray(column, dtype=np.float64) for column in known]), nan=-1.0
    )


def _last_two(earlier: Workload, later: Workload) -> Floats:
    """As if each job's run time was known when the user's next one comes."""
    last: dict[int, deque[float]] = {}
    total, count, predicted = 0.0, 0, np.ones(len(later))
    for part, out in ((earlier, None), (later, predicted)):
        pairs = zip(part.user.tolist(), (part.work_s / part.max_units).tolist(), strict=True)
        for row, (user, run_s) in enumerate(pairs):
            mine = last.setdefault(user, deque(maxlen=2))
            if out is not None:
                mean = sum(mine) / len(mine) if mine else total / max(1, count)
                out[row] = max(1.0, mean)
            mine.append(run_s)
            total, count = total + run_s, count + 1
    return predicted
