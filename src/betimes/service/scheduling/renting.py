"""Machines that the policy rents: for several jobs, and for one job alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from betimes.core.nodes.machines.rented import FAILED, TAKEN_AWAY
from betimes.core.nodes.machines.wait_or_rent import ASK_AGAIN_S
from betimes.service.engines.messages import ReleaseMachine, Rent, RentMachine
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.admission import rented_usd
from betimes.service.scheduling.effects import OrderMachine, RentMachines, StopRun
from betimes.service.scheduling.engine_factory import ordered_name
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import SPECULATED, Job
from betimes.service.scheduling.node import (
    BOOTING,
    DRAINED,
    DRAINING,
    UP,
)
from betimes.service.scheduling.node_events import (
    booting,
    lease_ended,
    not_rented,
    reclaimed,
    speculated,
)
from betimes.service.scheduling.nodes import Nodes
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.user_budgets import UserBudgets


class MachineRentals(Part):
    """Carries out what a policy decides about machines. The engine expects a machine from its order on."""

    name = "rented machines"

    def __init__(self, state: SchedulerState, engine: PolicyEngine, nodes: Nodes) -> None:
        self._state, self._engine, self._nodes = state, engine, nodes
        self._unwanted: set[tuple[int, int]] = set()  # to be given back as soon as they are given out
        self._refused: dict[str, str] = {}  # why, by type, until one is given out again

    def order(self, move: RentMachine) -> None:
        """Rent a machine, as the policy has decided."""
        type_ = self._engine.offer(move.offer).type
        self._state.log("ordered", "policy", type=type_)
        self._state.effects.append(OrderMachine(type_, move))

    def resume(self) -> None:
        """Ask again for the machines that the cloud has not answered about."""
        for move in self._engine.unanswered():
            self._state.effects.append(OrderMachine(self._engine.offer(move.offer).type, move))

    def give_back(self, move: ReleaseMachine) -> None:
        """Give a machine back, as the policy has decided."""
        name = self._engine.machine_name(move)
        if name is None:
            self._unwanted.add((move.machine, move.generation))
        else:
            self._nodes.set_status(name, DRAINING, "policy")

    def given_out(self, move: RentMachine, machine: Machine, asked_at: float) -> None:
        """The cloud has given out a machine, ordered at this instant, which boots."""
        self._refused.pop(machine.type, None)
        expected = self._engine.name_machine(move, machine.name)
        self._nodes.rent([machine], "policy", by_policy=True, asked_at=asked_at)
        self._rebind(move, machine.name)
        if (move.machine, move.generation) in self._unwanted:
            self._unwanted.discard((move.machine, move.generation))
            self._nodes.give_up(machine.name)
        elif not expected and self._engine.shared_offers:  # another engine has taken over since
            self._engine.take_machine(self._nodes.node(machine.name))

    def refused(self, move: RentMachine, type: str, text: str) -> None:  # noqa: A002
        """The cloud has no such machine: the policy decides anew at its next tick."""
        self._engine.refuse_machine(move)
        self._unwanted.discard((move.machine, move.generation))
        self._rebind(move, None)
        if self._refused.get(type) != text:
            self._refused[type] = text
            self._nodes.not_rented(type, text)

    def _rebind(self, move: RentMachine, name: str | None) -> None:
        """Give jobs bound to an ordered machine its name; null: unbind them."""
        before = ordered_name(move.machine)
        for job in self._state.ledger.jobs.values():
            binding = job.binding or {}
            places = binding.get("places", ())
            if not any(where == before for where, _ in places):
                continue
            if name is None:
                self._state.log("unbound", "policy", job.job_id)
            else:
                named = [(name if where == before else where, units) for where, units in places]
                self._state.log("nominated", "policy", job.job_id, **{**binding, "places": named})

    def before_decision(self) -> None:
        """Under a policy that does not rent, give back another's rented machines once nothing runs there."""
        if self._engine.shared_offers:
            return
        for node in self._state.nodes_in_brief.others:
            if node.by_policy and node.status in (UP, BOOTING):
                self._nodes.set_status(node.machine.name, DRAINING, "policy")


class JobRentals(Part):
    """Carries out a waiting policy's decisions about a job: rented machines, a speculative run, its end."""

    name = "machines of jobs"

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        nodes: Nodes,
        budgets: UserBudgets,
    ) -> None:
        self._state, self._engine, self._runs, self._nodes = state, engine, runs, nodes
        self._budgets = budgets

    def rent(self, job: Job, move: Rent) -> None:
        """Rent machines for a job, as the policy has decided."""
        offer, number = self._engine.offer(move.offer), job.job_id
        until_s = move.speculates_until_s - self._state.now_s
        usd = rented_usd(job.spec, offer, min(job.runtime_estimate_s, max(0.0, until_s)))
        short = self._budgets.short_of(job.user, usd)
        if short is not None:
            self._engine.refuse_machines(job, short.until_at - self._state.ledger.epoch_at)
            self._unrent(job, short.forbids(usd))
            return
        speculates: dict[str, Any] = {}
        if move.speculates_until_s < math.inf:
            speculates["speculates_until_s"] = move.speculates_until_s
        self._state.log(
            "rents",
            "policy",
            number,
            type=offer.type,
            units=list(move.units),
            units_per_task=move.units_per_task,
            expected_usd=usd,
            account=self._engine.account_row(number),
            reason=booting(offer.type, len(move.units)),
            **speculates,
        )
        self._state.effects.append(RentMachines(number, offer.type, len(move.units)))

    def resume(self) -> None:
        """After a start: ask for the machines of jobs that the cloud has given none yet."""
        for job in self._state.ledger.jobs.values():
            if job.rental is not None and len(job.rental.nodes) < job.rental.count:
                self._state.effects.append(RentMachines(job.job_id, job.rental.type, job.rental.count))

    def given_out(self, number: int, machines: Sequence[Machine], asked_at: float) -> None:
        """The cloud has given out machines for a job, ordered at this instant, which boot.

        If the job is over they go back at once.
        """
        job = self._state.ledger.jobs.get(number)
        user = job.user if job is not None else None
        self._nodes.rent(machines, "policy", for_job=number, for_user=user, asked_at=asked_at)
        if job is not None and job.rental is not None and len(job.rental.nodes) < job.rental.count:
            text = f"{len(machines)} of {job.rental.count} machines boot"
            self._engine.lose_machines(job, FAILED)
            self._unrent(job, not_rented(job.rental.type, text, 0.0))

    def refused(self, number: int, type: str, text: str) -> None:  # noqa: A002
        """The cloud has no machines for a job: it waits, and asks again after a while."""
        job = self._state.ledger.jobs.get(number)
        if job is not None and job.rental is not None and job.rental.type == type:
            self._engine.refuse_machines(job, self._state.now_s + ASK_AGAIN_S)
            self._unrent(job, not_rented(type, text, ASK_AGAIN_S))

    def up(self, name: str, at: float) -> None:
        """A machine rented for a job is up: the job starts once all of them are."""
        nodes = self._state.ledger.nodes
        self._nodes.booted(name, at)
        job = self._job_on(name)
        if job is None or job.rental is None or job.rental.is_up or len(job.rental.nodes) < job.rental.count:
            return
        if any(nodes[each].status != UP for each in job.rental.nodes):
            return
        until_s = self._engine.start_alone(job)
        units = zip(job.rental.nodes, job.rental.units, strict=True)
        more: dict[str, Any] = {} if until_s is None else {"speculates_until_s": until_s}
        if job.rental.units_per_task > 1:
            more["units_per_task"] = job.rental.units_per_task
        self._state.log(
            "granted",
            "policy",
            job.job_id,
            units=sum(job.rental.units),
            places=[[node, held] for node, held in units if held],
            account=self._engine.account_row(job.job_id),
            **more,
        )

    def never_booted(self, name: str, type: str, text: str, at: float) -> None:  # noqa: A002
        """A machine rented for a job has failed to boot: others are rented if the job still waits."""
        job = self._job_on(name)
        self._nodes.never_booted(name, at)
        if job is not None:
            self._engine.lose_machines(job, FAILED)
            self._unrent(job, not_rented(type, text, 0.0))

    def reclaimed(self, name: str, at: float) -> None:
        """The cloud has taken away a machine rented for a job, with the job's run if that had begun."""
        number = self._state.ledger.nodes[name].for_job
        self._nodes.reclaimed(name, at)
        self._taken(name, number, reclaimed(name))

    def end_lease(self, name: str, cause: str, why: str) -> None:
        """A machine rented for a job is given back, with the job's run if that had begun."""
        number = self._state.ledger.nodes[name].for_job
        self._nodes.end_lease(name, cause, why)
        self._taken(name, number, lease_ended(name, why))

    def _taken(self, name: str, number: int | None, reason: dict[str, Any]) -> None:
        job = self._state.ledger.jobs.get(number) if number is not None else None
        if job is not None and job.rental is not None and name in job.rental.nodes:
            self._engine.lose_machines(job, TAKEN_AWAY)
            self._unrent(job, reason)

    def stop_speculating(self, job: Job) -> None:
        """A speculative run has taken as long as a short job may: stop it; the job starts anew."""
        account, reason = self._engine.account_row(job.job_id), speculated()
        self._state.log("unrented", "policy", job.job_id, account=account, reason=reason)
        run = job.run
        if run is None or run.stopping is not None:
            return
        self._runs.log_stopping(job, SPECULATED, "policy", self._state.now_at, reason)
        self._state.effects.append(StopRun(RunId(job.job_id, run.number), 0.0, SPECULATED))

    def before_decision(self) -> None:
        """Give back machines that have drained; a job whose machine was not up yet is decided about anew."""
        for node in self._state.nodes_in_brief.others:
            name = node.machine.name
            if not node.is_shared and node.status == DRAINED:
                job = self._job_on(name)
                self._nodes.give_up(name)
                if job is not None:
                    self._engine.lose_machines(job, TAKEN_AWAY)
                    self._unrent(
                        job, not_rented(node.machine.type, f"{name} was drained before it was up", 0.0)
                    )

    def after_decision(self) -> None:
        """Give back machines that their job has left or no longer needs."""
        for node in self._state.nodes_in_brief.others:
            name = node.machine.name
            if not node.is_shared and self._job_on(name) is None and not self._state.occupancy.runs_on(name):
                self._nodes.give_up(name)

    def _job_on(self, name: str) -> Job | None:
        """The job for which a machine is rented; null: no longer needed."""
        node = self._state.ledger.nodes[name]
        job = self._state.ledger.jobs.get(node.for_job) if node.for_job is not None else None
        if job is None or job.rental is None or job.status.is_over or name not in job.rental.nodes:
            return None
        return job

    def _unrent(self, job: Job, reason: dict[str, Any]) -> None:
        account = self._engine.account_row(job.job_id)
        self._state.log("unrented", "cloud", job.job_id, account=account, reason=reason)
        self._engine.look()
