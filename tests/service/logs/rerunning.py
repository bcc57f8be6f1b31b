"""What a log says has happened, told to a scheduler anew: it must come to the same decisions."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended, Event, RunId, Started
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import NODE
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec

STOPS = ("preempted", "resized", "cancelled", "node-goes", "stopped")
"""How runs end that were told to."""


class Rerun:
    """A scheduler that is told the inputs of a log, one after the other.

    The log does not say where a turn ends; decisions follow inputs, and a later instant ends a turn that decided
    nothing. Reports of progress are no events, and another policy is not set: logs with either cannot be run again.
    """

    def __init__(self, events: Sequence[Event], settings: Settings) -> None:
        self.events = [event for event in events if event.kind != "quoted"]
        self.scheduler = Scheduler(Ledger(), lambda _: None, settings)
        self.made: deque[Event] = deque()
        self.seen = 0  # of the scheduler's events since it was last asked what came of it
        self.told = False  # something, and has not decided since

    def difference(self) -> str | None:
        """The first event that is another now, in words; null: there is none."""
        for at, logged in enumerate(self.events):
            if not self.made:
                self._provoke(at, logged)
            if not self.made:
                return f"event {logged.event_id}: the log has {_shown(logged)}; now nothing is decided"
            now = self.made.popleft()
            if not same(_plain(logged), _plain(now)):
                return f"event {logged.event_id}: the log has {_shown(logged)}; now it is {_shown(now)}"
        return None

    def _provoke(self, at: int, logged: Event) -> None:
        """Let that happen which the log has next."""
        scheduler = self.scheduler
        if logged.at_s > scheduler.now_at:
            if self.told and scheduler.kind is not None:
                self._decide()
            scheduler.begin(logged.at_s)
            self._collect()
        if self.told and logged.kind in ("resized", "stopping"):  # the answer to what has been decided
            self._decide()
        if self.made:
            return
        if self._tell(at, logged):
            self.told = True
            self._collect()
        else:
            self._decide()

    def _decide(self) -> None:
        self.scheduler.turn()
        self._collect()
        self.scheduler.take()
        self.seen, self.told = 0, False

    def _collect(self) -> None:
        self.made += self.scheduler.events[self.seen :]
        self.seen = len(self.scheduler.events)

    def _tell(self, at: int, logged: Event) -> bool:
        """Tell an input to the scheduler; false: the event is none."""
        scheduler, data, job = self.scheduler, logged.data, logged.job or 0
        user = logged.cause.removeprefix("user:")
        match logged.kind:
            case "node-added":
                scheduler.nodes.add(NODE.validate_python(data).machine, logged.cause)
            case "opened":
                policy = next(event.data["policy"] for event in self.events if event.kind == "policy-set")
                scheduler.open(policy, data["epoch_at"])
            case "submitted":
                scheduler.admission.submit(self._spec(at, logged), data["user"])
            case "cancel-requested":
                scheduler.jobs.cancel(job, user)
            case "held":
                scheduler.jobs.hold(job, user)
            case "released":
                scheduler.jobs.release(job, user)
            case "node-status":
                scheduler.nodes.set_status(logged.node or "", data["status"], logged.cause)
            case "started":
                scheduler.reports.started(Started(RunId(job, data["number"]), logged.at_s, data["adopted"]))
            case "ended":
                why = "stopped" if data["outcome"] in STOPS else data["outcome"]
                end = (data["exit_code"], data["signal"], why, data["message"])
                scheduler.reports.ended(Ended(RunId(job, data["number"]), logged.at_s, *end))
            case "resized":
                run, places = RunId(job, data["number"]), [(name, units) for name, units in data["places"]]
                scheduler.reports.resized(run, data["units"], places, done=True)
            case "stopping" if data["why"] == "resized":
                found = scheduler.ledger.jobs[job]
                scheduler.reports.resized(RunId(job, found.attempt), found.units, found.places, done=False)
            case _:
                return False
        return True

    def _spec(self, at: int, logged: Event) -> JobSpec:
        """As it was submitted: an array has one event for each of its elements."""
        spec, array = JobSpec(**logged.data["spec"]), logged.data.get("array_id")
        if array is None:
            return spec
        rest = (event.data for event in self.events[at:] if event.kind == "submitted")
        indices = [str(data["array_index"]) for data in rest if data.get("array_id") == array]
        most = logged.data["array_most"]
        return spec.model_copy(update={"array": ",".join(indices) + (f"%{most}" if most else "")})


def same(logged: Any, now: Any) -> bool:
    """Whether what is logged is still so; there may be more to it now. Numbers may differ in the last bits.

    Sentences for people may differ: programs go by codes and evidence, which stand beside them.
    """
    if isinstance(logged, dict) and isinstance(now, dict):
        return all(
            name in now and (name == "text" or same(value, now[name])) for name, value in logged.items()
        )
    if isinstance(logged, list) and isinstance(now, list):
        return len(logged) == len(now) and all(map(same, logged, now))
    if isinstance(logged, float) and isinstance(now, int | float):
        return math.isclose(logged, now, rel_tol=1e-9, abs_tol=1e-9)
    return logged == now


def _plain(event: Event) -> dict[str, Any]:
    return {
        **json.loads(json.dumps(asdict(event))),
        "event_id": 0,
    }  # promises, which are left out, have numbers


def _shown(event: Event) -> str:
    whose = f" of job {event.job}" if event.job is not None else f" of {event.node}" if event.node else ""
    return f"{event.kind}{whose} at {event.at_s:.3f} by {event.cause}: {json.dumps(event.data)}"
