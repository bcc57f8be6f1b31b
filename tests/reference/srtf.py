"""SRTF (specification, 1.5): the least remaining time at full demand first; ties to the earlier arrival."""

from tests.reference.fifo import serve_in_order
from tests.reference.policy import Policy


def remaining_time(job):
    return job.believed_left / job.speedup(job.max_units)


class Srtf(Policy):
    def grants(self, cluster):
        return serve_in_order(sorted(cluster.active, key=remaining_time), cluster.units)
