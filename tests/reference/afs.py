"""AFS-L (specification, 1.5): one unit at a time to the winner of a pairwise scan over the jobs."""

import math
from fractions import Fraction

from tests.reference.policy import Number, Policy

EPSILON = Fraction(1, 10**7)


class Afs(Policy):
    def grants(self, cluster):
        active = cluster.active
        held = {job.index: 0 for job in active}
        left = cluster.units
        while True:
            able = [job for job in active if held[job.index] < job.max_units and step(job, held) <= left]
            if not able:
                return held
            winner = able[0]
            for other in able[1:]:
                winner = prefer(winner, other, held)
            left -= step(winner, held)
            held[winner.index] += step(winner, held)


def step(job, held: dict[int, int]) -> int:
    """The units a job would take next: first its minimum, then one by one."""
    return job.min_units if held[job.index] == 0 else 1


def time_left(job, units: int) -> Number:
    return job.believed_left / job.speedup(units) if units > 0 else math.inf


def prefer(winner, other, held: dict[int, int]):
    """Which of the two should get its next step, by the rule of AFS-L; `winner` was preferred so far."""
    if time_left(other, held[other.index]) < time_left(winner, held[winner.index]):
        low, high = other, winner
    else:
        low, high = winner, other
    low_now, low_next = speeds(low, held)
    high_now, high_next = speeds(high, held)
    if low_now == 0:
        return low if low_next > high_next else high
    if (low_next - low_now) / low_now > (high_next - high_now) / high_next:
        return low
    return high


def speeds(job, held: dict[int, int]) -> tuple[Number, Number]:
    """One over the time left, with the units held and with one step more."""
    units = held[job.index]
    return (
        1 / (time_left(job, units) + EPSILON),
        1 / (time_left(job, units + step(job, held)) + EPSILON),
    )
