"""WFQ, the policy of PCS (specification, 1.5): weighted classes of sizes, capped FIFO inside each."""

import math
from fractions import Fraction

from tests.reference.fifo import serve_in_order
from tests.reference.policy import Number, Policy

TOLERANCE_UNITS = Fraction(1, 1000)
MOST_ROUNDS = 100


class Wfq(Policy):
    def __init__(
        self,
        thresholds: list[Number],
        weights: list[Fraction],
        zeta_min: Number,
        delta: Number,
        cap: str = "first-violation",
    ) -> None:
        if len(weights) != len(thresholds) + 1 or sum(weights) != 1:
            raise ValueError("one weight more than thresholds, and the weights must add up to 1")
        if delta <= 0:
            raise ValueError("delta must be positive")
        self.thresholds = [*thresholds, math.inf]
        self.weights = weights
        self.zeta_min = zeta_min
        self.delta = delta
        self.cap = {"first-violation": cap_first_violation, "largest": cap_largest}[cap]

    def on_arrival(self, job) -> None:
        job.class_index = next(i for i, limit in enumerate(self.thresholds) if job.believed_work <= limit)

    def grants(self, cluster):
        units = cluster.units
        classes = [[job for job in cluster.active if job.class_index == i] for i in range(len(self.weights))]
        demands = [sum(job.max_units for job in members) for members in classes]
        shares = class_shares(self.weights, demands, units)
        if not cluster.fractional:
            shares = whole_shares(shares, demands, units)
        grants = {}
        unused = 0
        for members, share in zip(classes, shares, strict=True):
            inside = self.share_inside(members, share)
            grants |= inside
            unused += share - sum(inside.values())
        for members in classes:
            for job in members:
                extra = min(unused, job.max_units - grants[job.index])
                if job.min_units > 1 and grants[job.index] + extra < job.min_units:
                    continue
                grants[job.index] += extra
                unused -= extra
        return grants

    def share_inside(self, members, share: Number) -> dict[int, Number]:
        """FIFO under a common cap; while something is left, all over again with the cap relaxed by delta."""
        zeta = self.zeta_min
        while True:
            # A job cannot be capped below what it needs to run at all.
            limits = {job.index: max(self.cap(job, zeta), job.min_units) for job in members}
            grants = serve_in_order(members, share, limits)
            fully_relaxed = all(limits[job.index] == job.max_units for job in members)
            if sum(grants.values()) == share or fully_relaxed:
                return grants
            zeta -= self.delta


def cap_first_violation(job, zeta: Number) -> int:
    """One less than the first number of units whose efficiency is below zeta; else the maximum."""
    for units in range(1, job.max_units + 1):
        if job.efficiency(units) < zeta:
            return units - 1
    return job.max_units


def cap_largest(job, zeta: Number) -> int:
    """The largest number of units whose efficiency is at least zeta; at least 1."""
    return max((g for g in range(1, job.max_units + 1) if job.efficiency(g) >= zeta), default=1)


def class_shares(weights: list[Fraction], demands: list[int], units: int) -> list[Fraction]:
    """Each class its weighted share, at most its demand; what is over is split by the others' shares."""
    shares = [Fraction(0) for _ in weights]
    offers = [weight * units for weight in weights]
    residual = Fraction(units)
    for _ in range(MOST_ROUNDS):
        for i, demand in enumerate(demands):
            given = min(offers[i], demand - shares[i])
            shares[i] += given
            residual -= given
            if shares[i] == demand:
                offers[i] = Fraction(0)
        if residual <= TOLERANCE_UNITS or sum(demands) - sum(shares) <= TOLERANCE_UNITS:
            break
        offers = [residual * offer / sum(offers) for offer in offers]
    return shares


def whole_shares(shares: list[Fraction], demands: list[int], units: int) -> list[int]:
    """Largest remainder, ties to the earlier class, no class above its demand."""
    whole = [math.floor(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: whole[i] - shares[i])
    missing = min(units, sum(demands)) - sum(whole)
    for i in by_remainder:
        if missing > 0 and whole[i] < demands[i]:
            whole[i] += 1
            missing -= 1
    return whole
