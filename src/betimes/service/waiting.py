"""Why a queued job has not started: found out when somebody asks, from what is free and what is foreseen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from betimes.service.forecasts import Forecast
from betimes.service.job import Job
from betimes.service.node import UP
from betimes.service.scheduler import Scheduler
from betimes.service.wanted import demand_of

NAMES = ("GPU", "core", "GiB of memory")
PER = (1000, 1000, 1024)

Clockface = Callable[[float], str]


def why(
    job: Job, scheduler: Scheduler, forecast: Forecast | None, shown: Clockface | None = None
) -> dict[str, Any]:
    """The reason of a job that is queued, with its evidence; `shown` writes an instant as people read it."""
    clock = shown or (lambda at: time.strftime("%H:%M", time.localtime(at)))
    ups = [name for name, node in scheduler.ledger.nodes.items() if node.status == UP]
    if not ups:
        return {"code": "no-nodes", "text": "no node takes work; `betimes nodes` lists them", "evidence": {}}
    if job.run is not None and not job.run.launched:
        leaving = [
            other.job_id for other in scheduler.ledger.jobs.values() if other.run and other.run.stopping
        ]
        text = f"has its place, and waits for {_jobs(leaving)} to leave it" if leaving else "is being started"
        return {"code": "leaving", "text": text, "evidence": {"jobs": leaving}}
    if job.binding is not None and "owed" in job.binding:
        victims = [
            other.job_id for other in scheduler.ledger.jobs.values() if other.makes_room_for == job.job_id
        ]
        return {
            "code": "nominated",
            "text": f"{_jobs(victims)} makes room for it",
            "evidence": {"jobs": victims},
        }
    demand, units = demand_of(job.spec), job.spec.min_units
    free = [0, 0, 0]
    for name in ups:
        for at, amount in enumerate(scheduler.rooms.free_on(name)):
            free[at] += max(0, amount)
    short = [
        (need * units - room, at)
        for at, (need, room) in enumerate(zip(demand, free, strict=True))
        if need > 0
    ]
    missing, at = max(short)
    evidence: dict[str, Any] = {
        "free": {name: room / per for name, room, per in zip(NAMES, free, PER, strict=True)}
    }
    if missing <= 0:
        ahead = _first_ahead(job, scheduler)
        if _fits(job, scheduler, ups):
            text = f"others come first under {scheduler.ledger.policy}" + (
                f", job {ahead} next" if ahead else ""
            )
            return {"code": "turn", "text": text, "evidence": {**evidence, "job": ahead}}
        text = "enough is free in all, but no node has all of it at once"
        return {"code": "no-room", "text": text, "evidence": evidence}
    amount = missing / PER[at]
    what = f"{amount:g} more {NAMES[at]}{'s' if amount != 1 and at < 2 else ''}"
    text = f"waits for {what}"
    gained = 0
    for finish_at, other in _ends(scheduler, forecast):
        held = other.run.units if other.run else other.units
        gained += demand_of(other.spec)[at] * held
        if gained >= missing:
            text += f"; job {other.job_id} frees them about {clock(finish_at)}"
            evidence |= {"job": other.job_id, "about_at": finish_at}
            break
    return {
        "code": "no-room",
        "text": text,
        "evidence": {**evidence, "missing": amount, "resource": NAMES[at]},
    }


def _ends(scheduler: Scheduler, forecast: Forecast | None) -> list[tuple[float, Job]]:
    """Those that run, by when they are believed to finish."""
    found: list[tuple[float, Job]] = []
    for job in scheduler.ledger.jobs.values():
        finish_at = forecast.of.get(job.job_id, (None, None))[1] if forecast is not None else None
        if job.units > 0 and finish_at is not None:
            found.append((finish_at, job))
    return sorted(found, key=lambda one: (one[0], one[1].job_id))


def _first_ahead(job: Job, scheduler: Scheduler) -> int | None:
    waiting = (
        other for other in scheduler.ledger.jobs.values() if other.units == 0 and other.account is not None
    )
    first = min(waiting, key=lambda other: other.account.seq if other.account else 0, default=None)
    return first.job_id if first is not None and first is not job else None


def _fits(job: Job, scheduler: Scheduler, ups: list[str]) -> bool:
    demand, missing = demand_of(job.spec), job.spec.min_units
    for name in ups:
        free = scheduler.rooms.free_on(name)
        missing -= max(0, min(room // need for room, need in zip(free, demand, strict=True) if need > 0))
    return missing <= 0


def _jobs(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"job {numbers[0]}"
    return "jobs " + ", ".join(map(str, numbers[:5])) + (" and others" if len(numbers) > 5 else "")
