"""SRSF, Tiresias with known sizes (specification, 1.5): least remaining unit-time at full demand first."""

from tests.reference.fifo import serve_in_order
from tests.reference.policy import Policy


def remaining_unit_time(job):
    return job.max_units * job.believed_left / job.speedup(job.max_units)


class Srsf(Policy):
    def grants(self, cluster):
        # sorted() is stable, so ties go to the job that arrived earlier
        return serve_in_order(sorted(cluster.active, key=remaining_unit_time), cluster.units)
