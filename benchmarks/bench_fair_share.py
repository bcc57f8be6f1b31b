"""Under fair shares each user gets what the weight gives, light users wait less, and promises are about as good.

Two tables of a log whose jobs have users. The first: the jobs of its largest users come all at once, with different
weights; the part of the units that each has held until the first of them has no job left that waits. The second: the
log as it is. Users in three groups, from those who used least, which together have a tenth, a third and the rest of all
unit-seconds; the waits of each, and how far promises were off, relative to the completion time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from measuring import Table, arguments, introduce, traces_at

from betimes import simulate
from betimes.outcome import Result
from betimes.twin.users import Entitled, FairUsers, names_of
from betimes.workload import Workload, read_trace

TRACE = "swf/KTH-SP2-1996-2.swf.gz"
POLICIES = ("nodes:fifo", "easy", "conservative", "srsf")
WEIGHTS = (1.0, 1.0, 2.0, 4.0)
DAY_S = 86400.0
# Each with the part of all use that it and the lighter groups have together.
GROUPS = (
    ("light", 0.1),
    ("middle", 0.4),
    ("heavy", 1.0),
)


def main() -> None:
    """Print the tables."""
    given = arguments(__doc__)
    introduce(__doc__)
    folder = traces_at(given.data, TRACE)
    if folder is None:
        return
    log = read_trace(folder / TRACE)
    if given.quick:
        log = log[:3000]
    under_load(log)
    as_it_is(log, 200 if given.quick else 2000)


def under_load(log: Workload) -> None:
    """Print what each of the largest users gets while all have jobs that wait."""
    used = np.bincount(log.user, log.work_s)
    largest = np.argsort(-used, kind="stable")[: len(WEIGHTS)]
    crowd = log[np.isin(log.user, largest)]
    crowd = replace(crowd, submit_s=np.zeros(len(crowd)))
    names = [names_of(log)[int(np.searchsorted(np.unique(log.user), user))] for user in largest]
    fair = FairUsers(DAY_S, {name: Entitled(weight) for name, weight in zip(names, WEIGHTS, strict=True)})
    table = Table("policy", "user", "weight", "jobs", "share by weight", "without", "with")
    for policy in POLICIES:
        parts = [
            held(simulate(crowd, policy, timeline=True, users=users, on_wide="drop"), largest)
            for users in (None, fair)
        ]
        for at, (user, name) in enumerate(zip(largest, names, strict=True)):
            due, jobs = WEIGHTS[at] / sum(WEIGHTS), int((crowd.user == user).sum())
            table.line(
                policy,
                name,
                f"{WEIGHTS[at]:g}",
                f"{jobs:,}",
                f"{due:.1%}",
                *(f"{part[at]:.1%}" for part in parts),
            )
    print()


def held(result: Result, users: np.ndarray) -> np.ndarray:
    """The part of the unit-seconds that each user has held until one of them has no waiting job left."""
    jobs, stays = result.jobs, result.segments
    assert stays is not None
    until_s = min(np.nanmax(jobs.start_s[jobs.user == user]) for user in users)
    lasted_s = np.clip(np.minimum(stays.end_s, until_s) - stays.start_s, 0.0, None)
    unit_s = np.bincount(jobs.user[stays.row], lasted_s * stays.units, int(users.max()) + 1)[users]
    return unit_s / unit_s.sum()


def as_it_is(log: Workload, promises: int) -> None:
    """Print waits by group of users, and errors of promises."""
    used = np.bincount(log.user, log.work_s)
    order = np.argsort(used, kind="stable")
    so_far = np.cumsum(used[order]) / used.sum()
    group = np.empty(len(used), dtype=np.int64)
    group[order] = np.searchsorted([most for _, most in GROUPS], so_far - 1e-12)
    table = Table(
        "policy", "users", "group", "members", "mean wait, h", "median wait, min", "promises off, median"
    )
    for policy in POLICIES:
        for how, users in (("as one", None), ("fair", FairUsers())):
            result = simulate(
                log,
                policy,
                sizes="estimate",
                predict=True,
                predict_sample=promises,
                users=users,
                on_wide="drop",
            )
            jobs = result.jobs
            wait_s = jobs.start_s - jobs.submit_s
            off = np.abs(jobs.predicted_finish_s - jobs.finish_s) / (jobs.finish_s - jobs.submit_s)
            for number, (name, _) in enumerate(GROUPS):
                mine = group[jobs.user] == number
                table.line(
                    policy,
                    how,
                    name,
                    f"{int(((group == number) & (used > 0)).sum())}",
                    f"{np.nanmean(wait_s[mine]) / 3600:.2f}",
                    f"{np.nanmedian(wait_s[mine]) / 60:.1f}",
                    f"{np.nanmedian(off[mine]):.0%}",
                )
    print()


if __name__ == "__main__":
    main()
