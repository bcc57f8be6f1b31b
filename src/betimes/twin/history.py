"""Users as rows of a table, with the run times of each user's last two finished jobs."""

from __future__ import annotations

import numpy as np

from betimes.kernels import Ints, Records, kernel
from betimes.workload import Workload


class History:
    """Run times of a user's last two finished jobs."""

    count: int
    last_s: float
    before_s: float


@kernel
def knows(history: Records[History], user: int) -> bool:
    """Whether a job of this user (-1: unknown) has finished."""
    return user >= 0 and history[user].count > 0


@kernel
def last_two_s(history: Records[History], user: int) -> float:
    """Mean run time of the user's last two finished jobs; that of the last if there is no other."""
    known = history[user]
    if known.count == 1:
        return known.last_s
    return (known.last_s + known.before_s) / 2.0


@kernel
def remember(history: Records[History], user: int, run_s: float) -> None:
    """Note the run time of a job that has finished."""
    if user >= 0:
        known = history[user]
        known.before_s = known.last_s
        known.last_s = run_s
        known.count += 1


def user_rows(workload: Workload) -> Ints:
    """Users renumbered 0, 1, ...; -1 stays unknown."""
    known, codes = np.unique(workload.user, return_inverse=True)
    offset = 1 if len(known) and known[0] < 0 else 0
    return codes.astype(np.int64) - offset
