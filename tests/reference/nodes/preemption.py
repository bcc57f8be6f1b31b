"""Who makes room for a job that does not fit (spec/fitgpp.md, B.3)."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

from tests.reference.nodes.active import ActiveJob
from tests.reference.nodes.cluster import Cluster
from tests.reference.nodes.model import Number, Placement, Resources, State
from tests.reference.nodes.orders import class_of
from tests.reference.nodes.resources import fits, plus


class Plan(NamedTuple):
    """Where a job will run, and who leaves for it, in the order in which they were taken."""

    nodes: Placement
    victims: list[ActiveJob]


def plan_for(cluster: Cluster, head: ActiveJob) -> Plan | None:
    """The preemption that makes room for a job that does not fit; None: it waits."""
    plan = _worked_out(cluster, head)
    if plan is not None:
        cluster.plans += 1
    return plan


def _worked_out(cluster: Cluster, head: ActiveJob) -> Plan | None:
    policy = cluster.policy
    if policy.preemption == "none":
        return None
    lower = preemptible(cluster, head)
    eligible = [job for job in lower if job.preemptions < policy.preemption_limit]
    if policy.preemption == "fitgpp":
        sufficient = [job for job in eligible if _place_after(cluster, head, [job]) is not None]
        if sufficient:
            scores = fitgpp_scores(cluster, lower)
            return _plan(cluster, head, [min(sufficient, key=lambda job: (scores[job.seq], job.seq))])
        if policy.fallback == "none":
            return None
    if policy.preemption in {"fitgpp", "rand"}:
        return _plan(cluster, head, _random_order(cluster, eligible))
    return _plan(cluster, head, _fixed_order(cluster, eligible))


def preemptible(cluster: Cluster, head: ActiveJob) -> list[ActiveJob]:
    """J: the running jobs of a lower class that have not been told to leave, on a node that suits the head."""
    policy = cluster.policy
    return [
        job
        for job in cluster.those(State.RUNNING)
        if class_of(job, policy) < class_of(head, policy)
        and any(cluster.suits(head, node) for node, _ in job.nodes)
    ]


def fitgpp_scores(cluster: Cluster, lower: Sequence[ActiveJob]) -> dict[int, float]:
    """FitGpp's score by seq: the maxima are those of all of J, whether they may be preempted or not."""
    largest_norm = max(_norm(cluster, job) for job in lower)
    longest_grace = max(job.job.grace for job in lower)
    scores = {}
    for job in lower:
        scores[job.seq] = _norm(cluster, job) / largest_norm
        if longest_grace > 0:
            scores[job.seq] += cluster.policy.grace_weight * job.job.grace / longest_grace
    return scores


def _norm(cluster: Cluster, job: ActiveJob) -> float:
    """Of what it holds, each part over the capacity of the node that it is on; exact but for the root."""
    total = [Fraction(0)] * 3
    for node, amount in job.held.items():
        for at, (part, whole) in enumerate(zip(amount, cluster.capacities[node], strict=True)):
            total[at] += Fraction(part, whole) if whole > 0 else 0
    return math.sqrt(sum(part * part for part in total))


# --- in which order victims are taken ---


def _random_order(cluster: Cluster, eligible: list[ActiveJob]) -> list[ActiveJob]:
    draw = cluster.policy.draw
    if draw is None:
        raise RuntimeError("a random order needs a draw")
    return sorted(eligible, key=lambda job: (draw(cluster.plans, job.seq), job.seq))


def _fixed_order(cluster: Cluster, eligible: list[ActiveJob]) -> list[ActiveJob]:
    def key(job: ActiveJob) -> tuple[Number, ...]:
        if cluster.policy.preemption == "lrtp":
            return (-job.believed_left(cluster.now), job.seq)
        if cluster.policy.preemption == "youngest":
            return (-job.starts[-1].time, -job.seq)
        if cluster.policy.preemption == "lowest-priority":
            return (job.job.priority, job.job.qos, -job.starts[-1].time, -job.seq)
        raise ValueError(f"unknown preemption: {cluster.policy.preemption}")

    return sorted(eligible, key=key)


# --- how many of them ---


def _plan(cluster: Cluster, head: ActiveJob, order: list[ActiveJob]) -> Plan | None:
    """Take victims in this order until the head fits; None if it never does."""
    for count in range(1, len(order) + 1):
        nodes = _place_after(cluster, head, order[:count])
        if nodes is not None:
            victims = order[:count]
            return Plan(nodes, _trimmed(cluster, head, nodes, victims) if cluster.policy.trim else victims)
    return None


def _trimmed(
    cluster: Cluster, head: ActiveJob, nodes: Placement, victims: list[ActiveJob]
) -> list[ActiveJob]:
    """The fewest of the victims that make room on the bound nodes; among equals, those taken earlier."""
    for count in range(1, len(victims) + 1):
        for some in combinations(victims, count):
            free = _free_after(cluster, some)
            if all(fits(cluster.need(head, node, tasks), free[node]) for node, tasks in nodes):
                return list(some)
    raise RuntimeError(f"job {head.seq} does not fit where it was placed")


def _place_after(cluster: Cluster, head: ActiveJob, victims: Sequence[ActiveJob]) -> Placement | None:
    return cluster.place(head, _free_after(cluster, victims))


def _free_after(cluster: Cluster, victims: Sequence[ActiveJob]) -> list[Resources]:
    free = cluster.free
    for victim in victims:
        for node, amount in victim.held.items():
            free[node] = plus(free[node], amount)
    return free
