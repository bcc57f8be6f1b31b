"""Why a queued job has not started: found out on request, from what is free and what is foreseen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from betimes.cluster.labels import as_texts, suits, why_none_suits
from betimes.cluster.resources import PER_UNIT, Amounts
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.scheduling.decisions.engine_factory import pool_resource
from betimes.service.scheduling.decisions.engine_job import wanted_of
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.forecasts import Forecast
from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.jobs.job_states import Status
from betimes.service.scheduling.jobs.reasons import booting, compiling, named, reason
from betimes.service.scheduling.nodes.node import BOOTING, UP
from betimes.service.scheduling.runs.occupancy import most
from betimes.service.scheduling.state import SchedulerState
from betimes.units import instant

NAMES = ("GPU", "core", "GiB of memory")
BOOT_SAME_S = 2.0  # between a start and a node's being up: a forecast and a reason are not of one instant
MOST_NAMED = 20  # jobs in a reason's evidence

_Free = tuple[Amounts, Amounts]  # what a node has left, and what is needed there


class WaitReasons:
    """The reasons of jobs that are queued, as things stand at one instant; what all of them need is worked out once.

    Which job frees what, and when, is stated only where a forecast says so: it knows the order of the queue.
    """

    def __init__(self, state: SchedulerState, engine: PolicyEngine, forecast: Forecast | None) -> None:
        self.forecast = forecast
        self._state, self._engine = state, engine

    def live_job(self, number: int) -> Job | None:
        """A job that is not over."""
        return self._state.ledger.jobs.get(number)

    def is_for_the_policy(self, job: Job) -> bool:
        """Whether a job would be queued if the policy in force were compiled."""
        return self._engine.stands_by and job.job_id in self._state.job_index.entering

    def why(self, job: Job) -> dict[str, Any]:
        """The reason of a job, with its evidence, and until when it waits before a machine is rented for it.

        The job may be one that is not submitted, numbered 0 as in the forecast.
        """
        found = self._why(job)
        until_s = job.account.waits_until_s if job.account is not None and job.rental is None else None
        if until_s is None:
            return found
        until_at = until_s + self._state.ledger.epoch_at
        text = f"{found['text']}; if it still waits at {instant(until_at)}, a machine is rented for it"
        return {**found, "text": text, "evidence": {**found["evidence"], "rents_at": until_at}}

    def _why(self, job: Job) -> dict[str, Any]:
        if job.rental is not None and job.run is None:
            return booting(job.rental.type, job.rental.count)
        if not self.free and self._booting:
            outlook, evidence = self._outlook(job)
            return reason("no-nodes", f"no node is up yet{outlook}", **evidence)
        if not self.free and self._engine.shared_offers and not self._engine.stands_by:
            policy = self._state.ledger.policy
            return reason("no-nodes", f"no node is up; {policy} decides when to rent one")
        if not self.free:
            return reason("no-nodes", "no node is up; `betimes nodes` lists them")
        if job.run is not None and not job.run.launched:
            return self._until_they_leave(job)
        binding = job.binding or {}
        if job.set_id is not None:
            return self._within_its_set(job, job.set_id)
        if self._engine.stands_by:
            return compiling(self._state.ledger.policy)
        if "owed" in binding:
            victims = [other.job_id for other in self._jobs if other.makes_room_for == job.job_id]
            if not victims and self._engine.shared_offers:
                where = " and ".join(name for name, _ in binding["places"])
                return reason(
                    "nominated", f"it starts on {where} once there is room, and all of it is up", jobs=[]
                )
            make = "makes" if len(victims) == 1 else "make"
            return reason("nominated", f"{named(victims)} {make} room for it", jobs=victims)
        short = self._too_little(job)
        if short is not None:
            return short
        if "start_s" in binding:
            start_at = binding["start_s"] + self._state.ledger.epoch_at
            text = f"its start is reserved for about {instant(start_at)}"
            return reason("reserved", text, **self._evidence, about_at=start_at)
        return self._not_its_turn(job)

    def _within_its_set(self, job: Job, number: int) -> dict[str, Any]:
        """A trial waits for a unit of its set."""
        whole = self._state.ledger.jobs[number]
        if whole.units == 0:
            return reason("set", f"a trial of job {number}, which has no units yet", job=number)
        units = f"{whole.units} unit{'' if whole.units == 1 else 's'}"
        return reason("set", f"a trial of job {number}; waits for one of its {units}", job=number)

    def idle(self) -> dict[str, Any]:
        """Why a decision started no job: the reason of the job that is next under the policy."""
        first = self._first
        if first is None:
            queued = (job.job_id for job in self._jobs if job.status is Status.QUEUED and job.set_id is None)
            first = min(queued, default=None)
        if first is None:
            return reason("queue-empty", "no job is queued")
        found = self.why(self._state.ledger.jobs[first])
        text = f"job {first} is next: {found['text']}"
        return reason(found["code"], text, **{**found["evidence"], "job": first})

    def _until_they_leave(self, job: Job) -> dict[str, Any]:
        places = {name for name, _ in job.places}
        leaving = [
            other.job_id
            for other in self._jobs
            if other.run is not None
            and other.run.stopping
            and places & {name for name, _ in other.run.places}
        ]
        if not leaving:
            return reason("leaving", "its run is being started", jobs=leaving)
        return reason(
            "leaving", f"its nodes are chosen; waits for {named(leaving)} to stop there", jobs=leaving
        )

    def _too_little(self, job: Job) -> dict[str, Any] | None:
        """What it lacks; null: it would fit into what is free."""
        engine, demand_on, units = self._engine.engine, job.spec.unit.amounts_on, job.spec.min_units
        if isinstance(engine, LiveNodes):
            tasks = engine.tasks(wanted_of(job))
            demand_on, units = tasks.demand_on, tasks.count
        free = self._free_for(job)
        if not free:
            return self._lacks_labels(job)
        nodes, there = self._state.ledger.nodes, dict[str, list[_Free]]()
        for name, room in free.items():
            family = nodes[name].family
            if (demand := demand_on(family)) is not None:
                there.setdefault(family if job.spec.demand else "", []).append((room, demand))
        if not there:
            return self._lacks_family(job, free)
        fits = sum(most(room, demand, units) for some in there.values() for room, demand in some) >= units
        (missing, at, left), family = min((_missing(some, units), family) for family, some in there.items())
        if missing > 0 and not fits:
            amount, needed, spare = (each / PER_UNIT[at] for each in (missing, missing + left, left))
            name = f"{NAMES[at]}{'s' if needed != 1 and at < 2 else ''}"
            if job.spec.require:
                name += f" on nodes with {' and '.join(as_texts(job.spec.required))}"
            if family:
                name += f" on family {family}"
            text = f"needs {needed:g} {name}" + (f", {spare:g} free" if left else "")
            return self._short(job, text, missing=amount, resource=NAMES[at])
        if isinstance(engine, LivePool) and (few := units - engine.free_units) > 0:
            text = f"needs {units} of the pool's {engine.units} unit{'' if engine.units == 1 else 's'}"
            at = pool_resource(nodes.values())
            if there[family][0][1][at] < PER_UNIT[at]:
                text += f" (each a whole {NAMES[at]})"
            text += f", {engine.free_units} free" if engine.free_units else ""
            return self._short(job, text, missing=few, resource="unit")
        if not fits:
            text = "enough is free in total, but no single node has all that it needs"
            if job.spec.require:
                text = f"{text} and {' and '.join(as_texts(job.spec.required))}"
            outlook, evidence = self._outlook(job)
            return reason("no-room", text + outlook, **self._evidence, **evidence)
        return None

    def _free_for(self, job: Job) -> dict[str, Amounts]:
        """What the nodes that take work and have its labels have left, by name."""
        if not job.spec.require:
            return self.free
        nodes = self._state.ledger.nodes
        return {
            name: room
            for name, room in self.free.items()
            if suits(nodes[name].machine.labels, job.spec.required)
        }

    def _lacks_labels(self, job: Job) -> dict[str, Any]:
        """No node that is up has the labels that it requires."""
        nodes, required = self._state.ledger.nodes, job.spec.required
        there = [nodes[name].machine.labels for name in self.free]
        text = why_none_suits(required, there, "node that is up", "those that are up")
        booting = [name for name in self._booting if suits(nodes[name].machine.labels, required)]
        if booting:
            outlook, evidence = self._outlook(job)
            return reason("no-label", f"{text}{outlook}", **{"nodes": booting, **evidence})
        if any(suits(offer.labels, required) for offer in self._engine.shared_offers):
            text = f"{text}; {self._state.ledger.policy} decides when to rent one"
        return reason("no-label", str(text), require=dict(required))

    def _lacks_family(self, job: Job, free: Iterable[str]) -> dict[str, Any]:
        """No node that is up and has its labels is of a family on which it can run."""
        nodes = self._state.ledger.nodes
        wanted, there = sorted(job.spec.demand), sorted({nodes[name].family for name in free})
        text = f"no node that is up is of family {' or '.join(wanted)}; those that are up are of {', '.join(there)}"
        booting = [name for name in self._booting if nodes[name].family in wanted]
        if booting:
            outlook, evidence = self._outlook(job)
            return reason("no-family", f"{text}{outlook}", **{"nodes": booting, **evidence})
        if any(offer.family in wanted for offer in self._engine.shared_offers):
            text = f"{text}; {self._state.ledger.policy} decides when to rent one"
        return reason("no-family", text, families=wanted)

    def _short(self, job: Job, text: str, **lacks: Any) -> dict[str, Any]:
        outlook, evidence = self._outlook(job)
        return reason("no-room", f"{text}{outlook}", **self._evidence, **lacks, **evidence)

    def _not_its_turn(self, job: Job) -> dict[str, Any]:
        """There is room for it, and yet it has not been started."""
        engine, policy = self._engine.engine, self._state.ledger.policy
        if isinstance(engine, LivePool):
            asked, why = engine.why_less(job.job_id)
            if why:
                text = f"{policy} gives it {asked} unit{'' if asked == 1 else 's'}, but {why}"
                return reason("cut", text, **self._evidence, asked=asked)
        claiming = sorted(self._state.job_index.nominated)
        outlook, evidence = self._outlook(job)
        first = self._first
        if first is not None and first != job.job_id:
            text = f"job {first} is next under {policy}{outlook}"
            return reason("turn", text, **self._evidence, **evidence, job=first)
        if claiming:
            text = f"what is free is kept for {named(claiming)}, for which other jobs are preempted{outlook}"
            return reason("claimed", text, **self._evidence, **evidence, jobs=claiming)
        text = f"enough is free, but {policy} does not start it yet{outlook}"
        return reason("withheld", text, **self._evidence, **evidence)

    def _outlook(self, job: Job) -> tuple[str, dict[str, Any]]:
        """What the forecast has of its start: how many are ahead, when it is, and who ends then; and the evidence."""
        known = self.forecast is not None and self.forecast.knows(job.job_id)
        start_at = self.forecast.times(job.job_id)[0] if self.forecast is not None else None
        if start_at is None and self._booting:
            return f"; node {self._booting[0]} is booting", {"nodes": self._booting}
        if self.forecast is None or not known:
            return "", {}
        if start_at is None:
            return "; it never starts unless the load or the nodes change", {}
        count, ahead = self.forecast.starting_before(start_at, MOST_NAMED)
        ending = self.forecast.finishing_at(start_at)
        text = f"; {count:,} job{'' if count == 1 else 's'} ahead" if count else ""
        text += f"; expected {instant(start_at)}"
        if ending:
            text += f", when {named(ending)} end{'s' if len(ending) == 1 else ''}"
        elif booted := [name for name, up_at in self._boots.items() if abs(up_at - start_at) < BOOT_SAME_S]:
            text += f", when node {booted[0]} is up"
        evidence = {"about_at": start_at, "ahead": count, "jobs_ahead": ahead}
        return text, {**evidence, "jobs_ending": ending[:MOST_NAMED]}

    @cached_property
    def _jobs(self) -> list[Job]:
        return list(self._state.ledger.jobs.values())

    @cached_property
    def free(self) -> dict[str, Amounts]:
        """What the nodes that take work have left, by name."""
        occupancy, nodes = self._state.occupancy, self._state.ledger.nodes
        return {
            name: occupancy.free_on(name)
            for name, node in nodes.items()
            if node.status == UP and node.is_shared
        }

    @cached_property
    def _booting(self) -> list[str]:
        nodes = self._state.ledger.nodes
        return [name for name, node in nodes.items() if node.status == BOOTING and node.is_shared]

    @cached_property
    def _boots(self) -> dict[str, float]:
        return self._engine.boots(self._state.now_at)

    @cached_property
    def _total(self) -> list[int]:
        return [sum(room[at] for room in self.free.values()) for at in range(3)]

    @cached_property
    def _evidence(self) -> dict[str, Any]:
        return {
            "free": {
                name: amount / per for name, amount, per in zip(NAMES, self._total, PER_UNIT, strict=True)
            }
        }

    @cached_property
    def _first(self) -> int | None:
        """The job that is next under the policy."""
        return self._engine.engine.first_waiting()


def _missing(there: Sequence[_Free], times: int) -> tuple[int, int, int]:
    """What is lacking on these nodes, where one needs the same on all, so often: how much, of what, beside how much."""
    demand = there[0][1]
    left = [sum(room[at] for room, _ in there) for at in range(3)]
    return max((need * times - left[at], at, left[at]) for at, need in enumerate(demand) if need > 0)
