"""Which waiting jobs start in one scheduling pass."""

from tests.reference.nodes.active import ActiveJob
from tests.reference.nodes.cluster import Cluster
from tests.reference.nodes.model import Number, Placement, Reservation, Resources, State
from tests.reference.nodes.preemption import plan_for
from tests.reference.nodes.resources import lesser, minus, plus, times


def schedule(cluster: Cluster) -> None:
    backfilling = cluster.policy.backfilling
    if backfilling == "strict":
        _walk(cluster, window=1)
    elif backfilling == "skip-over":
        _walk(cluster, cluster.policy.window)
    elif backfilling == "easy":
        _easy(cluster)
    elif backfilling == "conservative":
        _conservative(cluster)
    else:
        raise ValueError(f"unknown backfilling: {backfilling}")


def _walk(cluster: Cluster, window: int) -> None:
    """Start what fits, in order, until `window` jobs were passed over (0: no limit)."""
    passed_over = 0
    for job in cluster.queue:
        nodes = cluster.place(job, cluster.free)
        if nodes is not None:
            cluster.start(job, nodes)
            continue
        plan = plan_for(cluster, job)
        if plan is not None:
            cluster.nominate(job, plan.nodes, plan.victims)
            continue
        passed_over += 1
        if passed_over == window:
            break


# --- EASY ---


def _easy(cluster: Cluster) -> None:
    """Start what fits up to the first job that does not; then only what leaves that one's reservation alone."""
    queue = cluster.queue
    while queue:
        nodes = cluster.place(queue[0], cluster.free)
        if nodes is None:
            break
        cluster.start(queue.pop(0), nodes)
    if not queue:
        return
    head, others = queue[0], queue[1:]
    shadow, nodes, beside = _reservation_of_head(cluster, head)
    cluster.reservations.append(Reservation(cluster.now, head.seq, shadow, nodes))
    for job in others:
        if cluster.now + _duration(cluster, job) <= shadow:
            nodes = cluster.place(job, cluster.free)
            if nodes is not None:
                cluster.start(job, nodes)
        else:
            nodes = cluster.place(
                job, [lesser(now, then) for now, then in zip(cluster.free, beside, strict=True)]
            )
            if nodes is not None:
                cluster.start(job, nodes)
                beside = _without(beside, job, nodes)


def _reservation_of_head(cluster: Cluster, head: ActiveJob) -> tuple[Number, Placement, list[Resources]]:
    """When the head will fit, where it will be, and what will then be free beside it."""
    holders = cluster.those(State.RUNNING, State.VACATING)
    for instant in sorted({job.believed_leave for job in holders}):
        free = cluster.free
        for job in holders:
            if job.believed_leave <= instant:
                for node, amount in job.held.items():
                    free[node] = plus(free[node], amount)
        nodes = cluster.place(head, free)
        if nodes is not None:
            return instant, nodes, _without(free, head, nodes)
    raise RuntimeError(f"job {head.seq} does not even fit when all have left")


# --- conservative backfilling ---


def _conservative(cluster: Cluster) -> None:
    """Everyone reserves the earliest interval that is left; who may begin now begins.

    First those who have a reservation already, in its order, so that none is put off; then the others in theirs.
    """
    claims = [
        (cluster.now, job.believed_leave, node, amount)
        for job in cluster.those(State.RUNNING, State.VACATING)
        for node, amount in job.held.items()
    ]

    def free_at(instant: Number) -> list[Resources]:
        free = list(cluster.capacities)
        for begin, end, node, amount in claims:
            if begin <= instant < end:
                free[node] = minus(free[node], amount)
        return free

    def free_throughout(begin: Number, end: Number) -> list[Resources]:
        free = free_at(begin)
        for other in {other for other, *_ in claims if begin < other < end}:
            free = [lesser(one, two) for one, two in zip(free, free_at(other), strict=True)]
        return free

    for job in sorted(cluster.queue, key=lambda job: job.promised):
        duration = _duration(cluster, job)
        for begin in sorted({cluster.now, *(end for _, end, *_ in claims)}):
            nodes = cluster.place(job, free_throughout(begin, begin + duration))
            if nodes is not None:
                break
        else:
            raise RuntimeError(f"job {job.seq} does not even fit when all have left")
        job.promised = begin
        cluster.reservations.append(Reservation(cluster.now, job.seq, begin, nodes))
        claims += [(begin, begin + duration, node, times(count, job.job.demand)) for node, count in nodes]
        if begin == cluster.now:
            cluster.start(job, nodes)


# --- both ---


def _duration(cluster: Cluster, job: ActiveJob) -> Number:
    """How long a waiting job is believed to hold its nodes once it starts."""
    return job.overhead(cluster.policy.restart_s) + job.believed_left(cluster.now)


def _without(free: list[Resources], job: ActiveJob, nodes: Placement) -> list[Resources]:
    left = list(free)
    for node, count in nodes:
        left[node] = minus(left[node], times(count, job.job.demand))
    return left
