"""The service's own recent workload: the jobs that were submitted last, as the twin takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.errors import Conflict
from betimes.service.engines.speedups import speed
from betimes.service.scheduling.beliefs import LEAST_S
from betimes.service.scheduling.engine_job import wanted_for
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.store import Store
from betimes.service.tuning.as_workload import as_workload
from betimes.service.views.models import JobFilter
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable, bind

Floats = NDArray[np.float64]

A_PAGE = 1000  # events, or jobs


@dataclass(frozen=True)
class Recent:
    """Jobs in order of submission, from 0 s on; their measured speed-up curves, if any has one.

    work_s is what a job took, on one unit; of one that has not finished, what is believed. estimate_s is what was
    believed when it was submitted, on max_units.
    """

    workload: Workload
    curves: SpeedupTable | None

    @property
    def full_speed(self) -> Floats:
        """(jobs,) how much faster each runs on max_units than on one."""
        jobs = self.workload
        table, _ = bind(jobs.curve_names, int(jobs.max_units.max(initial=1)), self.curves)
        return table.at(jobs.curve, jobs.max_units)

    @property
    def wanted_unit_s(self) -> Floats:
        """(jobs,) unit-seconds that each holds if it runs on max_units all the time."""
        return self.workload.work_s / self.full_speed * self.workload.max_units

    def believed_s(self, sizes: str) -> Floats:
        """(jobs,) seconds on one unit that the policy knows of: the `true` ones, or those that were believed."""
        return self.workload.work_s if sizes == "true" else self.workload.estimate_s * self.full_speed


@dataclass(frozen=True)
class _Seen:
    """A job, as the store and the log have it."""

    row: Mapping[str, Any]
    spec: JobSpec
    believed_s: float  # on max_units, when it was submitted
    took_s: float | None  # likewise; null: it has not finished


def recent(store: Store, most: int, working: Mapping[int, float]) -> Recent:
    """The last `most` jobs; `working`: what is now believed of live ones, seconds on one unit. May run in any thread.

    Those that were cancelled before they ran took nothing, and are left out; so are those of which the log keeps
    nothing but a file. What failed or was cancelled later took what its runs did. Raises Conflict for fewer than two.
    """
    seen = _seen(store, most)
    if len(seen) < 2:
        raise Conflict(
            f"{'no job has' if not seen else 'only one job has'} been submitted so far, and a search needs at least "
            "two; submit some and ask again"
        )
    work_s: list[float] = []
    for one in seen:
        number, spec = one.row["job_id"], one.spec
        wanted = wanted_for(number, spec, one.believed_s)
        full = speed(wanted, spec.max_units)
        took_s = one.believed_s * full
        if one.took_s is not None:
            took_s = one.took_s * full
        elif number in working:
            took_s = working[number]
        elif Status(one.row["status"]).is_over:
            runs = (run for run in store.runs(number) if run["ended_at"] is not None)
            took_s = sum(speed(wanted, r["units"]) * (r["ended_at"] - r["started_at"]) for r in runs)
        work_s.append(max(LEAST_S, took_s))
    # What is tuned is a policy for a pool, under which jobs require no labels, and need the same everywhere.
    specs = [one.spec.model_copy(update={"require": {}, "demand": {}}) for one in seen]
    submitted = np.array([one.row["submitted_at"] for one in seen])
    workload, curves = as_workload(
        specs,
        name=f"the last {len(seen):,} jobs",
        job_id=[one.row["job_id"] for one in seen],
        submit_s=submitted - submitted.min(),
        work_s=work_s,
        estimate_s=[max(LEAST_S, one.believed_s) for one in seen],
    )
    return Recent(workload, curves)


def _seen(store: Store, most: int) -> list[_Seen]:
    """The last jobs, oldest first."""
    rows = list(islice(_that_count(store), most))
    if not rows:
        return []
    first_at = min(row["submitted_at"] for row in rows)
    believed_s: dict[int, float] = {}
    took_s: dict[int, float] = {}
    after: int | None = max(store.last_before(first_at), store.archived_upto)
    while after is not None:
        page = store.events(after, A_PAGE, kinds=("submitted", "finished"))
        for event in page:
            if event.job is not None and event.kind == "submitted":
                if "set_id" not in event.data:  # else it is a part of another job
                    believed_s[event.job] = event.data["believed_s"]
            elif event.job is not None:
                took_s[event.job] = event.data["run_s"]
        after = page[-1].event_id if len(page) == A_PAGE else None
    known = (row for row in reversed(rows) if row["job_id"] in believed_s)
    return [
        _Seen(row, JobSpec(**row["spec"]), believed_s[row["job_id"]], took_s.get(row["job_id"]))
        for row in known
    ]


def _that_count(store: Store) -> Iterator[Mapping[str, Any]]:
    """Jobs, newest first: but for those that were cancelled before they ran, and for trials, parts of other jobs."""
    after: int | None = None
    sets: dict[int, bool] = {}  # by array, whether it is one job
    while True:
        page = store.jobs(JobFilter(limit=A_PAGE, after=after))
        for row in page:
            ran = row["started_at"] is not None or not _is_over(row)
            if ran and not _is_trial(row, store, sets):
                yield row
        if len(page) < A_PAGE:
            return
        after = page[-1]["job_id"]


def _is_trial(row: Mapping[str, Any], store: Store, sets: dict[int, bool]) -> bool:
    array = row["array_id"]
    if array is None or array == row["job_id"]:
        return False
    if array not in sets:
        whole = store.job(array)
        sets[array] = whole is not None and whole["array_index"] is None
    return sets[array]


def _is_over(row: Mapping[str, Any]) -> bool:
    return Status(row["status"]).is_over
