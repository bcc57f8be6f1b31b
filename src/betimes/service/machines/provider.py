"""What a cloud is to the service: it is asked for machines, and later tells what became of that.

A provider knows no clock: its driver says what time it is, with instants that never go back. No call may block;
one that needs the network hands its work to a thread and tells the outcome through `advance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from betimes.cluster.offer import Offer
from betimes.service.machines.machine import Machine


class RequestId(NamedTuple):
    """The type that was asked for, and 0, 1, ... for the requests for that type."""

    type: str
    number: int


@dataclass(frozen=True)
class NoCapacity:
    """None of the machines asked for can be had now: there are no more of them, or the account may hold no more."""

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
    """A machine did not boot; or, with no node, none of the request's machines could be had after all."""

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
    """Machines of a type, those that run included, cost so much from now on."""

    at_s: float
    type: str
    usd_per_h: float


CloudEvent = Booted | Failed | ReclaimNotice | Reclaimed | PriceChanged


class Provider(Protocol):
    """A cloud. Its machines are named by it, and no name is used twice."""

    def offers(self) -> list[Offer]:
        """The instance types that can be asked for."""
        ...

    def prices(self) -> dict[str, float]:
        """What a machine of each type costs now, USD an hour."""
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
        """When `advance` should be called next; infinity: not before something is asked."""
        ...

    def advance(self, now_s: float) -> list[CloudEvent]:
        """What has happened up to now and was not told yet, in the order of time."""
        ...

    def machines(self) -> list[Machine]:
        """What is booted and held, in the order of names' types and numbers: what there is to come back to."""
        ...

    def given_out(self, request: RequestId) -> list[Machine] | None:
        """What a request has been given and is held, booted or not; null: it has not been answered yet."""
        ...

    def booting(self) -> list[Machine]:
        """What is held and not booted yet, in the same order."""
        ...

    def cost_usd(self, now_s: float) -> float:
        """What has been charged for up to now, machines that are gone included."""
        ...


OpenCloud = Callable[[Iterable[tuple[Machine, float]], Mapping[str, int]], Provider]
"""A cloud for one who has asked it for these machines at these instants, and for so many of each type in all."""
