"""The scheduler under a virtual world, without a store or a controller: instants in order, effects at once."""

from __future__ import annotations

import math
from collections.abc import Callable

from betimes.service.executors.protocol import Launch, Place
from betimes.service.executors.virtual import VirtualWorld
from betimes.service.scheduling.effects import ResizeRun, StartRun, StopRun
from betimes.service.scheduling.events import Ended, Event, RunId, Started
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec


def launch_of(scheduler: Scheduler, job_id: int) -> Launch:
    job = scheduler.ledger.jobs[job_id]
    run = job.run
    assert run is not None
    return Launch(
        RunId(job_id, run.number),
        tuple(job.spec.command),
        "/",
        job.spec.env,
        run.units,
        tuple(Place(*place) for place in run.places),
        job.spec.cpu,
        job.spec.memory_gib,
        job.spec.gpu,
        job.spec.grace_s,
        "/",
        "/",
        "/",
        "identity",
        job.spec.time_limit_s,
    )


class Replay:
    """Submissions at given instants; `disturb` may do whatever must not change anything, between any two steps."""

    def __init__(
        self, scheduler: Scheduler, world: VirtualWorld, disturb: Callable[[Scheduler], None] | None = None
    ) -> None:
        self.scheduler, self.world, self.disturb = scheduler, world, disturb
        self.events: list[Event] = []

    def run(self, arrivals: list[tuple[float, JobSpec]], user: str = "ann") -> None:
        coming = 0
        while True:
            come_at = arrivals[coming][0] if coming < len(arrivals) else math.inf
            now = min(come_at, self.world.next_at(), self.scheduler.next_timer_at())
            if now == math.inf:
                return
            reports = self.world.advance(now)
            specs = []
            while coming < len(arrivals) and arrivals[coming][0] == now:
                specs.append(arrivals[coming][1])
                coming += 1
            self.at(now, reports, specs, user)

    def at(self, now: float, reports: list, specs: list[JobSpec], user: str = "ann") -> None:
        scheduler = self.scheduler
        scheduler.begin(now)
        for report in reports:
            if isinstance(report, Started):
                scheduler.reports.started(report)
        for report in sorted((r for r in reports if isinstance(r, Ended)), key=lambda r: r.run):
            scheduler.reports.ended(report)
        for spec in specs:
            scheduler.admission.submit(spec, user)
        scheduler.turn()
        while True:
            events, effects, *_ = scheduler.take()
            self.events += events
            if self.disturb is not None:
                self.disturb(scheduler)
            if not effects:
                return
            for effect in effects:
                if isinstance(effect, StartRun):
                    self.world.start(launch_of(scheduler, effect.run.job), now)
                elif isinstance(effect, StopRun):
                    self.world.stop(effect.run, effect.grace_s, now)
                elif isinstance(effect, ResizeRun):
                    done = self.world.resize(effect.run, effect.units, now)
                    scheduler.reports.resized(effect.run, effect.units, effect.places, done)
            for report in self.world.reports:
                if isinstance(report, Started):
                    scheduler.reports.started(report)
            self.world.reports.clear()
