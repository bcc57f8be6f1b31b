"""LAS (Tiresias's 2D-LAS, with a real quantum): the least attained service, in unit-seconds, first.

Decides again `quantum` seconds after its last decision, as long as some job holds less than it could.
"""

from tests.reference.fifo import serve_in_order
from tests.reference.policy import Number, Policy


class Las(Policy):
    def __init__(self, quantum: Number) -> None:
        self.period = quantum

    def grants(self, cluster):
        by_service = sorted(cluster.active, key=lambda job: job.attained_unit_s)
        return serve_in_order(by_service, cluster.units)

    def wake_after(self, cluster):
        if any(job.grant < min(job.max_units, cluster.units) for job in cluster.active):
            return self.period
        return None
