"""What a fake cloud is told to be like: its instance types, and a script of what happens when.

Instants are in the same seconds as the calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from betimes.service.machines.provider import Offer


@dataclass(frozen=True)
class InstanceType(Offer):
    """What can be rented, and how it behaves."""

    capacity: int | None = None  # the most that there are at once; null: any number
    boot_s: float = 0.0  # the median time to boot
    boot_sigma: float = 0.0  # its spread: the standard deviation of its logarithm; 0: always the median
    boot_failure_frac: float = 0.0  # of machines that never come up, told when they should have; not charged
    reclaims_per_h: float = 0.0  # how often each is taken away, by a Poisson process from boot; 0: never
    notice_s: float = 120.0  # from the notice until it is taken away

    def __post_init__(self) -> None:
        sizes = (self.cpu, self.memory_gib, self.gpu, self.usd_per_h)
        times = (self.boot_s, self.boot_sigma, self.reclaims_per_h, self.notice_s)
        if not all(0 <= number < math.inf for number in (*sizes, *times, self.capacity or 0)):
            raise ValueError(f"{self.type}: expected finite numbers of 0 or more, found {self}")
        if self.boot_sigma > 10 or not 0 <= self.boot_failure_frac <= 1:
            raise ValueError(
                f"{self.type}: expected boot_sigma up to 10, boot_failure_frac up to 1, found {self}"
            )


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
