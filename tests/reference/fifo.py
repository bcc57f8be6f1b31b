"""FIFO (specification, 1.5): in order of arrival, each job as much as is left, up to its maximum."""

from tests.reference.policy import Number, Policy


def serve_in_order(jobs, units: Number, limits: dict[int, Number] | None = None) -> dict[int, Number]:
    """Give each job min(left, limit) in the given order, or nothing if that is less than its minimum."""
    grants = {}
    left = units
    for job in jobs:
        limit = job.max_units if limits is None else limits[job.index]
        grant = min(left, limit)
        if job.min_units > 1 and grant < job.min_units:
            grant = 0
        grants[job.index] = grant
        left -= grant
    return grants


class Fifo(Policy):
    def grants(self, cluster):
        return serve_in_order(cluster.active, cluster.units)
