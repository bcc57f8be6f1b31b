"""Instants in sentences of the service, whatever its time zone: who shows them has another."""

from __future__ import annotations

import time


def instant(at: float) -> str:
    """An instant in UTC: `2026-11-25T13:22:34Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(round(at)))
