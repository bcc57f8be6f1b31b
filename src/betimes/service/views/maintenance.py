"""Maintenance as the service lists it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from betimes.service.views.listing import Listing
from betimes.service.views.models import MaintenanceView

if TYPE_CHECKING:
    from betimes.service.scheduling.scheduler import Scheduler
    from betimes.service.scheduling.windows import Maintenance


def maintenance_view(window: Maintenance, scheduler: Scheduler) -> MaintenanceView:
    """A window, with the jobs that run into it."""
    return MaintenanceView(**asdict(window), running=scheduler.maintenance.may_be_hit(window))


def _read(scheduler: Scheduler, _: float) -> list[MaintenanceView]:
    """The windows that are not over, the next first."""
    windows = sorted(scheduler.ledger.maintenance, key=lambda each: each.from_at)
    return [maintenance_view(each, scheduler) for each in windows]


_NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC
MAINTENANCE = Listing(
    "maintenance",
    MaintenanceView,
    _read,
    about="Windows in which no job starts on some nodes, the next first.",
    answer="What is announced or goes on.",
    example=MaintenanceView(
        number=1, from_at=_NOON + 21_600, to_at=_NOON + 28_800, nodes=["here"], reason="disks", user="ada",
        running=[40],
    ),
)  # fmt: skip
