"""Instants as people read them, in the time zone of the machine."""

from __future__ import annotations

import time

DAY_S = 86_400.0
SECONDS_MATTER_S = 600.0


def time_of_day(at: float, now_at: float) -> str:
    """The time of day: to the second where it is near, and with the day where it is not of the next 24 hours."""
    away_s = at - now_at
    if abs(away_s) < SECONDS_MATTER_S:
        return time.strftime("%H:%M:%S", time.localtime(round(at)))
    form = "%H:%M" if 0.0 <= away_s < DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(round(at / 60.0) * 60.0))
