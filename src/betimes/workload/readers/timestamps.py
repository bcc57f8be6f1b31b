"""Dates and clock times in traces: to seconds."""

from __future__ import annotations

from datetime import UTC, datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unix_s(text: str) -> float:
    """Unix seconds of an ISO date and time (UTC where it names no zone) or of Unix seconds; ValueError
    otherwise.
    """
    plain = text.strip()
    if plain.isascii() and plain.isdigit():
        return float(int(plain[:16]) if len(plain) <= 15 else _refuse(text))
    if not plain[:4].isascii() or len(plain) < 8:
        _refuse(text)
    when = datetime.fromisoformat(plain)
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH).total_seconds()


def _refuse(text: str) -> float:
    raise ValueError(text)
