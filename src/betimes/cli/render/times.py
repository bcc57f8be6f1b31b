"""Instants and durations in local time and words: `14:05`, `Tue 14:05`, `in 12 min`, `1.5 h`."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime

from betimes.units import length

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_AT_ONCE_S = 1.0
_SECONDS_MATTER_S = 600.0
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_REPLAYED_S = 1e8  # instants before 1973 are those of a replayed trace, which counts from 0


def now(service_s: float | None = None) -> float:
    """Seconds since 1970 by this machine's clock, or by the service's if that is known to be ahead.

    service_s: an instant that was the service's present a moment ago.
    """
    return max(time.time(), service_s or 0.0)


def clock(at: float, at_now: float) -> str:
    """The local time of an instant, with the day if it is another one, and seconds if it is near.

    For a replayed trace the time since its start. `-` if the instant has no date.
    """
    if is_replayed(at) and not is_replayed(at_now):
        return _of_trace(at)
    is_near = abs(at - at_now) < _SECONDS_MATTER_S
    when = _local(at, 1.0 if is_near else 60.0)
    today = _local(at_now, 1.0)
    if when is None or today is None:
        return "-"
    text = f"{when:%H:%M:%S}" if is_near else f"{when:%H:%M}"
    days = (when.date() - today.date()).days
    if days == 0:
        return text
    if abs(days) < 7:
        return f"{_DAYS[when.weekday()]} {text}"
    day = f"{when.day} {_MONTHS[when.month - 1]}"
    return f"{day} {text}" if when.year == today.year else f"{day} {when.year}"


def to_the_minute(at: float, at_now: float) -> str:
    """As `clock`, with the time of other days too: `27 Nov 18:00`."""
    text, when = clock(at, at_now), _local(at, 60.0)
    return text if ":" in text or when is None else f"{text} {when:%H:%M}"


def sentence(text: str, at_now: float) -> str:
    """A sentence of the service with its UTC instants converted to local time."""
    return _INSTANT.sub(lambda found: _in_sentence(found[0], at_now), text)


def relative(at: float, at_now: float) -> str:
    """`in 12 min`, `3 h ago`, `now`."""
    if is_replayed(at) and not is_replayed(at_now):
        return ""  # a replay has another clock
    away = at - at_now
    if abs(away) < _AT_ONCE_S:
        return "now"
    return f"in {length(away)}" if away > 0 else f"{length(-away)} ago"


def both(at: float | None, at_now: float) -> str:
    """`14:05, in 12 min`; `-` if unknown."""
    if at is None or not math.isfinite(at):
        return "-"
    return ", ".join(filter(None, (clock(at, at_now), relative(at, at_now))))


def since(at: float, at_now: float) -> float | None:
    """Seconds from an instant until now; None in a replay, which has another clock."""
    return None if is_replayed(at) and not is_replayed(at_now) else at_now - at


def _in_sentence(text: str, at_now: float) -> str:
    try:
        return clock(datetime.fromisoformat(text).timestamp(), at_now)
    except ValueError:  # beyond the calendar
        return text


def is_replayed(at: float) -> bool:
    """Whether an instant is one of a replayed trace, which has no date."""
    return 0.0 <= at < _REPLAYED_S


def _of_trace(at: float) -> str:
    """`04:05:06`, `2 d 04:05:06`."""
    days, seconds = divmod(int(at), 86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{days} d {text}" if days else text


def _local(at: float, step_s: float) -> datetime | None:
    """The local time rounded to the nearest step, as in the service's sentences."""
    try:
        return datetime.fromtimestamp(round(at / step_s) * step_s)
    except (OverflowError, OSError, ValueError):
        return None
