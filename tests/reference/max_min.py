"""Max-min fair share (specification, 1.5): water filling, in fractions or in whole units."""

from fractions import Fraction

from tests.reference.policy import Number, Policy


class MaxMin(Policy):
    def grants(self, cluster):
        fill = fill_fractions if cluster.fractional else fill_units
        return fill(cluster.active, cluster.units)


def fill_fractions(active, units: int) -> dict[int, Number]:
    """Equal shares, none above a maximum.

    While a job's share is below its minimum, the latest-arrived such job drops out and the rest share anew.
    What is then left over is offered to those that dropped out, in order of arrival.
    """
    sharing = list(active)
    while True:
        grants = water_fill(sharing, units)
        short = [job for job in sharing if job.min_units > 1 and grants[job.index] < job.min_units]
        if not short:
            break
        sharing.remove(short[-1])
    left = units - sum(grants.values())
    for job in active:
        if job in sharing:
            continue
        grant = min(left, job.max_units)
        grants[job.index] = grant if grant >= job.min_units else 0
        left -= grants[job.index]
    return grants


def water_fill(jobs, units: int) -> dict[int, Number]:
    grants = {}
    left = Fraction(units)
    thirsty = list(jobs)
    while thirsty:
        share = left / len(thirsty)
        satisfied = [job for job in thirsty if job.max_units <= share]
        if not satisfied:
            return grants | {job.index: share for job in thirsty}
        for job in satisfied:
            grants[job.index] = job.max_units
            left -= job.max_units
            thirsty.remove(job)
    return grants


def fill_units(active, units: int) -> dict[int, int]:
    """First each job its minimum, in order of arrival; then one unit a round to each job at that level."""
    grants = {}
    left = units
    for job in active:
        grants[job.index] = job.min_units if job.min_units <= left else 0
        left -= grants[job.index]
    for level in range(1, max((job.max_units for job in active), default=0)):
        for job in active:
            if grants[job.index] == level and level < job.max_units and left > 0:
                grants[job.index] += 1
                left -= 1
    return grants
