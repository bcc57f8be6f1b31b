"""Rebuilds the engine: for another policy, other nodes, another cost of restarts, or once it is compiled."""

from __future__ import annotations

from typing import Any

from betimes.cluster.labels import as_texts
from betimes.errors import Conflict
from betimes.foresight.engines import NODES, Engine
from betimes.policies.nodes.heterogeneous_wfq import where_alike
from betimes.service.engines.named_policies import check_live, heeds_labels, kind_of
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.trials import TrialSets


class EngineRenewal:
    """Hands jobs over from one engine to the next; the policy then looks at everything once."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine, jobs: Jobs, sets: TrialSets) -> None:
        self._state, self._engine, self._jobs, self._sets = state, engine, jobs, sets

    def set_policy(
        self, text: str, user: str, front: dict[str, Any] | None = None, cause: str | None = None
    ) -> None:
        """Decide by another policy from now on; what runs goes on. Raises PolicyError, Conflict.

        On nodes of one family `wfq` is that for a pool. front: the policy's point of a front; cause: if it is not the
        user.
        """
        text, kind = self.checked(text)
        ledger, log = self._state.ledger, self._state.log
        before = ledger.policy or None
        self._settle_up()
        if self._engine.kind is not None and kind != self._engine.kind:
            self._hand_over(kind)
        self._engine.rebuild(text, before)
        accounts = {str(number): account.row() for number, account in self._engine.accounts.items()}
        cause = cause or (f"user:{user}" if user != "operator" else user)
        more: Any = {} if front is None else {"front": front}
        log("policy-set", cause, policy=text, accounts=accounts, **more)
        self._engine.look()

    def checked(self, text: str) -> tuple[str, Engine]:
        """A policy's text for the present nodes, and its engine. Raises PolicyError, Conflict if jobs keep it out."""
        text = where_alike(text, {node.family for node in self._state.ledger.nodes.values()})
        kind, _ = kind_of(text)
        check_live(text, self._engine.settings.offers)
        ledger = self._state.ledger
        whole = next((job.job_id for job in ledger.jobs.values() if job.trials is not None), None)
        if kind == NODES and whole is not None:
            raise Conflict(
                f"policy {text}: job {whole} is a set of trials, which needs a policy for a pool; "
                f"wait for it, or `betimes cancel {whole}`"
            )
        rented = next((job.job_id for job in ledger.jobs.values() if job.rental is not None), None)
        if kind != NODES and rented is not None:
            raise Conflict(
                f"policy {text}: a machine is rented for job {rented} alone, which needs a policy for nodes; wait for "
                f"the job, or `betimes cancel {rented}`"
            )
        requiring = min(self._state.job_index.requiring, default=None)
        if requiring is not None and not heeds_labels(text):
            labels = " and ".join(as_texts(ledger.jobs[requiring].spec.required))
            raise Conflict(
                f"policy {text}: it does not choose nodes by their labels, and job {requiring} requires {labels}; wait "
                f"for the job, or `betimes cancel {requiring}`"
            )
        differing = min(self._state.job_index.by_family, default=None)
        if kind != NODES and differing is not None:
            raise Conflict(
                f"policy {text}: a unit of a pool needs the same on all machines, and what job {differing} needs "
                f"depends on their family; wait for the job, or `betimes cancel {differing}`"
            )
        return text, kind

    def take_over(self) -> None:
        """The policy in force is compiled: it decides from now on, first about recent arrivals."""
        if self._engine.stands_by:
            self.renew()

    def renew_if_outdated(self) -> None:
        """At the begin of a turn: runs have ended while the service was down, or users have come into play or gone."""
        if (self._state.is_resuming and self._engine.has_departures) or self._engine.lacks_users:
            self.renew()

    def take_back_units(self) -> None:
        """Sets that hold units which no trial may take give them up."""
        if self._sets.hold_in_vain():
            self.nodes_changed()

    def nodes_changed(self) -> None:
        """Nodes have come or gone, or take work again or no more."""
        if self._engine.kind is None:
            return
        if self._engine.kind == NODES:
            # Jobs that have left by now are split into tasks for the present nodes.
            self._requeue(self._engine.take_gone())
        if self._sets.shed() or not self._engine.take_over_nodes():
            self.renew()
        self._engine.look()

    def note_restart(self, job: Job) -> None:
        """A job stopped for another width makes progress again: the engine uses the measured restart."""
        if job.restarting_since_at is None or job.run is None or job.run.stopping is not None:
            return
        before_s = self._engine.restart_s
        took_s = self._state.now_at - job.restarting_since_at
        self._state.log("restarted", "executor", job.job_id, took_s=took_s)
        if self._engine.restart_s != before_s:
            self.renew()

    def renew(self) -> None:
        """Rebuild the engine from the ledger."""
        self._settle_up()
        self._engine.rebuild(self._state.ledger.policy)
        self._engine.look()

    def _settle_up(self) -> None:
        """Before there is another engine: settle this one's inputs, without further decisions."""
        self._requeue(self._engine.settle())

    def _requeue(self, gone: list[int]) -> None:
        """Requeue jobs whose stopped runs have exited."""
        for number in gone:
            job = self._state.ledger.jobs[number]
            self._engine.lose(job)
            self._jobs.requeue(job)

    def _hand_over(self, kind: str) -> None:
        """Before an engine of another kind takes over: grants become what is held, as nodes make no difference."""
        for job in list(self._state.ledger.jobs.values()):
            run, units, places = job.run, job.units, job.places
            if job.binding is not None:
                self._state.log("unbound", "policy", job.job_id)
            if job.account is None or (run is None and units == 0):
                continue
            if kind == "pool" and run is not None and run.stopping is not None:
                units, places = 0, []
            elif kind == "nodes" and run is not None:
                units, places = (run.units, run.places) if run.launched else (0, [])
            if units != job.units or places != job.places:
                account = self._engine.account_row(job.job_id)
                self._state.log("granted", "policy", job.job_id, units=units, places=places, account=account)
