"""What a fake cloud is told to do: a script of what happens when.

Instants are in the same seconds as the calls.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SetPrice:
    """From then on a type costs so much."""

    at_s: float
    type: str
    usd_per_h: float


@dataclass(frozen=True)
class SetCapacity:
    """From then on there are so many of a type (null: any number); those that are held stay."""

    at_s: float
    type: str
    capacity: int | None


@dataclass(frozen=True)
class Reclaim:
    """The machines of a type that have run longest get notice."""

    at_s: float
    type: str
    count: int = 1


@dataclass(frozen=True)
class Outage:
    """Requests and releases raise CloudError from `at_s` until before `until_s`; what is rented runs on."""

    at_s: float
    until_s: float


@dataclass(frozen=True)
class Slow:
    """What is asked from `at_s` until before `until_s` is only dealt with `delay_s` later: nothing is held before."""

    at_s: float
    until_s: float
    delay_s: float


Step = SetPrice | SetCapacity | Reclaim | Outage | Slow
