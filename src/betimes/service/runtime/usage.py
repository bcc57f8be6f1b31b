"""The use by jobs: of the cluster in a period, and of what each has asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from betimes.service.scheduling.charges import Charge
from betimes.service.scheduling.node import Node
from betimes.service.scheduling.promises import cost_usd
from betimes.service.scheduling.shares import Standing
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.queries import By, ran_s, vanished
from betimes.service.store.reading import Reader
from betimes.service.views.models import EfficiencyView, UsageFigures, UsageGroup, UsageView
from betimes.units import S_PER_H, length

WELL_USED = 0.8  # of what was asked for: below, less is advised
ROOM = 1.2  # times what was used most, that is advised
MEMORY_STEP_GIB = 0.25
LIMIT_ROOM = 1.5  # times the longest run, as a time limit

Row = Mapping[str, Any]


@dataclass
class _Sums:
    jobs: int = 0
    unit_s: float = 0.0
    core_s: float = 0.0
    gpu_s: float = 0.0
    owned_usd: float | None = None
    rented_usd: float | None = None
    started: int = 0
    wait_s: float = 0.0

    def add(self, row: Row, usd_per_unit_h: float | None) -> None:
        self.jobs += row["jobs"]
        self.unit_s += row["unit_s"]
        self.core_s += row["unit_s"] * row["cpu"]
        self.gpu_s += row["unit_s"] * row["gpu"]
        self.started += row["started"]
        self.wait_s += row["wait_s"]
        if usd_per_unit_h is not None:
            self.owned_usd = (self.owned_usd or 0.0) + row["owned_s"] / S_PER_H * usd_per_unit_h

    def charge(self, usd: float) -> None:
        """Add to the cost of rented machines."""
        self.rented_usd = (self.rented_usd or 0.0) + usd

    def figures(self) -> UsageFigures:
        costs = [usd for usd in (self.owned_usd, self.rented_usd) if usd is not None]
        return UsageFigures(
            jobs=self.jobs,
            unit_h=self.unit_s / S_PER_H,
            core_h=self.core_s / S_PER_H,
            gpu_h=self.gpu_s / S_PER_H,
            cost_usd=sum(costs) if costs else None,
            rented_usd=self.rented_usd,
            mean_wait_s=self.wait_s / self.started if self.started else None,
        )


@dataclass
class Rented:
    """Sums of charges for rented machines within a period: of all, of those of jobs, and by group."""

    usd: list[float]
    by_jobs: list[float]
    by_group: list[tuple[str, float]]


def rented(store: Reader, live: Iterable[Charge], asked: Mapping[str, Any]) -> Rented:
    """The charges of the store, and of machines and runs that are still there."""
    since_at, until_at, by = asked["since_at"], asked["until_at"], asked["by"]
    found = Rented(
        [row["usd"] for row in store.charged(since_at, until_at, None)],
        [row["usd"] for row in store.charged(since_at, until_at, "user")],
        [(row["group"], row["usd"]) for row in store.charged(since_at, until_at, by)] if by else [],
    )
    held = [(charge, usd) for charge in live if (usd := charge.usd_in(since_at, until_at))]
    jobs = store.jobs_of([charge.job for charge, _ in held if charge.job is not None]) if by else {}
    for charge, usd in held:
        found.usd.append(usd)
        if charge.job is not None:
            found.by_jobs.append(usd)
            found.by_group += [(name, usd) for name in _groups(jobs.get(charge.job), by)]
    return found


def _groups(job: Row | None, by: By | None) -> list[str]:
    """The names of a job's groups, as in `store.queries`."""
    if job is None or by is None:
        return []
    if by == "label":
        return [f"{key}={value}" for key, value in job["labels"].items()]
    if by == "account":
        return [job["labels"][by]] if by in job["labels"] else []
    return [job[by]]


def usage_view(
    total: Iterable[Row],
    grouped: Iterable[Row],
    nodes: Sequence[Node],
    asked: Mapping[str, Any],
    standing: Mapping[str, Standing],
    rented: Rented,
) -> UsageView:
    """The sums of rows of `store.queries.usage`; work on owned nodes at their present prices, as in promises.

    standing: of users, where the groups are users who share.
    """
    owned = [node for node in nodes if node.rented_at is None]
    priced: dict[tuple[float, float, float], float | None] = {}

    def price(row: Row) -> float | None:
        shape = row["cpu"], row["gpu"], row["memory_gib"]
        if shape not in priced:
            cpu, gpu, memory_gib = shape
            spec = JobSpec.model_construct(cpu=cpu, gpu=gpu, memory_gib=memory_gib, max_units=1, demand={})
            priced[shape] = cost_usd(spec, S_PER_H, owned)
        return priced[shape]

    whole, groups = _Sums(), dict[str, _Sums]()
    for row in total:
        whole.add(row, price(row))
    for row in grouped:
        groups.setdefault(row["group"], _Sums()).add(row, price(row))
    for usd in rented.usd:
        whole.charge(usd)
    for name, usd in rented.by_group:
        groups.setdefault(name, _Sums()).charge(usd)
    ordered = sorted(groups.items(), key=lambda each: (-each[1].unit_s, each[0]))
    return UsageView(
        **asked,
        total=whole.figures(),
        unused_usd=None if whole.rented_usd is None else whole.rented_usd - sum(rented.by_jobs),
        groups=[
            UsageGroup(
                name=name, figures=sums.figures(), **(standing[name]._asdict() if name in standing else {})
            )
            for name, sums in ordered
        ],
    )


def efficiency_view(number: int, rows: Sequence[Row]) -> EfficiencyView:
    """The part that the runs of a job, or of an array, used of what they had; rows: of `store.queries.runs_of`."""
    over = [row for row in rows if row["ended_at"] is not None and not vanished(row)]
    specs = [JobSpec(**row["spec"]) for row in over]
    run_s = [ran_s(row) for row in over]
    measured = [
        (row, spec, s)
        for row, spec, s in zip(over, specs, run_s, strict=True)
        if row["cpu_s"] is not None and s > 0.0
    ]
    core_s = sum(s * row["units"] * spec.cpu for row, spec, s in measured)
    cpu_s = sum(row["cpu_s"] for row, _, _ in measured)
    weighed = [(row, spec) for row, spec in zip(over, specs, strict=True) if row["max_rss_gib"] is not None]
    largest = max(weighed, key=lambda each: each[0]["max_rss_gib"], default=None)
    gpu_s = sum(s * row["units"] * spec.gpu for row, spec, s in zip(over, specs, run_s, strict=True))
    limits = [spec.time_limit_s for spec in specs if spec.time_limit_s is not None]
    notes = list[str]()
    if len(measured) < len(over):
        notes.append(
            f"{len(over) - len(measured)} of {len(over)} runs have no record of what they used: they ended at once, or "
            "their machines are made up, or were lost"
        )
    if lost := [ran_s(row) for row in rows if row["ended_at"] is not None and vanished(row)]:
        runs = "1 run" if len(lost) == 1 else f"{len(lost)} runs"
        notes.append(
            f"{runs} of {length(sum(lost))} lost with the machine, and left out: what was done is done again"
        )
    if going := len(rows) - len(over) - len(lost):
        notes.append(
            "1 run goes on, and counts once it has ended"
            if going == 1
            else f"{going} runs go on, and count once they have ended"
        )
    if gpu_s:
        notes.append("the use of GPUs is not recorded")
    if not rows:
        notes = ["it has not run yet"]
    return EfficiencyView(
        job_id=number,
        jobs=len({row["job_id"] for row in rows}),
        runs=len(over),
        run_s=sum(run_s),
        core_asked_s=core_s if measured else None,
        core_used_s=cpu_s if measured else None,
        memory_asked_gib=largest[1].memory_gib * largest[0]["units"] if largest else None,
        memory_used_gib=largest[0]["max_rss_gib"] if largest else None,
        gpu_asked_s=gpu_s,
        longest_run_s=max(run_s, default=None),
        time_limit_s=max(limits, default=None),
        advice=[*_cores(measured), *_memory(weighed), *_limit(run_s, limits)],
        notes=notes,
    )


def _cores(measured: Sequence[tuple[Row, JobSpec, float]]) -> Iterable[str]:
    """Advice for cores that were not used: ask for smaller units, or fewer."""
    if not measured:
        return
    used = max(row["cpu_s"] / s for row, _, s in measured)
    row, spec, _ = max(measured, key=lambda each: each[0]["units"] * each[1].cpu)
    units = row["units"]
    if used >= WELL_USED * units * spec.cpu:
        return
    cpu = max(1, math.ceil(used * ROOM / units))
    if cpu < spec.cpu:
        yield f"--cpu {cpu}"
    elif units > 1 and (fewer := max(1, math.ceil(used * ROOM / max(spec.cpu, 1e-9)))) < units:
        yield f"--units {fewer}"


def _memory(weighed: Sequence[tuple[Row, JobSpec]]) -> Iterable[str]:
    """Advice for memory that was not used, or was not enough."""
    if not weighed:
        return
    short = any(row["outcome"] == "out-of-memory" for row, _ in weighed)
    each_gib = max(row["max_rss_gib"] / max(1, row["units"]) for row, _ in weighed)
    asked_gib = max(spec.memory_gib for _, spec in weighed)
    room = 2.0 if short else ROOM
    gib = max(1, math.ceil(each_gib * room / MEMORY_STEP_GIB)) * MEMORY_STEP_GIB
    if short or (gib < asked_gib and each_gib < WELL_USED * asked_gib):
        yield f"--memory {gib:g}GiB"


def _limit(run_s: Sequence[float], limits: Sequence[float]) -> Iterable[str]:
    if limits and run_s:
        minutes = math.ceil(max(run_s) * LIMIT_ROOM / 60.0)
        if minutes * 60.0 < WELL_USED * max(limits):
            yield f"--time-limit {minutes}m"
