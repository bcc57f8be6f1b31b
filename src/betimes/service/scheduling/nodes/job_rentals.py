"""Machines that are rented for one job alone: asked for, seen to boot, and given back when its run has left them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from betimes.core.nodes.machines.rented import FAILED, TAKEN_AWAY
from betimes.core.nodes.machines.wait_or_rent import ASK_AGAIN_S
from betimes.service.engines.messages import Rent
from betimes.service.machines.budgets import next_month_at
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.effects import RentMachines, StopRun
from betimes.service.scheduling.jobs import reasons
from betimes.service.scheduling.jobs.job import SPECULATED, Job
from betimes.service.scheduling.jobs.spending import Spending, rented_usd
from betimes.service.scheduling.nodes.node import UP
from betimes.service.scheduling.nodes.node_lifecycle import NodeLifecycle
from betimes.service.scheduling.runs.run_reports import RunId
from betimes.service.scheduling.runs.runs import Runs
from betimes.service.scheduling.state import SchedulerState


class JobRentals:
    """Carries out what a waiting policy decides about a job: a machine of its own, a speculative run, its end."""

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        nodes: NodeLifecycle,
        spending: Spending,
    ) -> None:
        self._state, self._engine, self._runs, self._nodes = state, engine, runs, nodes
        self._spending = spending

    def rent(self, job: Job, move: Rent) -> None:
        """The policy has decided to rent machines for a job."""
        offer, number = self._engine.offer(move.offer), job.job_id
        until_s = move.speculates_until_s - self._state.now_s
        usd = rented_usd(job.spec, offer, min(job.believed_s, max(0.0, until_s)))
        short = self._spending.over_budget(job.user, usd)
        if short is not None:
            self._engine.refuse_machines(job, next_month_at(self._state.now_at) - self._state.ledger.epoch_at)
            self._unrent(job, short)
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
            reason=reasons.booting(offer.type, len(move.units)),
            **speculates,
        )
        self._state.effects.append(RentMachines(number, offer.type, len(move.units)))

    def resume(self) -> None:
        """After a start: ask for the machines of jobs that the cloud has given none yet."""
        for job in self._state.ledger.jobs.values():
            if job.rental is not None and len(job.rental.nodes) < job.rental.count:
                self._state.effects.append(RentMachines(job.job_id, job.rental.type, job.rental.count))

    def given_out(self, number: int, machines: Sequence[Machine]) -> None:
        """The cloud has given out machines for a job, which boot; those of a job that is over go back at once."""
        job = self._state.ledger.jobs.get(number)
        for machine in machines:
            user = job.user if job is not None else None
            self._nodes.rent(machine, "policy", for_job=number, for_user=user)
        if job is not None and job.rental is not None and len(job.rental.nodes) < job.rental.count:
            text = f"{len(machines)} of {job.rental.count} machines boot"
            self._engine.lose_machines(job, FAILED)
            self._unrent(job, reasons.not_rented(job.rental.type, text, 0.0))

    def refused(self, number: int, type: str, text: str) -> None:  # noqa: A002
        """The cloud has no machines for a job: it waits, and they are asked for again after a while."""
        job = self._state.ledger.jobs.get(number)
        if job is not None and job.rental is not None and job.rental.type == type:
            self._engine.refuse_machines(job, self._state.now_s + ASK_AGAIN_S)
            self._unrent(job, reasons.not_rented(type, text, ASK_AGAIN_S))

    def up(self, name: str) -> None:
        """A machine that is rented for a job is up: the job starts once all of them are."""
        nodes = self._state.ledger.nodes
        self._nodes.set_status(name, UP, "cloud")
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

    def never_booted(self, name: str, type: str, text: str) -> None:  # noqa: A002
        """A machine that is rented for a job does not come up: others are rented for it, if it still waits."""
        job = self._job_on(name)
        self._nodes.never_booted(name)
        if job is not None:
            self._engine.lose_machines(job, FAILED)
            self._unrent(job, reasons.not_rented(type, text, 0.0))

    def reclaimed(self, name: str) -> None:
        """A machine that is rented for a job is taken away; its run has gone with it, if it had begun."""
        number = self._state.ledger.nodes[name].for_job
        self._nodes.reclaimed(name)
        job = self._state.ledger.jobs.get(number) if number is not None else None
        if job is not None and job.rental is not None and name in job.rental.nodes:
            self._engine.lose_machines(job, TAKEN_AWAY)
            self._unrent(job, reasons.reclaimed(name))

    def stop_speculating(self, job: Job) -> None:
        """A job has run on its machines for as long as a short job may: it is to leave them, and starts anew."""
        account, reason = self._engine.account_row(job.job_id), reasons.speculated()
        self._state.log("unrented", "policy", job.job_id, account=account, reason=reason)
        run = job.run
        if run is None or run.stopping is not None:
            return
        self._runs.log_stopping(job, SPECULATED, "policy", self._state.now_at, reason)
        self._state.effects.append(StopRun(RunId(job.job_id, run.number), 0.0, SPECULATED))

    def give_back_unused(self) -> None:
        """Give machines back whose job has left them, or does not need them any more."""
        for name, node in list(self._state.ledger.nodes.items()):
            if not node.is_shared and self._job_on(name) is None and not self._state.occupancy.runs_on(name):
                self._nodes.give_up(name)

    def _job_on(self, name: str) -> Job | None:
        """The job for which a machine is rented; null: it needs it no more."""
        node = self._state.ledger.nodes[name]
        job = self._state.ledger.jobs.get(node.for_job) if node.for_job is not None else None
        if job is None or job.rental is None or job.status.is_over or name not in job.rental.nodes:
            return None
        return job

    def _unrent(self, job: Job, reason: dict[str, Any]) -> None:
        account = self._engine.account_row(job.job_id)
        self._state.log("unrented", "cloud", job.job_id, account=account, reason=reason)
        self._engine.look()
