"""Why queued jobs wait at one instant, found out on request, from free resources and the forecast."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from betimes.cluster.labels import Labels, as_texts, suits, why_none_suits
from betimes.cluster.resources import PER_UNIT, Amounts, UnitDemand
from betimes.cluster.tasks import JobTasks
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.scheduling.engine_factory import pool_resource, request_of
from betimes.service.scheduling.fleet_limits import LimitsOfFleet, outlasts, too_long
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import BOOTING, UP, Node
from betimes.service.scheduling.node_events import booting
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.promises import Forecast, could_hold
from betimes.service.scheduling.reasons import compiling, named, reason
from betimes.service.scheduling.shares import Standing
from betimes.service.scheduling.state import SchedulerState, most
from betimes.service.scheduling.waiting_for import lacks
from betimes.service.spec.spelling import job_number
from betimes.units import instant

NAMES = ("GPU", "core", "GiB of memory")
BOOT_SAME_S = 2.0  # between a start and a node's being up: a forecast and a reason are not of one instant
MOST_NAMED = 20  # jobs in a reason's evidence
MOST_AWAY = 3  # drained and lost nodes in a reason
_UNTIL_A_ROUND = ("no-room", "turn", "withheld", "no-nodes", "no-label", "no-family")
_FOR_WANT_OF_NODES = ("no-room", "turn", "no-nodes", "no-label", "no-family")

_Free = tuple[Amounts, Amounts]  # free amounts of a node, and the demand there


class _Asked(NamedTuple):
    """A request as a key of lacks."""

    unit: UnitDemand
    required: Labels
    units: int  # at least
    tasks: JobTasks | None  # of a job on nodes
    closed: frozenset[str] = frozenset()  # nodes that close before it would be done


class _Lack(NamedTuple):
    """The lack of jobs with equal requests. text: without the start; both are empty for labels and families."""

    code: str
    text: str = ""
    evidence: dict[str, Any] = {}  # noqa: RUF012 (never changed)


class WaitReasons:
    """The reasons of queued jobs at one instant; what all of them need is worked out once.

    The jobs that free resources, and when, are named only from a forecast: it knows the order of the queue.
    """

    def __init__(
        self, state: SchedulerState, engine: PolicyEngine, limits: LimitsOfFleet, forecast: Forecast | None
    ) -> None:
        self.forecast = forecast
        self._state, self._engine = state, engine
        rents = not engine.stands_by and (engine.shared_offers or engine.offers_for_jobs)
        self._no_more = limits.why_no_more() if rents else None
        self._longest_run_s = engine.longest_run_s if rents else math.inf
        self._lacks = dict[_Asked, _Lack | None]()  # a long queue asks for few different things

    def live_job(self, number: int) -> Job | None:
        """A job that is not over."""
        return self._state.ledger.jobs.get(number)

    def basis_of(self, job: Job) -> str:
        """The source of the run time with which its end is foreseen."""
        return self._state.ledger.promise_errors.takes(job, self._state.now_at)[1]

    def is_for_the_policy(self, job: Job) -> bool:
        """Whether a job would be queued if the policy in force were compiled."""
        return self._engine.stands_by and job.job_id in self._state.job_index.entering

    def why(self, job: Job) -> dict[str, Any]:
        """The reason of a job, with its evidence and its deadline for renting a machine.

        The job may be an unsubmitted one, numbered 0 as in the forecast.
        """
        found = self._why(job)
        if job.user in self._ahead_of_share and found["code"] in ("no-room", "turn"):
            found = {
                **found,
                "text": f"{found['text']}; {self._ahead_of_share[job.user].why_behind(job.user)}",
            }
        lasts_s = self._engine.lasts_s(job)
        if lasts_s > self._longest_run_s and job.rental is None and job.spec.rent != "never":
            why = too_long(lasts_s, self._longest_run_s, job.basis)
            found = {**found, "text": f"{found['text']}; no machine is rented for it, since {why}"}
        elif self._no_more is not None and job.rental is None and job.spec.rent != "never":
            found = {**found, "text": f"{found['text']}; nothing more is rented, since {self._no_more}"}
        elif job.reason is not None and job.reason["code"] == "budget":
            found = {**found, "text": f"{found['text']}; no machine is rented for it: {job.reason['text']}"}
        if found["code"] in _UNTIL_A_ROUND and (at := self._engine.plans_at) is not None:
            text = f"{found['text']}; {self._state.ledger.policy} plans next at {instant(at)}"
            found = {**found, "text": text, "evidence": {**found["evidence"], "plans_at": at}}
        if found["code"] in _FOR_WANT_OF_NODES and (away := self._away(job)):
            text = (
                f"{found['text']}; {', '.join(f'node {name} is {status}' for name, status in away.items())}"
            )
            found = {**found, "text": text, "evidence": {**found["evidence"], "away": list(away)}}
        until_s = job.account.waits_until_s if job.account is not None and job.rental is None else None
        if until_s is None:
            return found
        until_at = until_s + self._state.ledger.epoch_at
        text = f"{found['text']}; if it still waits at {instant(until_at)}, a machine is rented for it"
        return {**found, "text": text, "evidence": {**found["evidence"], "rents_at": until_at}}

    def profiled(self, job: Job) -> dict[str, Any] | None:
        """Why a job that runs shares its machines with none yet; null: its policy does not profile it."""
        until_at = self._engine.profiled_until_at(job.job_id)
        if until_at is None or until_at == math.inf or job.status is not Status.RUNNING:
            return None
        text = (
            f"is profiled until {instant(until_at)} at the latest: it shares its machines with no job until its "
            "reports of progress show how fast it is alone"
        )
        return reason("profiled", text, until_at=until_at)

    def for_resource(self, job: Job) -> dict[str, Any]:
        """The reason of a job that waits for a resource, with the jobs that have it now."""
        name = (job.reason or {})["evidence"]["resource"]
        return lacks(name, self._engine.settings.counted.get(name, 0), self._state.job_index.has_of(name))

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
            if not victims:
                where = " and ".join(dict.fromkeys(name for name, _ in binding["places"]))
                up = ", and all of it is up" if self._engine.shared_offers else ""
                return reason("nominated", f"it starts on {where} once there is room{up}", jobs=[])
            make = "makes" if len(victims) == 1 else "make"
            return reason("nominated", f"{named(victims)} {make} room for it", jobs=victims)
        closing = self._closing(job)
        if closing is not None:
            return closing
        ledger = self._state.ledger
        nominated = [ledger.jobs[number] for number in self._state.job_index.nominated]
        limit = ledger.shares.limit_of(job, ledger.users, nominated)
        if limit is not None:
            return self._with_outlook(job, limit)
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
        """Why a decision started no job: the reason of the policy's next job."""
        first = self._first
        if first is None:
            queued = (job.job_id for job in self._jobs if job.status is Status.QUEUED and job.set_id is None)
            first = min(queued, default=None)
        if first is None:
            return reason("queue-empty", "no job is queued")
        found = self.why(self._state.ledger.jobs[first])
        text = f"job {job_number(first)} is next: {found['text']}"
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

    def _closing(self, job: Job) -> dict[str, Any] | None:
        """The maintenance or the lease that keeps the job from starting now; null: neither does it alone."""
        windows, now_at = self._state.ledger.maintenance, self._state.now_at
        if not self._engine.may_close:
            return None
        lasts_s, nodes = self._engine.lasts_s(job), self._state.ledger.nodes
        ends_at = now_at + lasts_s
        free = self._free_for(job.spec.required)
        hit = {
            name: window
            for name in free
            if (window := windows.hit(nodes[name], now_at, ends_at, job.user)) is not None
        }
        lease_until_at = {name: self._engine.lease_until_at(nodes[name]) for name in free}
        outlasted = {name: at for name, at in lease_until_at.items() if at < ends_at}
        closed = frozenset((*hit, *outlasted))
        if not closed:
            return None
        if len(closed) < len(free) and (self._lack(job, closed) is None or self._lack(job) is not None):
            return None
        if not hit:
            may_rent = self._engine.shared_offers and lasts_s <= self._longest_run_s and self._no_more is None
            more = f"; {self._state.ledger.policy} decides when to rent another" if may_rent else ""
            return self._with_outlook(job, outlasts(lasts_s, outlasted, more))
        window = min(hit.values(), key=lambda each: each.to_at)
        return self._with_outlook(job, window.keeps_waiting(now_at, hit))

    def _with_outlook(self, job: Job, why: dict[str, Any]) -> dict[str, Any]:
        """A reason that a capability has for the job, with the forecast of its start."""
        outlook, evidence = self._outlook(job)
        return reason(why["code"], f"{why['text']}{outlook}", **{**evidence, **why["evidence"]})

    def _lack(self, job: Job, closed: frozenset[str] = frozenset()) -> _Lack | None:
        """The job's lack beside the closed nodes; null: free resources would do."""
        engine, spec = self._engine.engine, job.spec
        tasks = engine.jobs.tasks(request_of(job)) if isinstance(engine, LiveNodes) else None
        asked = _Asked(spec.unit, spec.required, spec.min_units, tasks, closed)
        if asked not in self._lacks:
            self._lacks[asked] = self._lack_of(asked)
        return self._lacks[asked]

    def _too_little(self, job: Job) -> dict[str, Any] | None:
        """The job's lack; null: free resources would do."""
        lack, spec = self._lack(job), job.spec
        if lack is None:
            return None
        if lack.code == "no-label":
            return self._lacks_labels(job)
        if lack.code == "no-family":
            return self._lacks_family(job, self._free_for(spec.required))
        outlook, evidence = self._outlook(job)
        return reason("no-room", f"{lack.text}{outlook}", **self._evidence, **lack.evidence, **evidence)

    def _lack_of(self, asked: _Asked) -> _Lack | None:
        """The lack of jobs with this request; null: free resources would do."""
        engine, demand_on, units = self._engine.engine, asked.unit.amounts_on, asked.units
        if asked.tasks is not None:
            demand_on, units = asked.tasks.demand_on, asked.tasks.count
        free = self._free_for(asked.required)
        if not free:
            return _Lack("no-label")
        free = {name: room for name, room in free.items() if name not in asked.closed}
        nodes, there = self._state.ledger.nodes, dict[str, list[_Free]]()
        for name, room in free.items():
            family = nodes[name].family
            if (demand := demand_on(family)) is not None:
                there.setdefault(family if asked.unit.by_family else "", []).append((room, demand))
        if not there:
            return _Lack("no-family")
        fits = sum(most(room, demand, units) for some in there.values() for room, demand in some) >= units
        (missing, at, left), family = min((_missing(some, units), family) for family, some in there.items())
        if missing > 0 and not fits:
            amount, needed, spare = (each / PER_UNIT[at] for each in (missing, missing + left, left))
            name = f"{NAMES[at]}{'s' if needed != 1 and at < 2 else ''}"
            if asked.required:
                name += f" on {self._nodes_with(asked.required)}"
            if family:
                name += f" on family {family}"
            text = f"needs {needed:g} {name}" + (f", {spare:g} free" if left else "")
            return _Lack("no-room", text, {"missing": amount, "resource": NAMES[at]})
        if isinstance(engine, LivePool) and (few := units - engine.free_units) > 0:
            text = f"needs {units} of the pool's {engine.units} unit{'' if engine.units == 1 else 's'}"
            at = pool_resource(nodes.values())
            if there[family][0][1][at] < PER_UNIT[at]:
                text += f" (each a whole {NAMES[at]})"
            text += f", {engine.free_units} free" if engine.free_units else ""
            return _Lack("no-room", text, {"missing": few, "resource": "unit"})
        if not fits:
            text = "enough is free in total, but no single node has all that it needs"
            if asked.required:
                text += f", of the {self._nodes_with(asked.required)}"
            return _Lack("no-room", text)
        return None

    def _nodes_with(self, required: Labels) -> str:
        """The nodes that have these labels, in words; in Slurm a label is a partition."""
        if self._engine.watches:
            return f"nodes of partition {' and '.join(name for name, _ in required)}"
        return f"nodes with {' and '.join(as_texts(required))}"

    def _free_for(self, required: Labels) -> dict[str, Amounts]:
        """Free amounts of the nodes that take work and have these labels, by name."""
        nodes = self._state.ledger.nodes
        return {name: room for name, room in self.free.items() if suits(nodes[name].machine.labels, required)}

    def _lacks_labels(self, job: Job) -> dict[str, Any]:
        """No node that is up has the labels that it requires."""
        nodes, required = self._state.ledger.nodes, job.spec.required
        there = [nodes[name].machine.labels for name in self.free]
        text = why_none_suits(required, there, "node that is up", "those that are up")
        if self._engine.watches:
            text = f"none of the {self._nodes_with(required)} takes jobs now"
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

    def _not_its_turn(self, job: Job) -> dict[str, Any]:
        """There is room for it, but it has not been started."""
        engine = self._engine.engine
        policy = "Slurm" if self._engine.watches else self._state.ledger.policy
        if isinstance(engine, LivePool):
            asked, why = engine.why_less(job.job_id)
            if why:
                text = f"{policy} gives it {asked} unit{'' if asked == 1 else 's'}, but {why}"
                return reason("cut", text, **self._evidence, asked=asked)
        claiming = sorted(self._state.job_index.nominated)
        outlook, evidence = self._outlook(job)
        first = self._first
        if first is not None and first != job.job_id:
            text = f"job {job_number(first)} is next under {policy}{outlook}"
            return reason("turn", text, **self._evidence, **evidence, job=first)
        if claiming:
            text = f"what is free is kept for {named(claiming)}, for which other jobs are preempted{outlook}"
            return reason("claimed", text, **self._evidence, **evidence, jobs=claiming)
        text = f"enough is free, but {policy} does not start it yet{outlook}"
        return reason("withheld", text, **self._evidence, **evidence)

    def _outlook(self, job: Job) -> tuple[str, dict[str, Any]]:
        """The forecast of its start: jobs ahead, the instant, and the jobs that end then; and the evidence."""
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
        elif any(abs(each.to_at - start_at) < BOOT_SAME_S for each in self._state.ledger.maintenance):
            text += ", when the maintenance ends"
        evidence = {"about_at": start_at, "ahead": count, "jobs_ahead": ahead}
        return text, {**evidence, "jobs_ending": ending[:MOST_NAMED]}

    def _away(self, job: Job) -> dict[str, str]:
        """The owned nodes that could run the job, and are drained or lost."""
        nodes = [node for node in self._away_nodes if could_hold(node, job.spec)]
        return {node.machine.name: node.status for node in nodes[:MOST_AWAY]}

    @cached_property
    def _away_nodes(self) -> list[Node]:
        return [node for node in self._state.ledger.away() if node.rented_at is None]

    @cached_property
    def _jobs(self) -> list[Job]:
        return list(self._state.ledger.jobs.values())

    @cached_property
    def _ahead_of_share(self) -> dict[str, Standing]:
        """The users who have had more of late than their weights give them."""
        ledger = self._state.ledger
        if ledger.shares.half_life_s is None:
            return {}
        standing = ledger.shares.standing(
            self._engine.users, {job.user for job in self._jobs}, self._state.now_s
        )
        return {name: parts for name, parts in standing.items() if parts.recent_frac > parts.share_frac}

    @cached_property
    def free(self) -> dict[str, Amounts]:
        """Free amounts of the nodes that take work, by name."""
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
    """The largest lack for `times` equal demands on these nodes: amount, index of the resource, free amount."""
    demand = there[0][1]
    left = [sum(room[at] for room, _ in there) for at in range(3)]
    return max((need * times - left[at], at, left[at]) for at, need in enumerate(demand) if need > 0)
