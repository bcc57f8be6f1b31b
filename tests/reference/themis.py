"""Themis, finish-time fairness with one global lease timer (specification, 1.5)."""

from tests.reference.policy import Number, Policy


class Themis(Policy):
    def __init__(self, lease: Number) -> None:
        self.period = lease

    def grants(self, cluster):
        active, now, units = cluster.active, cluster.now, cluster.units
        grants = {job.index: 0 for job in active}
        unserved = list(active)
        left = min(sum(job.max_units for job in active), units)
        while left > 0 and unserved:
            # max() keeps the first of equals: the earlier arrival
            chosen = max(unserved, key=lambda job: finish_time_fairness(job, now, left, units))
            unserved.remove(chosen)
            grant = min(left, chosen.max_units)
            if grant < chosen.min_units:
                continue
            grants[chosen.index] = grant
            left -= grant
        return grants

    def wake_after(self, cluster):
        return self.period if cluster.active else None


def finish_time_fairness(job, now: Number, left: int, units: int) -> Number:
    """rho = T_shared / T_independent, from work and units alone: the speed-up curve plays no part."""
    shared = (now - job.submit) + job.believed_left / min(left, job.max_units)
    independent = job.believed_work / min(units / job.mean_contention, job.max_units)
    return shared / independent
