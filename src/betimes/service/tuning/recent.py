"""The service's recent workload: the jobs submitted last, as the twin takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.cluster.labels import as_texts
from betimes.errors import Conflict
from betimes.service.engines.speedups import Speedups, speed
from betimes.service.scheduling.beliefs import LEAST_S
from betimes.service.scheduling.engine_factory import request_for
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.service.store.queries import ran_s, vanished
from betimes.service.store.store import Store
from betimes.service.views.models import JobFilter
from betimes.twin.nodes.launching import KIND
from betimes.twin.nodes.renting import RENT
from betimes.workload import Workload
from betimes.workload.columns import UNKNOWN
from betimes.workload.family_demands import SPEED
from betimes.workload.speedup import SpeedupTable, bind
from betimes.workload.validation import DEMANDS

Floats = NDArray[np.float64]

A_PAGE = 1000  # events, or jobs


@dataclass(frozen=True)
class Recent:
    """Jobs in order of submission, from 0 s on; their measured speed-up curves, if any has one.

    work_s: a job's work on one unit; believed, if it has not finished. estimate_s: believed at submission, on
    max_units.
    """

    workload: Workload
    curves: SpeedupTable | None

    @property
    def full_speed(self) -> Floats:
        """(jobs,) the speed-up of each on max_units over one."""
        jobs = self.workload
        table, _ = bind(jobs.curve_names, int(jobs.max_units.max(initial=1)), self.curves)
        return table.at(jobs.curve, jobs.max_units)

    @property
    def wanted_unit_s(self) -> Floats:
        """(jobs,) unit-seconds that each holds if it runs on max_units all the time."""
        return self.workload.work_s / self.full_speed * self.workload.max_units

    def known_work_s(self, sizes: str) -> Floats:
        """(jobs,) seconds on one unit known to the policy: the `true` ones, or the believed ones."""
        return self.workload.work_s if sizes == "true" else self.workload.estimate_s * self.full_speed


@dataclass(frozen=True)
class _Seen:
    """A job, as the store and the log have it."""

    row: Mapping[str, Any]
    spec: JobSpec
    runtime_estimate_s: float  # on max_units, when it was submitted
    took_s: float | None  # likewise; null: it has not finished


def recent(
    store: Store,
    most: int,
    working: Mapping[int, float],
    since_at: float = -math.inf,
    *,
    on_any_machines: bool = False,
) -> Recent:
    """The last `most` jobs; `working`: present beliefs of live ones, seconds on one unit. May run in any thread.

    on_any_machines: with the labels that jobs require, and their demands by family, which a pool does not heed.

    Jobs cancelled before they ran are left out; so are jobs whose events are only in an archive file. The work of jobs
    that failed or were cancelled later is that of their runs. Raises Conflict for fewer than two.
    """
    seen = _seen(store, most, since_at)
    if len(seen) < 2:
        when = "so far" if since_at == -math.inf else "in that time"
        raise Conflict(
            f"{'no job has' if not seen else 'only one job has'} been submitted {when}, and this needs at least two; "
            "submit some and ask again"
        )
    work_s: list[float] = []
    for one in seen:
        number, spec = one.row["job_id"], one.spec
        request = request_for(number, spec, one.runtime_estimate_s)
        full = speed(request, spec.max_units)
        took_s = one.runtime_estimate_s * full
        if one.took_s is not None:
            took_s = one.took_s * full
        elif number in working:
            took_s = working[number]
        elif Status(one.row["status"]).is_over:
            runs = (run for run in store.runs(number) if run["ended_at"] is not None and not vanished(run))
            took_s = sum(speed(request, r["units"]) * ran_s(r) for r in runs)
        work_s.append(max(LEAST_S, took_s))
    specs = [one.spec for one in seen]
    if not on_any_machines:  # under policies of a pool jobs require no labels, and need the same everywhere
        specs = [spec.model_copy(update={"require": {}, "demand": {}}) for spec in specs]
    submitted = np.array([one.row["submitted_at"] for one in seen])
    workload, curves = as_workload(
        specs,
        name=f"the last {len(seen):,} jobs",
        job_id=[one.row["job_id"] for one in seen],
        submit_s=submitted - submitted.min(),
        work_s=work_s,
        estimate_s=[max(LEAST_S, one.runtime_estimate_s) for one in seen],
        user=[one.row["user"] for one in seen],
    )
    return Recent(workload, curves)


@dataclass(frozen=True)
class Submission:
    """A job that was submitted, to be submitted again on its own; its estimate is what it took, if it has finished."""

    at: float
    user: str
    spec: JobSpec


def submissions(store: Store, since_at: float, most: int) -> list[Submission]:
    """The latest submissions, oldest first; a set of trials is one. May run in any thread.

    Jobs cancelled before they ran are left out; so are jobs whose events are only in an archive file.
    """
    found = list[Submission]()
    for one in _seen(store, most, since_at):
        run_s = max(LEAST_S, one.runtime_estimate_s if one.took_s is None else one.took_s)
        alone = {
            "after": [],
            "singleton": False,
            "hold": False,
            "steps": None,
            "step_s": None,
            "estimate_s": run_s,
        }
        spec = one.spec.model_copy(update=alone)
        found.append(Submission(one.row["submitted_at"], one.row["user"], spec))
    return found


def _seen(store: Store, most: int, since_at: float = -math.inf) -> list[_Seen]:
    """The last jobs, oldest first."""
    last = takewhile(lambda row: row["submitted_at"] >= since_at, _that_count(store))
    rows = list(islice(last, most))
    if not rows:
        return []
    first_at = min(row["submitted_at"] for row in rows)
    runtime_estimate_s: dict[int, float] = {}
    took_s: dict[int, float] = {}
    after: int | None = max(store.last_before(first_at), store.archived_upto)
    while after is not None:
        page = store.events(after, A_PAGE, kinds=("submitted", "finished"))
        for event in page:
            if event.job is not None and event.kind == "submitted":
                if "set_id" not in event.data:  # else it is a part of another job
                    runtime_estimate_s[event.job] = event.data["believed_s"]
            elif event.job is not None:
                took_s[event.job] = event.data["run_s"]
        after = page[-1].event_id if len(page) == A_PAGE else None
    known = (row for row in reversed(rows) if row["job_id"] in runtime_estimate_s)
    return [
        _Seen(row, JobSpec(**row["spec"]), runtime_estimate_s[row["job_id"]], took_s.get(row["job_id"]))
        for row in known
    ]


def _that_count(store: Store) -> Iterator[Mapping[str, Any]]:
    """Jobs, newest first, except those cancelled before they ran, and trials, which are parts of other jobs."""
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


TRIAL = 1


def as_workload(
    specs: Sequence[JobSpec],
    *,
    name: str,
    job_id: Sequence[int],
    submit_s: ArrayLike,
    work_s: ArrayLike,
    estimate_s: ArrayLike,
    user: Sequence[str] | int = UNKNOWN,
) -> tuple[Workload, SpeedupTable | None]:
    """The same jobs for the twin, and their measured speed-up curves, if any has one.

    work_s: true work of each on one unit; estimate_s: believed on max_units.
    """
    names = _Names()
    workload = Workload.from_columns(
        name=name,
        job_id=job_id,
        submit_s=submit_s,
        work_s=work_s,
        min_units=[spec.min_units for spec in specs],
        max_units=[spec.max_units for spec in specs],
        units_per_task=[spec.task_choice for spec in specs],
        curve=[names.of(spec) for spec in specs],
        estimate_s=estimate_s,
        user=user,
        qos=[TRIAL if spec.qos == "trial" else 0 for spec in specs],
        priority=[spec.priority for spec in specs],
        grace_s=[spec.grace_s for spec in specs],
        cpu=[spec.cpu for spec in specs],
        memory_gib=[spec.memory_gib for spec in specs],
        gpu=[spec.gpu for spec in specs],
        require=[",".join(as_texts(spec.required)) for spec in specs],
        extra=_more(specs),
    )
    return workload, names.table()


def _more(specs: Sequence[JobSpec]) -> dict[str, Any]:
    """The columns that only some workloads have."""
    found = dict[str, Any]()
    if any(spec.rent != "auto" for spec in specs):
        found[RENT] = [spec.rent for spec in specs]
    if any(spec.workload is not None for spec in specs):
        found[KIND] = [spec.workload or f"{spec.max_units} x {spec.unit}" for spec in specs]
    for family in sorted({family for spec in specs for family in spec.demand}):
        needed = [spec.unit.on(family) if spec.demand else None for spec in specs]
        for at, name in enumerate(DEMANDS):
            found[f"{name}.{family}"] = [math.nan if each is None else each[at] for each in needed]
        found[f"{SPEED}.{family}"] = [
            math.nan if each is None else spec.unit.speed_on(family)
            for spec, each in zip(specs, needed, strict=True)
        ]
    return found


class _Names:
    """A name for each measured curve; formulas have theirs."""

    def __init__(self) -> None:
        self._speeds = Speedups()
        self._of: dict[tuple[float, ...], tuple[str, int]] = {}  # and its row among the speed-ups

    def of(self, spec: JobSpec) -> str:
        """The name of a job's curve."""
        if not isinstance(spec.curve, Curve):
            return spec.curve
        request = request_for(0, spec, 1.0)
        named = (f"measured-{len(self._of) + 1}", self._speeds.row_of(request))
        return self._of.setdefault(request.table, named)[0]

    def table(self) -> SpeedupTable | None:
        """All measured curves; null: none."""
        if not self._of:
            return None
        named = list(self._of.values())
        rows = self._speeds.table[[row for _, row in named]]
        last = np.full(len(named), rows.shape[1] - 1, dtype=np.int64)
        return SpeedupTable(tuple(name for name, _ in named), np.ascontiguousarray(rows), last)
