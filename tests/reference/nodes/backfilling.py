"""Which waiting jobs start in one scheduling pass."""

from tests.reference.nodes.active import ActiveJob
from tests.reference.nodes.cluster import Cluster
from tests.reference.nodes.model import Number, Placement, Reservation, Resources, State
from tests.reference.nodes.preemption import plan_for
from tests.reference.nodes.resources import NOTHING, fits, greater, lesser, minus, plus


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
                beside = _without(cluster, beside, job, nodes)


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
            return instant, nodes, _without(cluster, free, head, nodes)
    raise RuntimeError(f"job {head.seq} does not even fit when all have left")


# --- conservative backfilling ---


def _conservative(cluster: Cluster) -> None:
    """In order, everyone moves up as far as all other reservations let it, or gets one; who may begin now begins.

    A reservation is lost where its nodes are not free in time and there is no other room as early. Whoever loses
    one keeps its place in the queue: all behind it give up theirs, and have their turn after it.
    """
    queue = list(cluster.queue)
    for place, job in enumerate(queue):
        begin, nodes = _earliest(cluster, job)
        if job.promised is not None:
            stands = max(job.promised, cluster.now)
            if begin >= stands and _is_kept(cluster, job, stands):
                begin, nodes = stands, job.booked
            elif begin > stands:
                for other in queue[place + 1 :]:
                    other.promised, other.booked = None, ()
                begin, nodes = _earliest(cluster, job)
        job.promised, job.booked = begin, nodes
        cluster.reservations.append(Reservation(cluster.now, job.seq, begin, nodes))
        if begin == cluster.now:
            cluster.start(job, nodes)


def _earliest(cluster: Cluster, job: ActiveJob) -> tuple[Number, Placement]:
    """When and where the job can begin without touching what others hold or have reserved."""
    duration, claims = _duration(cluster, job), _claims(cluster, job)
    instants = {cluster.now, *(instant for claim in claims for instant in claim[:2])}
    return next(
        (instant, nodes)
        for instant in sorted(instants)
        if instant >= cluster.now
        and (nodes := cluster.place(job, _free_throughout(cluster, claims, instant, instant + duration)))
    )


def _is_kept(cluster: Cluster, job: ActiveJob, begin: Number) -> bool:
    """Whether the nodes of the job's reservation are free for it from `begin` on."""
    free = _free_throughout(cluster, _claims(cluster, job), begin, begin + _duration(cluster, job))
    return all(fits(cluster.need(job, node, tasks), free[node]) for node, tasks in job.booked)


Claim = tuple[Number, Number, int, Resources]  # from, to, node, how much


def _claims(cluster: Cluster, newcomer: ActiveJob) -> list[Claim]:
    """What all others hold, or have reserved."""
    held = [
        (cluster.now, job.believed_leave, node, amount)
        for job in cluster.those(State.RUNNING, State.VACATING)
        for node, amount in job.held.items()
    ]
    for job in cluster.queue:
        if job is not newcomer and job.promised is not None:
            begin = max(job.promised, cluster.now)
            end = begin + _duration(cluster, job)
            held += [(begin, end, node, cluster.need(job, node, tasks)) for node, tasks in job.booked]
    return held


def _free_throughout(cluster: Cluster, claims: list[Claim], begin: Number, end: Number) -> list[Resources]:
    """The least that every node has free between two instants; nothing where overruns have upset the plan."""

    def free_at(instant: Number) -> list[Resources]:
        free = list(cluster.capacities)
        for start, stop, node, amount in claims:
            if start <= instant < stop:
                free[node] = minus(free[node], amount)
        return free

    free = free_at(begin)
    for other in {other for claim in claims for other in claim[:2] if begin < other < end}:
        free = [lesser(one, two) for one, two in zip(free, free_at(other), strict=True)]
    return [greater(room, NOTHING) for room in free]


# --- both ---


def _duration(cluster: Cluster, job: ActiveJob) -> Number:
    """How long a waiting job is believed to hold its nodes once it starts."""
    return job.overhead(cluster.policy.restart_s) + job.believed_left(cluster.now)


def _without(cluster: Cluster, free: list[Resources], job: ActiveJob, nodes: Placement) -> list[Resources]:
    left = list(free)
    for node, count in nodes:
        left[node] = minus(left[node], cluster.need(job, node, count))
    return left
