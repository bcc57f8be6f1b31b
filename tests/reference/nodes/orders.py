"""In which order waiting jobs are looked at (spec/portfolio.md, C.3, for the dynamic orders)."""

import math
from collections.abc import Iterable
from fractions import Fraction

from tests.reference.nodes.active import ActiveJob
from tests.reference.nodes.model import Number, Policy, Resources
from tests.reference.nodes.placement import squared_norm
from tests.reference.nodes.resources import times


def ranked(jobs: Iterable[ActiveJob], policy: Policy, now: Number, largest: Resources) -> list[ActiveJob]:
    """Waiting jobs, the one to look at first in front; ties go to the earlier submission."""
    return sorted(jobs, key=lambda job: (_key(job, policy, now, largest), job.seq))


def class_of(job: ActiveJob, policy: Policy) -> tuple[int, ...]:
    """A job may only preempt jobs whose class is lower than its own."""
    if policy.preemption == "lowest-priority":
        return (job.job.priority, job.job.qos)
    return (job.job.qos,)


def _key(job: ActiveJob, policy: Policy, now: Number, largest: Resources) -> tuple[Number, ...]:
    if policy.preemption != "none":
        return tuple(-part for part in class_of(job, policy))
    if policy.order == "fifo":
        return ()
    if policy.order == "sjf":
        return (job.believed_left(now),)
    if policy.order == "ljf":
        return (-job.believed_left(now),)
    if policy.order == "widest":
        return (-min(squared_norm(times(job.job.tasks, demand), largest) for demand in job.demands),)
    waited = Fraction(now) - Fraction(job.job.submit)
    size = max(Fraction(job.believed_left(now)), Fraction(1))
    if policy.order == "slowdown":
        return (-(waited + size) / size,)
    if policy.order == "wfp3":
        return (-((waited / size) ** 3) * job.job.units,)
    if policy.order == "unicef":
        return (-waited / (_log2(max(job.job.units, 2)) * size),)
    raise ValueError(f"unknown order: {policy.order}")


def _log2(units: int) -> Fraction:
    """Exact for powers of two."""
    return Fraction(math.log2(units))
