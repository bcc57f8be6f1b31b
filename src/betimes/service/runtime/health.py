"""Whether the service is well, and whether it can take jobs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from betimes import __version__
from betimes.errors import ServiceError, StoreError
from betimes.service.machines.budgets import DAY_S
from betimes.service.runtime.controller import Controller
from betimes.service.views.models import Health
from betimes.units import instant, length

FRESH_S = 1.0  # a result this recent is returned again: each try is a write, and the route needs no token
PATIENCE_S = 8.0  # more than a commit waits for a lock


class Readiness:
    """Tries out a store by `probe`, at most once at a time."""

    def __init__(self, probe: Callable[[], None]) -> None:
        self.probe = probe
        self.trying: asyncio.Task[str | None] | None = None
        self.found: str | None = None
        self.tried_at = -math.inf
        self.archived_upto = 0  # when the store could last be read

    async def problem(self) -> str | None:
        """Why nothing can be written; null: a write worked."""
        if time.monotonic() - self.tried_at < FRESH_S:
            return self.found
        trying = self.trying
        if trying is None:
            trying = self.trying = asyncio.ensure_future(self._try())
        done, _ = await asyncio.wait((trying,), timeout=PATIENCE_S)
        return trying.result() if done else f"the store has not answered for {PATIENCE_S:g} s"

    async def _try(self) -> str | None:
        try:
            await asyncio.to_thread(self.probe)
            self.found = None
        except ServiceError as error:
            self.found = str(error)
        finally:
            self.trying = None
        self.tried_at = time.monotonic()
        return self.found


async def health_of(controller: Controller, readiness: Readiness, uptime_s: float) -> Health:
    """Whether jobs can be accepted and decided on, and why not."""
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
    notes += controller.notes()
    if controller.store.damage is not None:
        notes.append(controller.store.damage)
    now_at = controller.clock.now_s()
    jobs = scheduler.ledger.jobs
    for one in scheduler.ledger.set_aside:
        if one["job"] in jobs or one["at"] > now_at - DAY_S:
            again = (
                "; it is tried again after the next start" if one["job"] is None or one["job"] in jobs else ""
            )
            notes.append(
                f"{one['what']} could not be carried out ({one['error']}, {instant(one['at'])}) and is set aside; all "
                f"else goes on. `betimes events --kind set-aside --json` shows the traceback{again}."
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
        watches="slurm" if scheduler.watches else None,
        problems=problems,
        notes=notes,
        clock_ahead_s=ahead_s,
    )
