"""Why a queued job has not started: found out when somebody asks, from what is free and what is foreseen."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

from betimes.service.forecasts import Forecast
from betimes.service.job import Job
from betimes.service.node import UP
from betimes.service.reasons import named
from betimes.service.rooms import Amounts, most
from betimes.service.scheduler import Scheduler
from betimes.service.wanted import demand_of

NAMES = ("GPU", "core", "GiB of memory")
PER = (1000, 1000, 1024)


class Waiting:
    """The reasons of jobs that are queued, as things stand at one instant; what all of them need is worked out once."""

    def __init__(self, scheduler: Scheduler, forecast: Forecast | None) -> None:
        self.scheduler, self.forecast = scheduler, forecast

    def why(self, job: Job) -> dict[str, Any]:
        """The reason of a job, with its evidence."""
        if not self.free:
            return _reason("no-nodes", "no node takes work; `betimes nodes` lists them")
        if job.run is not None and not job.run.launched:
            leaving = [other.job_id for other in self._jobs if other.run is not None and other.run.stopping]
            text = (
                f"has its place, and waits for {named(leaving)} to leave it"
                if leaving
                else "is being started"
            )
            return _reason("leaving", text, jobs=leaving)
        if job.binding is not None and "owed" in job.binding:
            victims = [other.job_id for other in self._jobs if other.makes_room_for == job.job_id]
            return _reason("nominated", f"{named(victims)} makes room for it", jobs=victims)
        demand, units = demand_of(job.spec), job.spec.min_units
        short = [
            (need * units - sum(room[at] for room in self.free.values()), at) for at, need in _needed(demand)
        ]
        missing, at = max(short)
        if missing > 0:
            return self._too_little(missing, at)
        if sum(most(room, demand, units) for room in self.free.values()) < units:
            return _reason(
                "no-room", "enough is free in all, but no node has all of it at once", **self._evidence
            )
        first = self._first
        ahead = f", job {first} next" if first is not None and first != job.job_id else ""
        policy = self.scheduler.ledger.policy
        return _reason("turn", f"others come first under {policy}{ahead}", **self._evidence, job=first)

    def _too_little(self, missing: int, at: int) -> dict[str, Any]:
        amount, gained = missing / PER[at], 0
        text = f"waits for {amount:g} more {NAMES[at]}{'s' if amount != 1 and at < 2 else ''}"
        evidence: dict[str, Any] = {**self._evidence, "missing": amount, "resource": NAMES[at]}
        for finish_at, other in self._ends:
            gained += demand_of(other.spec)[at] * other.units
            if gained >= missing:
                shown = time.strftime("%H:%M", time.localtime(finish_at))
                frees = f"job {other.job_id} frees {'it' if amount == 1 else 'them'} about {shown}"
                return _reason(
                    "no-room", f"{text}; {frees}", **evidence, job=other.job_id, about_at=finish_at
                )
        return _reason("no-room", text, **evidence)

    @cached_property
    def _jobs(self) -> list[Job]:
        return list(self.scheduler.ledger.jobs.values())

    @cached_property
    def free(self) -> dict[str, Amounts]:
        """What the nodes that take work have left, by name."""
        rooms, nodes = self.scheduler.rooms, self.scheduler.ledger.nodes
        return {name: rooms.free_on(name) for name, node in nodes.items() if node.status == UP}

    @cached_property
    def _evidence(self) -> dict[str, Any]:
        total = [sum(room[at] for room in self.free.values()) for at in range(3)]
        return {"free": {name: amount / per for name, amount, per in zip(NAMES, total, PER, strict=True)}}

    @cached_property
    def _ends(self) -> list[tuple[float, Job]]:
        """Those that run, by when they are believed to finish."""
        found: list[tuple[float, Job]] = []
        for job in self._jobs:
            finish_at = (
                self.forecast.of.get(job.job_id, (None, None))[1] if self.forecast is not None else None
            )
            if job.units > 0 and finish_at is not None:
                found.append((finish_at, job))
        return sorted(found, key=lambda one: (one[0], one[1].job_id))

    @cached_property
    def _first(self) -> int | None:
        """Who has waited for the longest."""
        waiting = [
            (job.account.seq, job.job_id) for job in self._jobs if job.units == 0 and job.account is not None
        ]
        return min(waiting)[1] if waiting else None


def _needed(demand: Amounts) -> list[tuple[int, int]]:
    return [(at, need) for at, need in enumerate(demand) if need > 0]


def _reason(code: str, text: str, **evidence: Any) -> dict[str, Any]:
    return {"code": code, "text": text, "evidence": evidence}
