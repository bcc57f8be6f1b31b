"""`Offer`: an instance type that can be rented, with its price, its delays and its billing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from betimes.cluster.billing import BillFrom, Billing, Prices
from betimes.cluster.checks import (
    MOST_SECONDS,
    MOST_USD_PER_H,
    check_amount,
    check_name,
    check_whole,
    family_of,
    shown,
)
from betimes.cluster.labels import NONE, Labels, check_labels
from betimes.cluster.resources import MOST, RESOURCES, whole_capacity
from betimes.cluster.revocation import Bathtub, Revocation
from betimes.errors import ClusterError

MOST_MACHINES = 1_000_000
MOST_SIGMA = 10.0
MOST_SPEED = 1000.0
SPOT_PRICE_FACTOR = 0.3
NOTICE_S = 120.0


@dataclass(frozen=True)
class Spot:
    """Machines that may be taken away, at `price_factor` times the price. Raises ClusterError, naming the field."""

    price_factor: float = SPOT_PRICE_FACTOR
    revocation: Revocation = field(default_factory=Bathtub)

    def __post_init__(self) -> None:
        check_amount("price_factor", self.price_factor, 1.0)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """An instance type that can be rented: GPUs, cores, GiB and price of *one* machine; seconds; USD an hour.

    A machine that is asked for boots for `boot_s`, is set up for `setup_s`, and is up: then tasks start. With
    `boot_sigma` above 0, `boot_s` is the median, and the standard deviation of the logarithm that. Once it is
    given back it goes `release_s` later. `billing`: how it is charged for. `capacity` is the most there are at
    once; none: any number. Raises ClusterError, naming the field, for what no offer can be.
    """

    type: str
    family: str = ""  # of types on which a task needs the same; by default what the type has before its dot
    gpu: float = 0.0
    cpu: float
    memory_gib: float
    usd_per_h: float  # on demand; a spot machine costs `price_factor` of it
    boot_s: float = 0.0
    boot_sigma: float = 0.0
    boot_failure_frac: float = 0.0  # of machines that never come up, which costs nothing
    setup_s: float = 0.0
    release_s: float = 0.0
    min_bill_s: float = 0.0
    bill_step_s: float = 0.0
    bill_from: BillFrom = "boot"
    capacity: int | None = None
    spot: Spot | None = None
    notice_s: float = NOTICE_S  # from the notice that a machine is taken away until it is
    price_changes: tuple[tuple[float, float], ...] = ()  # (at_s, usd_per_h): the price on demand from then on
    speeds: tuple[tuple[str, float], ...] = ()  # of workloads on it, where estimates are for 1; of others 1
    labels: Labels = NONE  # of its machines, which jobs may require

    def __post_init__(self) -> None:
        check_name("type", self.type)
        if self.family == "":
            object.__setattr__(self, "family", family_of(self.type))
        check_name("family", self.family)
        for name in RESOURCES:
            check_amount(name, getattr(self, name), MOST)
        if not whole_capacity(self.amounts).any():
            raise ClusterError(
                f"field cpu: expected a machine with some GPU, cores or memory, found {shown(self.cpu)} cores and "
                "nothing else"
            )
        check_amount("usd_per_h", self.usd_per_h, MOST_USD_PER_H)
        for name in ("boot_s", "setup_s", "release_s", "notice_s"):
            check_amount(name, getattr(self, name), MOST_SECONDS)
        check_amount("boot_sigma", self.boot_sigma, MOST_SIGMA)
        check_amount("boot_failure_frac", self.boot_failure_frac, 1.0)
        if self.capacity is not None:
            check_whole("capacity", self.capacity, 1, MOST_MACHINES, "machines")
        for workload, speed in self.speeds:
            check_name("speeds", workload)
            check_amount(f"speeds.{workload}", speed, MOST_SPEED)
            if speed == 0:
                raise ClusterError(f"field speeds.{workload}: expected a speed above 0, found 0")
        if len(dict(self.speeds)) < len(self.speeds):
            raise ClusterError("field speeds: a workload stands twice")
        check_labels("labels", self.labels)
        _ = self.billing, self.prices

    @property
    def amounts(self) -> tuple[float, float, float]:
        """GPUs, cores, GiB."""
        return self.gpu, self.cpu, self.memory_gib

    @cached_property
    def billing(self) -> Billing:
        """The terms on which a machine is charged for."""
        return Billing(self.min_bill_s, self.bill_step_s, self.bill_from)

    @property
    def charged_usd_per_h(self) -> float:
        """The initial price of a machine: the price, or of a spot machine its share."""
        return self.prices.usd_per_h

    @cached_property
    def prices(self) -> Prices:
        """The price of a machine over time: the price, or of a spot machine its share."""
        share = self.spot.price_factor if self.spot is not None else 1.0
        for at_s, usd_per_h in self.price_changes:
            check_amount("price_changes.at_s", at_s, MOST_SECONDS)
            check_amount("price_changes.usd_per_h", usd_per_h, MOST_USD_PER_H)
        try:
            return Prices(
                self.usd_per_h * share,
                tuple((at_s, usd_per_h * share) for at_s, usd_per_h in self.price_changes),
            )
        except ClusterError as error:
            raise ClusterError(f"field price_changes: {str(error).removeprefix('field changes: ')}") from None
