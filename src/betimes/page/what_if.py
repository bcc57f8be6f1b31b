"""The what-if page: a change, and when jobs would end before and after it; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request

from betimes import plugins
from betimes.errors import BetimesError, InputError
from betimes.page import query
from betimes.page.drawing import PIXELS, Axis, Row, Stretch, lanes
from betimes.page.session import Session
from betimes.policies.nodes.registry import NODES_POLICIES
from betimes.policies.registry import POLICIES
from betimes.service.runtime.page_reads import PageReads
from betimes.service.spec.spec_errors import faults_of
from betimes.service.spec.spelling import job_number
from betimes.service.views.models import WhatIfJob, WhatIfSpec, WhatIfView
from betimes.units import parse_duration

SAME_S = 1.0  # a job whose end moves by less ends as before
MOST_CHANGED = 50  # jobs in the table
MOST_USERS = 12  # rows of either timeline
REQUEST = ("job", "time", "units", "nodes", "partition")  # fields of a job's other request
ADDED = "add:"  # before the type of nodes, in the name of a field


async def what_if(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The form, and below it the answer to what the query asks."""
    asked_for = request.query_params
    given = {name: asked_for.get(name, "")[:2000] for name in ("policy", "cancel", *REQUEST)}
    added = {name.removeprefix(ADDED): asked_for[name] for name in asked_for if name.startswith(ADDED)}
    removed = asked_for.getlist("remove")
    answer = problem = None
    try:
        if asked := _asked(given, added, removed):
            found = await reads.seen.what_if(_spec(asked), session.user)
            answer = _answer(found, asked.get("cancel", []))
    except BetimesError as error:
        problem = str(error)
    return {
        "title": "What if",
        "given": given,
        "added": added,
        "removed": removed,
        "types": sorted({node.machine.type for node in reads.backend.scheduler.ledger.nodes.values()}),
        "nodes": [node.name for node in await reads.seen.nodes() if node.status == "up"],
        "policies": sorted({*POLICIES, *NODES_POLICIES, *plugins.added(plugins.POLICIES)}),
        "answer": answer,
        "problem": problem,
    }


def _asked(given: dict[str, str], added: dict[str, str], removed: Sequence[str]) -> dict[str, Any]:
    """The changes that the query names; empty: none. Raises InputError."""
    counts = {
        name: query.whole(text, f"nodes of type {name}") for name, text in added.items() if text.strip()
    }
    found: dict[str, Any] = {
        "add_nodes": {name: count for name, count in counts.items() if count},
        "remove_nodes": list(removed),
        "policy": given["policy"].strip() or None,
        "cancel": [query.job_number(text, "cancel") for text in given["cancel"].replace(",", " ").split()],
        "edit": _edits(given),
    }
    return {name: value for name, value in found.items() if value}


def _edits(given: dict[str, str]) -> list[dict[str, Any]]:
    """The other request of a job; empty: there is none. Raises InputError."""
    job, limit, units, nodes, partition = (given[name].strip() for name in REQUEST)
    changes: dict[str, Any] = {
        "time_limit_s": _limit_s(limit) if limit else None,
        "units": query.whole(units, "units", 1) if units else None,
        "nodes": query.whole(nodes, "nodes", 1) if nodes else None,
        "partition": partition or None,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if bool(job) is not bool(changes):
        raise InputError(
            "job: say what it is to ask for: a time limit, units, nodes or a partition"
            if job
            else "job: name the one that is to ask for something else"
        )
    return [{"job_id": query.job_number(job, "job"), **changes}] if job else []


def _limit_s(text: str) -> float:
    """A time limit, s. Raises InputError, also for a plain number, which is minutes in Slurm and seconds here."""
    try:
        if text.isdecimal():
            raise ValueError(f"is it minutes? write {text}m, or 2:30:00")
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"time limit: {error}") from None


def _spec(asked: dict[str, Any]) -> WhatIfSpec:
    try:
        return WhatIfSpec(**asked)
    except ValidationError as error:
        faults = faults_of(error.errors(include_url=False), WhatIfSpec, "change")
        raise InputError("; ".join(f"{field}: {text}" for field, text in faults)) from None


def _answer(found: WhatIfView, cancelled: Sequence[int]) -> dict[str, Any]:
    """Both plays as timelines on one axis, and the jobs that end at another time, the most different first."""
    moved = {one.job_id: _moved_s(one) for one in found.jobs}
    changed = [
        one for one in found.jobs if moved[one.job_id] is None or abs(moved[one.job_id] or 0.0) >= SAME_S
    ]
    changed.sort(key=lambda one: (-abs(moved[one.job_id] or 1e12), one.job_id))
    both = [moved_s for moved_s in moved.values() if moved_s is not None]
    ends = [at for one in found.jobs for at in (one.finish_before_at, one.finish_at) if at is not None]
    ahead_s = max(60.0, max(ends, default=found.made_at) - found.made_at)
    axis = Axis(found.made_at - 0.04 * ahead_s, found.made_at + 1.04 * ahead_s)
    sides = (
        ("As it is", _rows(axis, found, before=True)),
        ("After the change", _rows(axis, found, before=False)),
    )
    return {
        "made_at": found.made_at,
        "now_x": axis.x(found.made_at),
        "axis": axis,
        "sides": sides,
        "jobs": len(found.jobs),
        "changed": changed[:MOST_CHANGED],
        "more": max(0, len(changed) - MOST_CHANGED),
        "moved": moved,
        "cancelled": set(cancelled),
        "earlier": sum(moved_s <= -SAME_S for moved_s in both),
        "later": sum(moved_s >= SAME_S for moved_s in both),
        "mean_s": sum(both) / len(both) if both else 0.0,
        "never": sum(
            one.finish_at is None and one.finish_before_at is not None and one.job_id not in cancelled
            for one in found.jobs
        ),
    }


def _moved_s(one: WhatIfJob) -> float | None:
    """The delay of a job's end, negative: earlier; null: it ends in one of the plays alone. As before: 0."""
    if one.finish_at is None or one.finish_before_at is None:
        return 0.0 if one.finish_at is one.finish_before_at else None
    return one.finish_at - one.finish_before_at


def _rows(axis: Axis, found: WhatIfView, before: bool) -> list[Row]:
    """A timeline with the users as rows."""
    users: dict[str, list[Stretch]] = {}
    for user, stretch in _stretches(found, before):
        users.setdefault(user, []).append(stretch)
    return [
        Row(user, "user", *lanes(axis, found.made_at, some, pixels=PIXELS // 2), len(some))
        for user, some in sorted(users.items())[:MOST_USERS]
    ]


def _stretches(found: WhatIfView, before: bool) -> Iterator[tuple[str, Stretch]]:
    for one in found.jobs:
        start_at, finish_at = one.start_at, one.finish_at
        if before:
            start_at, finish_at = one.start_before_at, one.finish_before_at
        if start_at is not None and finish_at is not None:
            status = "running" if start_at <= found.made_at else "queued"
            yield (
                one.user,
                Stretch(
                    start_at,
                    finish_at,
                    one.job_id,
                    status,
                    f"{job_number(one.job_id)} {one.name}, {one.user}",
                ),
            )
