"""Figures of a running service for Prometheus: counted as events are stored, or looked up when they are asked for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Count
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from betimes import __version__
from betimes.errors import StoreError
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import BOOTING, DRAINED, DRAINING, LOST, UP

SHORT_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ERRORS = (0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
LEAST_S = 1.0  # a promised time that is shorter counts as this long in an error
OVER = {"finished": Status.FINISHED, "failed": Status.FAILED, "cancelled": Status.CANCELLED}
NODE_STATUSES = (UP, BOOTING, DRAINING, DRAINED, LOST)

disable_created_metrics()  # a second series for each counter, which nothing reads


class Promised(NamedTuple):
    """The first promise to a job that is not over; the interval is null where none was given."""

    made_at: float
    finish_at: float
    low_at: float | None
    high_at: float | None


class Metrics:
    """The metrics of one service; the controller reports turns, commits, play-outs and errors of the store.

    No metric has a label for a job, a user or a node, so that their number does not grow.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.registry = registry = CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> Counter:  # noqa: A002
            return Counter(f"betimes_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:  # noqa: A002
            return Gauge(f"betimes_{name}", help, labels, registry=registry)

        def histogram(name: str, help: str, buckets: Sequence[float]) -> Histogram:  # noqa: A002
            return Histogram(f"betimes_{name}", help, buckets=buckets, registry=registry)

        self.info = gauge(
            "build_info", "1; the version of Betimes and the policy in force.", "version", "policy"
        )
        self.ready = gauge(
            "ready", "1: work is taken and decided on; 0: not, for the reasons that /readyz gives."
        )
        self.uptime = gauge("uptime_seconds", "Time since this service has started.")
        self.jobs = gauge("jobs", "Jobs that are not over, by status.", "status")
        self.queue = gauge("queue_length", "Jobs that are ready and wait for the policy only.")
        self.submissions = counter("submissions", "Jobs that were accepted.")
        self.quotes = counter("quotes", "Promises that were made and stored.")
        self.started = counter("runs_started", "Runs whose command has started.")
        self.over = counter("jobs_over", "Jobs that are over, by how they ended.", "status")
        self.preempted = counter("preemptions", "Runs that were asked to stop for another job.")
        self.errors = histogram(
            "promise_error_ratio",
            "Error of the first promise to a job, when it has finished: how far off, over the promised time.",
            ERRORS,
        )
        self.promises = counter(
            "promises_settled",
            "Promises with an interval whose jobs have finished, by where the end fell: early, kept or late. Kept over "
            "all is the observed coverage.",
            "outcome",
        )
        self.broken = counter("promises_broken", "Promises that were broken: events promise-broken.")
        self.notifications = counter(
            "notifications", "Notifications, by what came of them: delivered or failed.", "outcome"
        )
        self.turn = histogram("turn_seconds", "Time of a turn of the scheduler, with its commit.", SHORT_S)
        self.commit = histogram("commit_seconds", "Time of a commit to the database.", SHORT_S)
        self.play_out = histogram(
            "play_out_seconds", "Processor time of a play-out, on which promises rest.", SHORT_S
        )
        self.store_errors = counter(
            "database_errors", "Turns that failed for the database, by error.", "error"
        )
        self.position = gauge("event_log_position", "The number of the newest event in the log.")
        self.nodes = gauge("nodes", "Nodes, by status.", "status")
        self.runs = gauge("executor_runs", "Runs that an executor has in hand, by kind of node.", "executor")
        self.troubles = counter("executor_troubles", "Problems with a run that an executor has reported.")
        self.rent = gauge("rent_usd_per_hour", "Price of all machines that are rented now.")
        self.budget = gauge(
            "budget_spent_ratio",
            "Cost of all rented machines in the present period, over its budget.",
            "period",
        )
        for status in OVER.values():
            self.over.labels(status.value)
        for error in (StoreError, *StoreError.__subclasses__()):
            self.store_errors.labels(error.__name__)
        for outcome in ("delivered", "failed"):
            self.notifications.labels(outcome)
        for outcome in ("early", "kept", "late"):
            self.promises.labels(outcome)
        self._plain: Mapping[str, Counter] = {
            "submitted": self.submissions,
            "quoted": self.quotes,
            "promise-broken": self.broken,
            "started": self.started,
            "trouble": self.troubles,
        }
        self._began_s = time.monotonic()
        self._promised = {
            job.job_id: Promised(job.submitted_at, job.promised_finish_at, None, None)
            for job in controller.scheduler.ledger.jobs.values()
            if job.promised_finish_at is not None
        }
        controller.listeners.append(self.heed)
        controller.metrics = self

    def notified(self, *, is_delivered: bool) -> None:
        """Count a notification that is delivered or given up."""
        self.notifications.labels("delivered" if is_delivered else "failed").inc()

    def heed(self, events: Sequence[Event]) -> None:
        """Count events once they are stored."""
        for event in events:
            if event.kind in self._plain:
                self._plain[event.kind].inc()
            if event.kind == "quoted" and event.job is not None:
                quote = event.data["quote"]
                if quote["finish_at"] is not None:
                    low_at, high_at = quote.get("finish_low_at"), quote.get("finish_high_at")
                    promised = Promised(quote["made_at"], quote["finish_at"], low_at, high_at)
                    self._promised.setdefault(event.job, promised)
            elif event.kind == "stopping" and event.data["why"] == "preempted":
                self.preempted.inc()
            elif event.kind in OVER and event.job is not None:
                self.over.labels(OVER[event.kind].value).inc()
                promised = self._promised.pop(event.job, None)
                if promised is not None and event.kind == "finished":
                    self._settle(promised, event.at_s)

    def _settle(self, promised: Promised, finished_at: float) -> None:
        """Judge a promise by the truth."""
        made_at, finish_at, low_at, high_at = promised
        self.errors.observe(abs(finished_at - finish_at) / max(LEAST_S, finish_at - made_at))
        if low_at is not None and high_at is not None:
            outcome = "early" if finished_at < low_at else "late" if finished_at > high_at else "kept"
            self.promises.labels(outcome).inc()

    async def text(self) -> bytes:
        """All metrics now, in Prometheus's text format. Counting jobs and writing it out happen in a thread."""
        scheduler = self._controller.scheduler
        ledger = scheduler.ledger
        jobs, nodes = list(ledger.jobs.values()), list(ledger.nodes.values())
        self.info.clear()
        self.info.labels(__version__, ledger.policy).set(1)
        self.uptime.set(time.monotonic() - self._began_s)
        controller = self._controller
        self.ready.set(controller.problem is None and not controller.stopping and not scheduler.stands_by)
        now_at, budgets = controller.clock.now_s(), scheduler.settings.budgets.usd_by_period
        for period, budget_usd in budgets.items():
            spent_usd = scheduler.limits.spent_usd(period, now_at)
            self.budget.labels(period).set(spent_usd / budget_usd if budget_usd else 1.0)
        self.position.set(self._controller.store.last_event_id())
        self.rent.set(sum(node.machine.usd_per_h or 0.0 for node in nodes if node.rented_at is not None))
        by_status = Count(node.status for node in nodes)
        for status in NODE_STATUSES:
            self.nodes.labels(status).set(by_status[status])
        kinds = {node.machine.name: node.machine.kind for node in nodes}
        return await asyncio.to_thread(self._written, jobs, kinds)

    def _written(self, jobs: Sequence[Job], kinds: Mapping[str, str]) -> bytes:
        statuses = Count(job.status for job in jobs)
        for status in Status:
            if not status.is_over:
                self.jobs.labels(status.value).set(statuses[status])
        self.queue.set(statuses[Status.QUEUED])
        places = [job.run.places for job in jobs if job.run is not None and job.run.launched]
        runs = Count(kinds.get(where[0][0], "") for where in places if where)
        for kind in self._controller.effects.executors:
            self.runs.labels(kind).set(runs[kind])
        return generate_latest(self.registry)
