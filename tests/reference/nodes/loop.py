"""Time moves from instant to instant."""

from collections.abc import Sequence

from tests.reference.nodes.backfilling import schedule
from tests.reference.nodes.cluster import Cluster
from tests.reference.nodes.model import Job, Node, Number, Outcome, Policy, State


def run(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy) -> Outcome:
    """Simulate jobs, in order of submission, until all have ended; ValueError: jobs that cannot be."""
    cluster = Cluster(jobs, nodes, policy)
    while (now := next_instant(cluster)) is not None:
        step(cluster, now)
    if stranded := cluster.those(State.WAITING, State.NOMINATED):
        raise RuntimeError(f"jobs wait although nothing will happen: {[job.seq for job in stranded]}")
    return cluster.outcome()


def next_instant(cluster: Cluster) -> Number | None:
    """When something happens next by itself; None: never."""
    instants = [job.job.submit for job in cluster.those(State.EXPECTED)]
    for job in cluster.those(State.RUNNING):
        instants += [job.end, job.believed_end]
    instants += [job.vacates[-1] for job in cluster.those(State.VACATING)]
    return min(instants, default=None)


def step(cluster: Cluster, now: Number) -> None:
    """All that happens at one instant, in the order of its kinds."""
    cluster.now = now
    known = len(cluster.events)
    for job in cluster.those(State.RUNNING):
        if job.end == now:
            cluster.finish(job)
    for job in cluster.those(State.RUNNING):
        if job.believed_end == now:
            cluster.outrun(job)
    vacate(cluster)
    for job in cluster.those(State.EXPECTED):
        if job.job.submit == now:
            cluster.submit(job)
    if all(event.kind == "refuse" for event in cluster.events[known:]):
        return  # a job that is refused was never there: it does not even make the others be looked at
    schedule(cluster)
    cluster.check()
    # Victims without a grace period leave at the instant of their signal.
    while vacate(cluster):
        schedule(cluster)
        cluster.check()


def vacate(cluster: Cluster) -> bool:
    """Whoever has to be gone by now goes; False: nobody had to."""
    leaving = [job for job in cluster.those(State.VACATING) if job.vacates[-1] == cluster.now]
    for job in leaving:
        cluster.vacate(job)
    return bool(leaving)
