"""Windows of maintenance as the ledger has them, and the kinds of events about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Protocol

from pydantic import TypeAdapter

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.kind import Data, Kind
from betimes.service.scheduling.node import Node
from betimes.service.scheduling.reasons import REQUEUED, reason
from betimes.units import instant


@dataclass(frozen=True)
class Maintenance:
    """No job starts on some nodes that would not be over by an instant, until another.

    nodes: none: all that are owned, also those that are added later. users: those whose jobs it does not concern, as
    the nodes are reserved for them.
    """

    number: int
    from_at: float
    to_at: float
    nodes: tuple[str, ...]
    reason: str
    user: str
    stop: bool = False  # runs that are there are stopped in time, and requeued
    users: tuple[str, ...] = ()

    def covers(self, node: Node) -> bool:
        """Whether it is about a node: rented ones, which can be given back instead, are never meant."""
        return node.rented_at is None and (not self.nodes or node.machine.name in self.nodes)

    def is_hit(self, node: Node, from_at: float, to_at: float) -> bool:
        """Whether a run on a node over this time would meet it."""
        return self.covers(node) and from_at < self.to_at and to_at > self.from_at

    def to_json(self) -> dict[str, Any]:
        """It in a snapshot or an event."""
        found = asdict(self)
        if not self.users:
            del found["users"]
        return found

    @property
    def _what(self) -> str:
        what = f"reservation for {', '.join(self.users)}" if self.users else "maintenance"
        return what + (f" ({self.reason})" if self.reason else "")

    def empties(self, name: str) -> dict[str, Any]:
        """The reason of a job whose run on this node had to make way for it."""
        text = f"node {name} is emptied for the {self._what} at {instant(self.from_at)}{REQUEUED}"
        return reason("maintenance", text, maintenance=self.number, node=name)

    def keeps_waiting(self, now_at: float, nodes: Iterable[str]) -> dict[str, Any]:
        """The reason of a job that nothing but these nodes' closing keeps from starting there."""
        if self.from_at <= now_at:
            text = f"waits for the end of the {self._what} at {instant(self.to_at)}"
        else:
            when = f"from {instant(self.from_at)} to {instant(self.to_at)}"
            text = f"would run into the {self._what} {when}"
        more = {"maintenance": self.number, "from_at": self.from_at, "to_at": self.to_at}
        return reason("maintenance", text, **more, nodes=sorted(nodes))


MAINTENANCE = TypeAdapter(Maintenance)
"""Reads windows of snapshots and events, which have more besides."""


@dataclass
class Windows:
    """Those that are not over, by number."""

    of: dict[int, Maintenance] = field(default_factory=dict[int, Maintenance])
    next_number: int = 1

    def __bool__(self) -> bool:
        return bool(self.of)

    def __iter__(self) -> Iterator[Maintenance]:
        return iter(self.of.values())

    def set(self, event: Event) -> None:
        """A window is announced."""
        window = MAINTENANCE.validate_python(event.data)
        self.of[window.number] = window
        self.next_number = window.number + 1

    def end(self, event: Event) -> None:
        """A window is over, or called off."""
        del self.of[event.data["number"]]

    def on(self, node: Node) -> list[Maintenance]:
        """Those that cover a node, the next first."""
        return sorted((each for each in self if each.covers(node)), key=lambda each: each.from_at)

    @property
    def bits(self) -> dict[int | None, int]:
        """A bit for each window that does not concern all users, by its number."""
        return {number: 1 << at for at, number in enumerate(n for n, each in self.of.items() if each.users)}

    def exempt(self, bits: Mapping[int | None, int]) -> dict[str, int]:
        """The bits of the windows that do not concern a user's jobs, by user."""
        found: dict[str, int] = {}
        for window in self:
            for user in window.users:
                found[user] = found.get(user, 0) | bits[window.number]
        return found

    def hit(self, node: Node, from_at: float, to_at: float, user: str) -> Maintenance | None:
        """The first to end of those that a user's run on a node over this time would meet; null: it meets none."""
        hit = (each for each in self if each.is_hit(node, from_at, to_at) and user not in each.users)
        return min(hit, key=lambda each: each.to_at, default=None)

    def to_json(self) -> dict[str, Any]:
        """Its keys of a snapshot; none, if there never was a window."""
        if self.next_number == 1:
            return {}
        return {"maintenance": [each.to_json() for each in self], "next_maintenance": self.next_number}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Windows:
        """The windows of a snapshot, which has more besides."""
        windows = map(MAINTENANCE.validate_python, found.get("maintenance", ()))
        return cls({window.number: window for window in windows}, found.get("next_maintenance", 1))


class _Ledger(Protocol):
    """The slice of the ledger that these kinds change."""

    maintenance: Windows


def _words(data: Data) -> str:
    when = f"from {instant(data['from_at'])} to {instant(data['to_at'])}"
    window = f"{data['number']}, of {', '.join(data['nodes']) or 'all nodes'}, {when}"
    window += f", for {', '.join(data['users'])}" if data.get("users") else ""
    window += f": {data['reason']}" if data["reason"] else ""
    if not data["running"]:
        return window
    return f"{window}; may hit job{'s' if len(data['running']) > 1 else ''} {', '.join(map(str, data['running']))}"


def _end(ledger: _Ledger, event: Event, _: None) -> None:
    ledger.maintenance.end(event)


def _number_words(data: Data) -> str:
    return f"maintenance {data['number']}"


KINDS: dict[str, Kind[_Ledger]] = {
    "maintenance-set": Kind(
        "no job starts on these nodes that would not be over when the maintenance begins, until its end",
        lambda ledger, event, _: ledger.maintenance.set(event),
        _words,
        data={
            "number": int,
            "from_at": float,
            "to_at": float,
            "nodes": list[str],
            "reason": str,
            "user": str,
            "running": Annotated[list[int], "jobs that may still be there"],
        },
        more={"stop": bool, "users": Annotated[list[str], "those whose jobs start there nevertheless"]},
    ),
    "maintenance-removed": Kind(
        "a maintenance is called off, or ended early", _end, _number_words, data={"number": int}
    ),
    "maintenance-over": Kind(
        "a maintenance has ended: its nodes take jobs again", _end, _number_words, data={"number": int}
    ),
}
