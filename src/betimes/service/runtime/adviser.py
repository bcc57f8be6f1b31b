"""Advice beside the service: its last jobs again under other policies, in a process of its own; one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from betimes.errors import BetimesError, Conflict, PolicyError
from betimes.foresight.advice import Advice, LeftOut, Period, candidates
from betimes.foresight.advice.advising import WARM_UP
from betimes.foresight.advice.candidates import Candidates
from betimes.foresight.engines import POOL
from betimes.service.engines.named_policies import kind_of
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.tuner import LiveTuner
from betimes.service.scheduling.node import UP
from betimes.service.scheduling.shares import has_limits
from betimes.service.tuning.advice import AdviceOrder, cluster_of
from betimes.service.tuning.process import ReportProgress, in_process
from betimes.service.tuning.recent import recent
from betimes.service.tuning.view import AdviceView, AdvisingView
from betimes.service.views.models import AdviceSpec
from betimes.twin.options import SimulationOptions

MOST_JOBS = 20_000

AdviseFor = Callable[[AdviceOrder, ReportProgress, asyncio.Event], Awaitable[Advice]]
"""Carries an order out. Raises InputError, ServiceError."""


class LiveAdviser:
    """Asks what other policies would have done with a controller's last jobs, on the machines that it has now."""

    def __init__(self, controller: Controller, tuner: LiveTuner, advises: AdviseFor = in_process) -> None:
        self.controller, self.tuner, self.advises = controller, tuner, advises
        self._view = AdviceView()
        self.version = 0
        """Changes with what `view` returns."""
        self._beginning = asyncio.Lock()

    def view(self) -> AdviceView:
        """Its progress, and the latest advice."""
        return self._view

    async def start(self, spec: AdviceSpec) -> AdviceView:
        """Begin, unless it is being worked out already. Raises Conflict where nothing can be said."""
        async with self._beginning:
            if self._view.going is None:
                begun_at = self.controller.clock.now_s()
                order = await self._ordered(spec, begun_at)
                self._now(going=AdvisingView(spec=spec, begun_at=begun_at), problem=None)
                self.controller.background.go(self._carry_out(order, begun_at))
        return self._view

    def _now(self, **changed: Any) -> None:
        self._view = self._view.model_copy(update=changed)
        self.version += 1

    async def _carry_out(self, order: AdviceOrder, begun_at: float) -> None:
        def report(progress: Mapping[str, Any]) -> None:
            if self._view.going is not None:
                self._now(going=self._view.going.model_copy(update=dict(progress)))

        try:
            self._now(advice=await self.advises(order, report, asyncio.Event()), at=begun_at)
        except (BetimesError, OSError) as error:
            self._now(problem=str(error))
        finally:
            self._now(going=None)

    async def _ordered(self, spec: AdviceSpec, now_at: float) -> AdviceOrder:
        """Everything that it needs. Raises Conflict, ClusterError."""
        scheduler = self.controller.scheduler
        settings, ledger = scheduler.settings, scheduler.ledger
        owned = [
            node.machine for node in ledger.nodes.values() if node.status == UP and node.rented_at is None
        ]
        if not owned and not settings.offers:
            raise Conflict("no node is up, so there is nothing to compare on; `betimes nodes` lists them")
        cluster = cluster_of(owned, settings.offers, settings.quota)
        working = {job.job_id: job.account.size_s for job in ledger.jobs.values() if job.account is not None}
        found = await asyncio.to_thread(
            recent,
            self.controller.store,
            MOST_JOBS,
            working,
            now_at - spec.last_s * (1.0 + WARM_UP),
            on_any_machines=True,
        )
        period = Period.last(found.workload, spec.last_s)
        options = SimulationOptions(
            cluster=cluster,
            curves=found.curves,
            restart_s=scheduler.restart_s,
            resize_interval_s=settings.resize_interval_s,
            resize_gain=settings.resize_gain,
        )
        kind, plain = kind_of(ledger.policy)
        front = self.tuner.tuned.front.points if self.tuner.tuned is not None and kind == POOL else ()
        tuned = [point.policy for point in front if point.names]
        fitting = self._possible(candidates(period.workload, cluster, tuned))
        return AdviceOrder(period, options, f"{kind}:{plain}", fitting, spec.budget_s, self._not_simulated())

    def _not_simulated(self) -> tuple[str, ...]:
        """The rules of this service that the twin of its jobs does not have."""
        settings, ledger = self.controller.scheduler.settings, self.controller.scheduler.ledger
        rules = {
            "shares of users (--fair-share)": ledger.shares.half_life_s is not None,
            "limits of users": any(has_limits(user) for user in ledger.users.values()),
            "groups": bool(settings.groups.all),
            "queues": bool(settings.queues),
            "maintenance windows": bool(ledger.maintenance),
        }
        return tuple(rule for rule, holds in rules.items() if holds)

    def _possible(self, fitting: Candidates) -> Candidates:
        """Without those that could not be put in force now, as shares of users or present jobs keep them out."""
        scheduler, found, left_out = self.controller.scheduler, list[str](), [*fitting.left_out]
        for policy in fitting.policies:
            try:
                scheduler.policy.checked(policy)
            except (Conflict, PolicyError) as error:
                left_out.append(LeftOut(policies=(policy,), why=str(error)))
            else:
                found.append(policy)
        return Candidates(tuple(found), tuple(left_out))
