"""Nodes come, drain, vanish and go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from betimes.core.nodes.machines.rented import FAILED, RELEASED, TAKEN_AWAY
from betimes.errors import Conflict, Unknown
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.effects import DropRun, GiveBack
from betimes.service.scheduling.engine_renewal import EngineRenewal
from betimes.service.scheduling.events import Ended, NodeFault, RunId
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.node import (
    BOOTING,
    DRAINED,
    DRAINING,
    EARLY_S,
    GONE,
    LOST,
    NODE,
    UP,
    Node,
    charged_usd,
)
from betimes.service.scheduling.node_events import (
    lease_ended,
    node_lost,
    reclaimed,
)
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.trials import TrialSets
from betimes.units import S_PER_H

LOSE = "lose"
"""The step of a turn in which a run goes with its node."""
CAUSES = {"given-back": RELEASED, "reclaimed": TAKEN_AWAY, "boot-failed": FAILED}
"""Why a rented node goes, in the words of the log and in the core's."""


class Nodes(Part):
    """The transitions of nodes, each of which is an event, and their effects on the jobs there."""

    name = "nodes"

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        jobs: Jobs,
        runs: Runs,
        sets: TrialSets,
        renewal: EngineRenewal,
    ) -> None:
        self._state, self._engine = state, engine
        self._jobs, self._runs = jobs, runs
        self._sets, self._renewal = sets, renewal

    def node(self, name: str) -> Node:
        """A node. Raises Unknown."""
        node = self._state.ledger.nodes.get(name)
        if node is None:
            raise Unknown(f"there is no node {name!r}; `betimes nodes` lists them")
        return node

    def add(self, machine: Machine, cause: str) -> None:
        """Add an owned node. Raises Conflict for a name that is taken."""
        self.add_all([machine], cause)

    def add_all(self, machines: Iterable[Machine], cause: str) -> None:
        """Add owned nodes, which the engine takes over together. Raises Conflict for a name that is taken."""
        self._add([Node(machine) for machine in machines], cause)

    def rent(
        self,
        machines: Iterable[Machine],
        cause: str,
        status: Literal["booting", "up"] = BOOTING,
        for_job: int | None = None,
        for_user: str | None = None,
        *,
        by_policy: bool = False,
        asked_at: float | None = None,
    ) -> None:
        """Add rented nodes, which boot unless they are up. asked_at: when they were requested; null: now.

        The engine takes them over together. Raises Conflict for a name that is taken.
        """
        now_at = self._state.now_at
        up_at, rented_at = now_at if status == UP else None, now_at if asked_at is None else asked_at
        self._add(
            [Node(machine, status, rented_at, for_job, for_user, by_policy, up_at) for machine in machines],
            cause,
        )

    def change(self, machine: Machine) -> None:
        """A node has come back with another capacity."""
        self._log_added(replace(self._state.ledger.nodes[machine.name], machine=machine), "operator")
        self._engine.rebuild(self._state.ledger.policy)
        self._engine.look()

    def reprice(self, type: str, usd_per_h: float) -> None:  # noqa: A002
        """Rented nodes of a type cost so much from now on."""
        for node in list(self._state.ledger.nodes.values()):
            is_meant = node.rented_at is not None and node.machine.type == type
            if is_meant and node.machine.usd_per_h != usd_per_h:
                machine = replace(node.machine, usd_per_h=usd_per_h)
                # The ledger keeps the earlier prices: no event has to repeat them.
                self._log_added(replace(node, machine=machine, earlier_prices=()), "cloud")

    def booted(self, name: str, at: float) -> None:
        """A rented node is up, since an instant that may be before the service learns of it."""
        self.set_status(name, UP, "cloud", **self._earlier("up_at", at))

    def drain(self, name: str, by: str, reason: str, cause: str) -> Node:
        """Start nothing more on a node, for a reason in the words of a user; returns it as `set_status` does.

        One that drains or has drained takes the user and the reason. Raises Unknown, Conflict.
        """
        words: dict[str, Any] = {"drained_by": by, "drain_reason": reason}
        before = self.node(name)
        status, was = before.status, (before.drained_by, before.drain_reason)
        node = self.set_status(name, DRAINING, cause, **words)
        if node.status == status and was != (by, reason):
            self._state.log("node-status", cause, node=name, status=status, **words)
        return node

    def drain_faulty(self, fault: NodeFault) -> None:
        """Drain a node that is up; one that drains already, is lost or has left stays as it is."""
        node = self._state.ledger.nodes.get(fault.node)
        if node is not None and node.status == UP:
            self.drain(fault.node, fault.by, fault.why, "node")

    def set_status(self, name: str, status: str, cause: str, **more: Any) -> Node:
        """A node is up, drains, or is lost; returns the node. Raises Unknown, Conflict.

        A rented node is given back as soon as it has drained, and is returned as it then was; one that is rented for a
        job alone by the part that rented it, which has the job decided about anew. more: for the event.
        """
        node = self.node(name)
        if node.status == LOST and status != UP and node.rented_at is None:
            raise Conflict(f"node {name} is lost")
        if status == DRAINING and not self._state.occupancy.runs_on(name):
            status = DRAINED
        if node.status == status:
            return node
        if status == DRAINED and node.rented_at is not None and node.is_shared:
            return self._remove(name, cause, "given-back", **more)
        before = node.status
        self._state.log("node-status", cause, node=name, status=status, **more)
        if not node.is_shared:
            return node
        if status != UP:
            self._keep_off(name)
        if status == LOST:
            self._lose_runs(name, "timer", node_lost(name))
        if self._engine.rents(name):
            self._engine.machine_is(name, status, before)
        else:
            self._renewal.nodes_changed()
        return node

    def heard(self, name: str) -> None:
        """A heartbeat: watch the node from now on; a lost one is up again. Raises Unknown."""
        node = self.node(name)
        if not node.watched:
            self._state.log("node-watched", "node", node=name)
        if node.status == LOST:
            self.set_status(name, UP, "node")

    def noticed(self, name: str, goes_at: float) -> None:
        """The cloud will take a rented node away: what runs there is stopped in time."""
        self._state.log("node-noticed", "cloud", node=name, goes_at=goes_at)
        self.set_status(name, DRAINING, "cloud")

    def next_at(self) -> float:
        """The instant to stop a run next; infinity: not before a node has notice."""
        return min((at for at, *_ in self._to_stop()), default=math.inf)

    def before_decision(self) -> None:
        """Stop runs on nodes that have notice, and retire those that have drained."""
        self._stop_in_time()
        for node in self._state.nodes_in_brief.others:
            if node.status == DRAINING and not self._state.occupancy.runs_on(node.machine.name):
                self.set_status(node.machine.name, DRAINED, "executor")

    def _stop_in_time(self) -> None:
        """As late as their grace periods allow; their jobs are requeued."""
        for at, grace_s, job, node in self._to_stop():
            if at > self._state.now_at:
                continue
            name, since = node.machine.name, node.goes_since
            if since is None:
                cause, reason = "cloud", reclaimed(name)
            else:
                cause, reason = "limit", lease_ended(name, since)
            stop = partial(self._runs.stop_for_now, job, cause, grace_s, reason)
            self._state.take_step("stop", job.job_id, stop)

    def _to_stop(self) -> Iterator[tuple[float, float, Job, Node]]:
        """The instants to stop runs on nodes that have notice, the job, the seconds that it then has, and the node."""
        now_at = self._state.now_at
        for node in self._state.nodes_in_brief.others:
            if node.goes_at is not None:
                for job in self._state.going_on(node.machine.name):
                    grace_s = max(0.0, min(job.spec.grace_s, node.goes_at - EARLY_S - now_at))
                    yield max(now_at, node.goes_at - EARLY_S - job.spec.grace_s), grace_s, job, node

    def reclaimed(self, name: str, at: float) -> None:
        """A rented node has been taken away, perhaps some time ago."""
        self._lose_runs(name, "cloud", reclaimed(name))
        self._remove(name, "cloud", "reclaimed", at)

    def end_lease(self, name: str, cause: str, why: str) -> None:
        """A rented machine is given back with what runs there, which is requeued."""
        self._lose_runs(name, cause, lease_ended(name, why))
        self._remove(name, cause, "given-back")

    def left(self, name: str) -> None:
        """A node has left its cluster, and comes back under another name, if at all."""
        self._lose_runs(name, "cluster", node_lost(name))
        self._remove(name, "cluster", "left")

    def never_booted(self, name: str, at: float) -> None:
        """A rented node has failed to boot, and is gone."""
        self._remove(name, "cloud", "boot-failed", at)

    def billed(self, name: str, type: str, since_at: float, until_at: float) -> None:  # noqa: A002
        """A rented machine that is gone is paid for between these instants, whatever was counted for it so far."""
        gone = self._state.ledger.gone_nodes.get(name)
        # Without an entry the service was killed, or had no answer, before the machine was one of its nodes.
        unknown = Node(Machine(name, "cloud", type, 0.0, 0.0, 0.0), GONE, since_at)
        node = unknown if gone is None else NODE.validate_python(gone)
        cost_usd = charged_usd(node, self._engine.settings.offers, until_at, since_at=since_at)
        more_usd = cost_usd - (0.0 if gone is None else gone["cost_usd"])
        if more_usd:
            cost = {"ended_at": until_at, "cost_usd": cost_usd, "more_usd": more_usd}
            self._state.log("node-billed", "cloud", node=name, **node.to_json(), **cost)

    def give_up(self, name: str) -> None:
        """Give back a rented node on which nothing runs."""
        self._remove(name, "policy", "given-back")

    def give_back(self, name: str) -> None:
        """Give back an unused rented node; again, if the cloud did not answer."""
        self._state.effects.append(GiveBack(name))

    def not_rented(self, type: str, text: str) -> None:  # noqa: A002
        """The cloud has refused a request after accepting it."""
        self._state.log("not-rented", "cloud", type=type, text=text)

    def _add(self, nodes: Sequence[Node], cause: str) -> None:
        for node in nodes:
            known = self._state.ledger.nodes.get(node.machine.name)
            if known is not None and known.status != LOST:
                raise Conflict(f"there is a node {node.machine.name} already, and it is {known.status}")
        for node in nodes:
            self._log_added(node, cause)
        if any(node.is_shared and not self._is_the_policys(node) for node in nodes):
            self._renewal.nodes_changed()

    def _log_added(self, node: Node, cause: str) -> None:
        self._state.log("node-added", cause, node=node.machine.name, **node.to_json())

    def _remove(self, name: str, cause: str, why: str, at: float = math.inf, **more: Any) -> Node:
        """A node is gone, now or since an earlier instant: the ledger forgets it. more: of what it has become."""
        node = replace(self._state.ledger.nodes[name], status=GONE, since_at=None, **more)
        if node.is_shared:
            self._keep_off(name)
        cost: dict[str, Any] = self._earlier("ended_at", at)
        if node.rented_at is not None:
            cost["cost_usd"] = self._cost_usd(node, why, at)
        if node.by_policy or not node.is_shared:
            cost["charged_s"] = self._cost_usd(node, why, at, usd_per_h=1.0) * S_PER_H
        self._state.log("node-gone", cause, node=name, why=why, **node.to_json(), **cost)
        if why == "given-back":
            self.give_back(name)
        if self._engine.rents(name):
            self._engine.machine_gone(name, CAUSES[why])
        elif node.is_shared and not self._is_the_policys(node):
            self._renewal.nodes_changed()
        return node

    def _is_the_policys(self, node: Node) -> bool:
        """Whether the machine comes and goes by decisions of the policy in force, which expects that."""
        return node.by_policy and bool(self._engine.shared_offers) and not self._engine.stands_by

    def _earlier(self, name: str, at: float) -> dict[str, float]:
        """The data of an event about an instant in the past."""
        return {name: at} if at < self._state.now_at else {}

    def _cost_usd(self, node: Node, why: str, at: float, usd_per_h: float | None = None) -> float:
        """Cost of a rented machine that goes now, or has gone before."""
        if why == "boot-failed" and node.machine.kind != "cloud":  # EC2 charges for those, too
            return 0.0
        offers, releases = self._engine.settings.offers, why == "given-back"
        until_at = min(at, self._state.now_at)
        return charged_usd(node, offers, until_at, releases=releases, usd_per_h=usd_per_h)

    def _lose_runs(self, name: str, cause: str, reason: dict[str, Any]) -> None:
        """The runs on a node have vanished with it; their jobs go on elsewhere, unless they were to end anyway."""
        for run in self._state.occupancy.runs_on(name):
            job = self._state.job_of(run)
            if job is not None:
                lose = partial(self._lose_run, job, run, name, cause, reason)
                self._state.take_step(LOSE, job.job_id, lose)

    def _lose_run(self, job: Job, of: RunId, name: str, cause: str, reason: dict[str, Any]) -> None:
        state, run = self._state, job.run
        if run is None:
            return
        asked = run.stopping
        state.note_run(job, Ended(of, state.now_at, None, why="lost"), "node-lost", ended_at=state.now_at)
        cost = self._runs.cost_of_leaving(job, state.now_at, worked_on=False)
        self._runs.expect_again(job, cause)
        state.log("ended", cause, job.job_id, number=of.number, outcome="node-lost", **cost)
        self._runs.log_move_over(job)
        self._runs.release(of)
        state.effects.append(DropRun(of, discards=not state.ledger.nodes[name].is_shared))
        if asked == "cancelled":
            self._jobs.end_cancelled(job)
        else:
            self._jobs.interrupted(job, reason)

    def _keep_off(self, name: str) -> None:
        """Jobs that are not yet on a node that no longer takes work wait for others."""
        for job in self._state.meant_for(name):
            bound = (job.binding or {}).get("places", ()) if job.is_nominated else ()
            run = job.run
            holds = run is not None and run.launched and any(where == name for where, _ in run.places)
            if job.set_id is not None:
                if run is not None and not holds and any(where == name for where, _ in job.places):
                    self._sets.take_unit(job)
                continue
            if run is not None and not holds and any(where == name for where, _ in job.places):
                self._engine.lose(job)
                account = self._engine.account_row(job.job_id)
                self._state.log("granted", "policy", job.job_id, units=0, places=[], account=account)
                if run.launched and run.stopping is None:  # it was to grow onto the node
                    self._runs.preempt(job)
            elif any(where == name for where, _ in bound):
                self._engine.lose(job)
                self._state.log("unbound", "policy", job.job_id)
