"""Run times predicted at submission: the naive baseline (SoCC 2021, section 3; spec/waiting.md A.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from betimes.errors import InputError
from betimes.foresight.waits.estimators import fitted
from betimes.foresight.waits.learning import MOST
from betimes.kernels import Floats
from betimes.workload import Workload

RUN_TIME_KINDS = ("last-two", "linear", "forest", "boosting", "svr", "net")


def predict_run_times(kind: str, earlier: Workload, later: Workload) -> Floats:
    """Run times (n,) of the later jobs on all their units, s: of at least one second.

    `last-two` is the mean of the user's last two jobs, of all jobs for a new user. The others are fitted to
    time of day and week, user, time limit, units, cores and memory. Raises InputError for an unknown kind.
    """
    return run_time_predictor(kind, earlier)(later)


def run_time_predictor(kind: str, earlier: Workload) -> Callable[[Workload], Floats]:
    """A function with the predictions of `predict_run_times` for later jobs that are passed part by part."""
    if kind not in RUN_TIME_KINDS:
        raise InputError(f"predictor {kind!r}: choose {', '.join(RUN_TIME_KINDS)}")
    if kind == "last-two":
        history = _History()
        history.predict(earlier)
        return history.predict
    run_s = earlier.work_s / earlier.max_units
    rows = np.linspace(0, len(earlier) - 1, min(len(earlier), MOST)).astype(np.int64)
    made = fitted(kind, _at_submission(earlier)[rows], run_s[rows])
    return lambda later: np.maximum(1.0, made.predict(_at_submission(later)))


def _at_submission(workload: Workload) -> Floats:
    """(n, 7) features of each job that are known at submission."""
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


class _History:
    """Each user's last two run times, as if a job's run time were known when the user's next job comes."""

    def __init__(self) -> None:
        self.last: dict[int, deque[float]] = {}
        self.total_s, self.count = 0.0, 0

    def predict(self, jobs: Workload) -> Floats:
        predicted = np.ones(len(jobs))
        pairs = zip(jobs.user.tolist(), (jobs.work_s / jobs.max_units).tolist(), strict=True)
        for row, (user, run_s) in enumerate(pairs):
            mine = self.last.setdefault(user, deque(maxlen=2))
            mean_s = sum(mine) / len(mine) if mine else self.total_s / max(1, self.count)
            predicted[row] = max(1.0, mean_s)
            mine.append(run_s)
            self.total_s, self.count = self.total_s + run_s, self.count + 1
        return predicted
