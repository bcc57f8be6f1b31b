"""Promised finish times: the cluster's copy, played forward without further arrivals (specification, 1.6)."""

from copy import deepcopy
from fractions import Fraction

from tests.reference.model import Cluster
from tests.reference.policy import Number

SMALLEST_BELIEF_S = Fraction(1, 100)


def predict_finishes(cluster: Cluster) -> dict[int, Number]:
    """When each job that is now active would end if nobody came any more, by the job's index.

    The copy takes everything along: the grants in force, the pending wake-up, contention samples, attained
    service, stalls. What is believed about the sizes is the truth in there, so nothing is ever outrun; where it
    is not the truth, at least SMALLEST_BELIEF_S of work is believed to be left, as in the published simulator.
    """
    virtual = deepcopy(cluster)
    virtual.future = []
    for job in virtual.active:
        if cluster.sizes != "true":
            job.believed_left = max(job.believed_left, job.number(SMALLEST_BELIEF_S))
        job.remaining = job.believed_left
        job.noise_factor = 1
    promised = [job.index for job in virtual.active]
    while virtual.step() is not None:
        pass
    finishes = {job.index: job.finish for job in virtual.ended}
    return {index: finishes[index] for index in promised}
