"""Instants as datetimes, for users of the Python client; the service itself counts seconds."""

from __future__ import annotations

from datetime import UTC, datetime

LocalTime = datetime
"""With the offset of the local time zone."""


def local_time(at: float | None) -> LocalTime | None:
    """An instant, s since 1970, in local time; one that no calendar has is the last that there is."""
    try:
        return None if at is None else datetime.fromtimestamp(at, UTC).astimezone()
    except (OverflowError, ValueError):
        return datetime.max.replace(tzinfo=UTC)
