"""The details of an event in words; `--json` has all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.service.views.models import EventView


def details(event: EventView, at_now: float) -> str:
    """An event's details in a few words; where the service has none, its data as names and values."""
    from betimes.cli.render.times import sentence

    where = f"on {event.node}" if event.node is not None else ""
    text = _plainly(event.data) if event.text is None else sentence(event.text, at_now)
    return " ".join(filter(None, (where, text)))


def _plainly(data: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for name, value in data.items():
        text = _short(value)
        if text:
            parts.append(text if isinstance(value, dict) else f"{name}={text}")
    return " ".join(parts)


def _short(value: Any) -> str:
    """A value in few words; of a table only its `text`."""
    if isinstance(value, dict):
        return str(value.get("text", ""))
    if isinstance(value, list):
        return ",".join(filter(None, map(_of_list, value)))
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _of_list(item: Any) -> str:
    """An entry of a list; a pair, such as a node and its units, becomes `here:4`."""
    return ":".join(map(str, item)) if isinstance(item, list) else _short(item)
