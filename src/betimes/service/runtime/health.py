"""Whether the service is well."""

from __future__ import annotations

import asyncio

from betimes import __version__
from betimes.errors import StoreError
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.readiness import Readiness
from betimes.service.views.models import Health
from betimes.units import length


async def health_of(controller: Controller, readiness: Readiness, uptime_s: float) -> Health:
    """Whether jobs can be taken and decided about, and why not."""
    kernels, scheduler = controller.kernels, controller.scheduler
    problem = controller.problem or await readiness.problem()
    try:
        if problem is None:
            readiness.archived_upto = await asyncio.to_thread(lambda: controller.store.archived_upto)
    except StoreError as error:
        problem = str(error)
    problems = [problem] if problem is not None else []
    if scheduler.stands_by:
        doing = kernels.so_far() if kernels is not None else None
        problems.append(
            f"{doing or f'compiling policy {scheduler.ledger.policy}'}; jobs are taken, and are promised an end and "
            "started after that"
        )
    ahead_s = controller.clock.ahead_s
    notes = []
    if ahead_s:
        away = length(ahead_s)
        notes.append(
            f"The system clock went back {away}. Times shown may be {away} late until it catches up."
        )
    return Health(
        ready=not problems and not controller.stopping,
        version=__version__,
        uptime_s=uptime_s,
        recovery_s=controller.recovery_s,
        replayed_events=controller.replayed,
        jobs_active=len(scheduler.ledger.jobs),
        last_event_id=controller.store.last_event_id(),
        archived_upto=readiness.archived_upto,
        compiling=kernels.compiling if kernels is not None else None,
        problems=problems,
        notes=notes,
        clock_ahead_s=ahead_s,
    )
