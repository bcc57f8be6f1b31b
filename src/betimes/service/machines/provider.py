"""The interface of a cloud: it receives requests for machines, and reports the results later.

A provider knows no clock: its driver passes the time, with instants that never go back. No call may block;
one that needs the network hands its work to a thread and reports the outcome through `advance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from betimes.cluster.offer import Offer
from betimes.service.machines.machine import Kind, Machine


class RequestId(NamedTuple):
    """The requested type, and 0, 1, ... for the requests for that type."""

    type: str
    number: int


@dataclass(frozen=True)
class NoCapacity:
    """None of the requested machines can be had now: there are no more, or the account may hold no more."""

    type: str
    count: int
    why: Literal["capacity", "quota"]
    text: str


@dataclass(frozen=True)
class Booted:
    """A machine is up."""

    at_s: float
    request: RequestId
    machine: Machine


@dataclass(frozen=True)
class Failed:
    """A machine did not boot; or, without a node, none of the request's machines could be had after all."""

    at_s: float
    request: RequestId
    node: str | None
    why: Literal["boot", "capacity", "quota"]
    text: str


@dataclass(frozen=True)
class ReclaimNotice:
    """A machine will be taken away at `reclaimed_at_s`."""

    at_s: float
    node: str
    reclaimed_at_s: float


@dataclass(frozen=True)
class Reclaimed:
    """A machine has been taken away."""

    at_s: float
    node: str


@dataclass(frozen=True)
class PriceChanged:
    """The price of a type's machines, running ones included, from now on."""

    at_s: float
    type: str
    usd_per_h: float


@dataclass(frozen=True)
class Billed:
    """A machine that is gone, whose bill is from `since_s` until `at_s`; also one that was never given out."""

    at_s: float
    node: str
    type: str
    since_s: float


POLL_S = 0.5

CloudEvent = Booted | Failed | ReclaimNotice | Reclaimed | PriceChanged | Billed


class Provider(Protocol):
    """A cloud. It names its machines, and uses no name twice."""

    @property
    def kind(self) -> Kind:
        """The kind of its machines."""
        ...

    def offers(self) -> list[Offer]:
        """The instance types on offer."""
        ...

    def quota(self) -> int | None:
        """The most machines that can be held at once, of all types together; null: any number."""
        ...

    def prices(self) -> dict[str, float]:
        """The price of each type's machine now, USD an hour."""
        ...

    def request(self, now_s: float, type: str, count: int) -> RequestId | NoCapacity:  # noqa: A002
        """Ask for machines, all or none; `Booted` or `Failed` follows for each. Raises CloudError, Unknown."""
        ...

    def release(self, now_s: float, id: RequestId | str) -> None:  # noqa: A002
        """Give a node back, or all of a request, booted or not; gone already: nothing happens.

        Nothing follows. Raises CloudError, in which case it is still held, and Unknown.
        """
        ...

    def next_at_s(self) -> float:
        """The instant to call `advance` next; infinity: not before a request."""
        ...

    def poll(self) -> bool:
        """Look after the machines, as is to be done each `POLL_S`; whether something has happened for `advance`."""
        ...

    def process_of(self, node: str) -> int | None:
        """The process of this machine with which a node's runs end; null: it has ended, or there is none."""
        ...

    def advance(self, now_s: float) -> list[CloudEvent]:
        """Unreported events until now, in the order of time."""
        ...

    def machines(self) -> list[Machine]:
        """Booted machines held, by type and number: those to resume."""
        ...

    def going(self) -> int:
        """The number of machines that are still being given back, without being held any more."""
        ...

    def given_out(self, request: RequestId) -> list[Machine] | None:
        """A request's machines held, booted or not; null: it has not been answered yet."""
        ...

    def booting(self) -> list[Machine]:
        """Machines held but not booted yet, in the same order."""
        ...

    def cost_usd(self, now_s: float) -> float:
        """All charges until now, machines that are gone included."""
        ...


OpenCloud = Callable[[Iterable[tuple[Machine, float]], Mapping[str, int]], Provider]
"""Opens a cloud, given machines requested at these instants, and the total number of each type requested."""
