"""Why a job waits, stopped or failed: a code for programs, a sentence for people, and the evidence.

Waiting is explained on request (`WaitReasons`), from free resources and the forecast. Instants in sentences are in UTC
(`units.instant`); the command line converts them to the reader's clock.
"""

from __future__ import annotations

import math
import signal as signals
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from betimes.cluster.labels import Labels, as_texts, suits, why_none_suits
from betimes.cluster.resources import PER_UNIT, Amounts, UnitDemand
from betimes.cluster.tasks import JobTasks
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.machines.budgets import DAY
from betimes.service.scheduling.engine_factory import pool_resource, request_of
from betimes.service.scheduling.fleet_limits import LimitsOfFleet, Short, UserBudgets
from betimes.service.scheduling.job import Job, TrialSet
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import BOOTING, UP, Node
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.promises import Forecast, could_hold
from betimes.service.scheduling.shares import Standing
from betimes.service.scheduling.state import SchedulerState, most
from betimes.service.scheduling.windows import Maintenance
from betimes.units import humanise_s, instant

CODES = {
    "compiling": "the policy in force is still being compiled",
    "held": "a user holds it",
    "begin": "it is to begin later",
    "dependency": "a job that it depends on has not ended",
    "dependency-failed": "a job that it depends on did not succeed",
    "array-limit": "the array's limit of running elements is reached",
    "resource": "other jobs have what the service counts of a resource that it needs",
    "retry-delay": "it failed, and its retry is not due yet",
    "maintenance": "it would run into a maintenance of its nodes, or that goes on; or was stopped for one",
    "user-limit": "the running jobs of its user hold as much as they may",
    "no-room": "too few resources are free",
    "turn": "other jobs come first under the policy",
    "cut": "the policy gave it units that it did not receive; the sentence says why",
    "claimed": "the free resources are kept for a job that others are preempted for",
    "withheld": "enough is free, and the policy does not start it yet",
    "booting": "a machine that is rented for it alone is not up yet",
    "speculated": "it ran on a rented machine for as long as a short job may, and starts anew",
    "lease": "it would not be over before the lease of a rented machine ends",
    "budget": "its user has no budget left for rented machines",
    "lease-ended": "its rented machine was given back: by a limit for the fleet, or by hand",
    "not-rented": "the cloud did not give out a machine for it",
    "queue-empty": "no job is queued",
    "reserved": "the policy has reserved a later start for it",
    "profiled": "it runs alone on its machines until its throughput there is known",
    "nominated": "other jobs are being preempted for it",
    "leaving": "its nodes are chosen, and runs that are stopping still occupy them",
    "no-nodes": "no node is up",
    "no-label": "no node that is up has the labels that it requires",
    "no-family": "no node that is up is of a family of machines on which it can run",
    "preempted": "it was preempted for other jobs",
    "resized": "it restarts on another number of units",
    "suspended": "a user has suspended its run, which keeps its units",
    "requeued": "a user requeued it: it starts again when its turn comes",
    "set": "it is a trial, and other trials hold the units of its set",
    "trials": "some of its trials failed or were cancelled",
    "cancelled": "a user cancelled it",
    "node-lost": "its node was lost",
    "reclaimed": "the cloud reclaimed its node",
    "lost": "its run was lost: the machine restarted, or the exit of the run is unknown",
    "stopped": "its run was stopped from outside, by neither a user nor the policy",
    "exit-code": "its command exited with a code other than 0",
    "signal": "its command was ended by a signal",
    "time-limit": "it reached its time limit",
    "out-of-memory": "it was killed for using more memory than its limit",
    "start-failed": "its command could not be started",
}
"""Every code, and what it means."""

_REQUEUED = "; it is requeued"


def reason(code: str, text: str, **evidence: Any) -> dict[str, Any]:
    """A reason; the code is one of CODES."""
    return {"code": code, "text": text, "evidence": evidence}


def compiling(policy: str) -> dict[str, Any]:
    """There is no decision yet."""
    text = f"waits until policy {policy} is compiled; its completion time is promised then"
    return reason("compiling", text, policy=policy)


def by_user(user: str) -> dict[str, Any]:
    """Held."""
    return reason("held", f"held by {user}; `betimes release` lets it start", user=user)


def cancelled(user: str | None) -> dict[str, Any]:
    """Ended by a user."""
    return reason("cancelled", f"cancelled by {user}" if user else "cancelled", user=user)


def begin(at: float) -> dict[str, Any]:
    """Not before an instant that its user gave."""
    return reason("begin", f"is to begin at {instant(at)} or later", at=at)


def after(number: int, on: str) -> dict[str, Any]:
    """A dependency that is not met yet."""
    what = {"start": "start", "fail": "fail"}.get(on, "end")
    return reason("dependency", f"waits for job {number} to {what}", job=number)


def singleton(number: int, name: str) -> dict[str, Any]:
    """Another job of the same user and name came before."""
    return reason("dependency", f"waits for job {number}, which is called {name} too, to end", job=number)


def in_vain(number: int, ended: str) -> dict[str, Any]:
    """A dependency that will never be met, as it ended in another way."""
    has = {Status.CANCELLED: "was cancelled", Status.FINISHED: "has not failed"}.get(
        Status(ended), "has failed"
    )
    return reason("dependency-failed", f"depends on job {number}, which {has}", job=number, status=ended)


def array(first: int, most: int) -> dict[str, Any]:
    """The array's own limit."""
    elements = f"{most} running element{'' if most == 1 else 's'}"
    return reason("array-limit", f"the limit of {elements} of array {first} is reached", most=most)


def resource(name: str, there: int, had: Mapping[int, int]) -> dict[str, Any]:
    """Too little is left of a resource; had: how much, by the jobs that have some."""
    taken = (
        f"{sum(had.values())} of {there} taken by {named(sorted(had))}"
        if had
        else f"jobs before it need it ({there} in all)"
    )
    return reason("resource", f"waits for {name}: {taken}", resource=name, there=there, jobs=sorted(had))


def trials(of: TrialSet) -> dict[str, Any]:
    """Not all trials of a set finished."""
    ends = [f"{count} {how}" for count, how in ((of.failed, "failed"), (of.cancelled, "cancelled")) if count]
    text = f"of {of.count} trials: {', '.join(ends)}"
    return reason("trials", text, failed=of.failed, cancelled=of.cancelled)


def retry(
    number: int, most: int, code: int | None, signal: int | None, delay_s: float, how: str | None = None
) -> dict[str, Any]:
    """Failed, with attempts left; `how`, where code and signal do not tell."""
    return reason(
        "retry-delay",
        f"{how or _how(code, signal)}; retry {number} of {most} in {delay_s:g} s",
        exit_code=code,
        signal=signal,
        delay_s=delay_s,
    )


def too_long(lasts_s: float, longest_run_s: float) -> str:
    """Why no machine is rented for a job; completes `since`."""
    takes = f"takes jobs of at most {humanise_s(longest_run_s)}" if longest_run_s else "takes no jobs"
    return f"it may take {humanise_s(lasts_s)}, and a rented machine {takes} (--longest-lease)"


def booting(type: str, count: int) -> dict[str, Any]:  # noqa: A002
    """Its rented machines are booting."""
    what = f"a machine of type {type}" if count == 1 else f"{count} machines of type {type}"
    return reason("booting", f"{what} is rented for it alone, and boots", type=type, count=count)


def speculated() -> dict[str, Any]:
    """It is no short job."""
    text = "it ran on a rented machine for as long as a short job may; it starts anew, and waits if it must"
    return reason("speculated", text)


def over_budget(found: Short, usd: float) -> dict[str, Any]:
    """Its user's budget does not allow for it."""
    when = f"{'on' if found.period == DAY else 'in'} {found.name}"
    text = (
        f"{found.user} has spent ${found.spent_usd:,.2f} of ${found.budget_usd:,.2f} on rented machines {when}, and "
        f"this would cost about ${usd:,.2f}"
    )
    evidence = {"user": found.user, "budget_usd": found.budget_usd, "spent_usd": found.spent_usd, "usd": usd}
    return reason("budget", text, **evidence, **{found.period: found.name})


def budget_spent(found: Short) -> dict[str, Any]:
    """Its user may use no rented machines for now, and the policy lets jobs share them."""
    evidence = {"user": found.user, "budget_usd": found.budget_usd, "until_at": found.until_at}
    return reason("budget", f"{found.text}; it waits until {instant(found.until_at)}", **evidence)


def not_rented(type: str, text: str, again_s: float) -> dict[str, Any]:  # noqa: A002
    """No machine for it."""
    when = f"; asked again in {again_s:g} s" if again_s else ""
    return reason("not-rented", f"no machine of type {type} is rented for it: {text}{when}", type=type)


def lease_ended(node: str, why: str) -> dict[str, Any]:
    """Its rented machine had to go."""
    return reason("lease-ended", f"node {node}, where it ran, was given back, since {why}", node=node)


def stopping(why: str, by_at: float | None) -> dict[str, Any]:
    """Its run is stopping."""
    text = {
        "resized": "stopped, to restart on another number of units",
        "cancelled": "cancelled, and stopping",
        "requeued": "requeued by a user, and stopping",
    }[why]
    return reason(why, text, by_at=by_at)


def suspended(number: int, user: str, at: float) -> dict[str, Any]:
    """Its run stands still."""
    text = (
        f"suspended by {user} at {instant(at)}, and keeps its units; `betimes resume {number}` lets it go on"
    )
    return reason("suspended", text, user=user, at=at)


def requeued() -> dict[str, Any]:
    """Stopped by a user, to start again."""
    return reason("requeued", "requeued by a user")


def preempted(by: Sequence[int], policy: str, grace_s: float, by_at: float) -> dict[str, Any]:
    """Preempted for other jobs."""
    for_whom = f"for {named(by)} " if by else ""
    text = f"makes room {for_whom}under {policy}, within {grace_s:g} s"
    return reason("preempted", text, jobs=[*by], policy=policy, grace_s=grace_s, by_at=by_at)


def node_lost(name: str) -> dict[str, Any]:
    """Its node was lost."""
    return reason("node-lost", f"node {name} was lost{_REQUEUED}", node=name)


def reclaimed(name: str) -> dict[str, Any]:
    """The cloud reclaimed its rented node."""
    return reason("reclaimed", f"the cloud reclaimed node {name}{_REQUEUED}", node=name)


def stopped_for(name: str, window: Maintenance) -> dict[str, Any]:
    """Its run had to make way for a maintenance."""
    why = f" ({window.reason})" if window.reason else ""
    text = f"node {name} is emptied for the maintenance{why} at {instant(window.from_at)}{_REQUEUED}"
    return reason("maintenance", text, maintenance=window.number, node=name)


def lost(message: str | None) -> dict[str, Any]:
    """Its run was lost, and is to be repeated."""
    return reason("lost", f"its run was lost{f': {message}' if message else ''}{_REQUEUED}")


def not_again(why: dict[str, Any] | None) -> dict[str, Any]:
    """A loss after which the job would be requeued, had it not been submitted with requeue = false."""
    found = why or reason("stopped", "its run was stopped from outside")
    text = found["text"].removesuffix(_REQUEUED)
    return {**found, "text": f"{text}; it is not requeued, as it was submitted with requeue = false"}


def unknown_end(message: str | None, requeue: bool) -> dict[str, Any]:
    """The exit of its run is unknown, and it is not to be run again."""
    text = f"its run was lost{f': {message}' if message else ''}; its work may be done, and it is not run again, as "
    return reason("lost", text + ("no retries are left" if requeue else "requeue is false"))


def end_not_handled(error: str) -> dict[str, Any]:
    """The report of its run's end could not be handled."""
    text = f"the service could not handle the end of its run ({error}); its work may be done: "
    return reason(
        "lost", text + "`betimes events --kind set-aside --json` shows why, `betimes logs` what it printed"
    )


def lost_again(times: int, message: str | None) -> dict[str, Any]:
    """Its runs are lost time and again."""
    text = f"its run was lost {times} times in a row{f': {message}' if message else ''}"
    return reason("lost", text, times=times)


def failed(why: str, code: int | None, signal: int | None, message: str | None) -> dict[str, Any]:
    """Why it failed."""
    if why == "start-failed":
        return reason("start-failed", message or "its command could not be started")
    if why == "time-limit":
        return reason("time-limit", message or "it reached its time limit", exit_code=code, signal=signal)
    if why == "out-of-memory":
        return reason(why, message or "it used more memory than its limit", exit_code=code, signal=signal)
    kind = "signal" if signal is not None else "exit-code"
    return reason(kind, _how(code, signal), exit_code=code, signal=signal)


def named(numbers: Sequence[int]) -> str:
    """A few jobs by their numbers."""
    if len(numbers) == 1:
        return f"job {numbers[0]}"
    return "jobs " + ", ".join(map(str, numbers[:5])) + (" and others" if len(numbers) > 5 else "")


def _how(code: int | None, signal: int | None) -> str:
    if code is None and signal is None:
        return "its run was lost, and its exit is unknown"
    if signal is not None:
        known = {one.value: one.name for one in signals.Signals}
        return f"ended by {known.get(signal, f'signal {signal}')}"
    return f"exited with {code}"


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

    def __init__(self, state: SchedulerState, engine: PolicyEngine, forecast: Forecast | None) -> None:
        self.forecast = forecast
        self._state, self._engine = state, engine
        limits = LimitsOfFleet(state, engine, UserBudgets(state, engine))
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
            had, due = self._ahead_of_share[job.user]
            text = f"{found['text']}; {job.user} used more of late: {had:.0%}, where {due:.0%} is the user's share"
            found = {**found, "text": text}
        lasts_s = self._engine.lasts_s(job)
        if lasts_s > self._longest_run_s and job.rental is None and job.spec.rent != "never":
            why = too_long(lasts_s, self._longest_run_s)
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
        return resource(
            name, self._engine.settings.resources.get(name, 0), self._state.job_index.has_of(name)
        )

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
        limit = self._state.ledger.shares.limit_of(job, self._state.ledger.users)
        if limit is not None:
            what, has, most = limit
            outlook, evidence = self._outlook(job)
            text = f"the running jobs of {job.user} hold {has:g} of at most {most:g} {what}{outlook}"
            return reason("user-limit", text, user=job.user, what=what, has=has, most=most, **evidence)
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

    def _closing(self, job: Job) -> dict[str, Any] | None:
        """The maintenance or the lease that keeps the job from starting now; null: neither does it alone."""
        windows, now_at = self._state.ledger.maintenance, self._state.now_at
        if not self._engine.may_close:
            return None
        ends_at, nodes = now_at + self._engine.lasts_s(job), self._state.ledger.nodes
        free = self._free_for(job.spec.required)
        hit = {
            name: window for name in free if (window := windows.hit(nodes[name], now_at, ends_at)) is not None
        }
        lease_until_at = {name: self._engine.lease_until_at(nodes[name]) for name in free}
        outlasted = {name: at for name, at in lease_until_at.items() if at < ends_at}
        closed = frozenset((*hit, *outlasted))
        if not closed:
            return None
        if len(closed) < len(free) and (self._lack(job, closed) is None or self._lack(job) is not None):
            return None
        if not hit:
            return self._outlasts(job, outlasted)
        window = min(hit.values(), key=lambda each: each.to_at)
        begun, why = window.from_at <= now_at, f" ({window.reason})" if window.reason else ""
        text = f"waits for the end of the maintenance{why} at {instant(window.to_at)}"
        if not begun:
            when = f"from {instant(window.from_at)} to {instant(window.to_at)}"
            text = f"would run into the maintenance{why} {when}"
        outlook, evidence = self._outlook(job)
        more = {"maintenance": window.number, "from_at": window.from_at, "to_at": window.to_at}
        return reason("maintenance", f"{text}{outlook}", **{**evidence, **more, "nodes": sorted(hit)})

    def _outlasts(self, job: Job, lease_until_at: Mapping[str, float]) -> dict[str, Any]:
        """The job would not be over when the leases of these nodes end."""
        name = max(lease_until_at, key=lease_until_at.__getitem__)
        text = (
            f"may take {humanise_s(self._engine.lasts_s(job))}, and node {name} takes jobs that are over by "
        )
        text += f"{instant(lease_until_at[name])}, as its lease then ends (--longest-lease)"
        if (
            self._engine.shared_offers
            and self._engine.lasts_s(job) <= self._longest_run_s
            and self._no_more is None
        ):
            text += f"; {self._state.ledger.policy} decides when to rent another"
        outlook, evidence = self._outlook(job)
        more = {"nodes": sorted(lease_until_at), "until_at": lease_until_at[name]}
        return reason("lease", f"{text}{outlook}", **{**evidence, **more})

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
        labels = " and ".join(as_texts(asked.required))
        fits = sum(most(room, demand, units) for some in there.values() for room, demand in some) >= units
        (missing, at, left), family = min((_missing(some, units), family) for family, some in there.items())
        if missing > 0 and not fits:
            amount, needed, spare = (each / PER_UNIT[at] for each in (missing, missing + left, left))
            name = f"{NAMES[at]}{'s' if needed != 1 and at < 2 else ''}"
            if asked.required:
                name += f" on nodes with {labels}"
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
            return _Lack("no-room", f"{text} and {labels}" if labels else text)
        return None

    def _free_for(self, required: Labels) -> dict[str, Amounts]:
        """Free amounts of the nodes that take work and have these labels, by name."""
        nodes = self._state.ledger.nodes
        return {name: room for name, room in self.free.items() if suits(nodes[name].machine.labels, required)}

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

    def _not_its_turn(self, job: Job) -> dict[str, Any]:
        """There is room for it, but it has not been started."""
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
        standing = ledger.shares.standing(ledger.users, {job.user for job in self._jobs}, self._state.now_s)
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
