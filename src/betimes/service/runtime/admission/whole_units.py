"""A pool gives out whole units: what is said of a job whose units need less than that."""

from __future__ import annotations

from collections.abc import Collection

from betimes.cluster.resources import PER_UNIT
from betimes.foresight.engines import NODES, POOL, engines_of
from betimes.service.engines.named_policies import kind_of
from betimes.service.scheduling.engine_factory import pool_resource
from betimes.service.scheduling.engine_job import demand_of
from betimes.service.scheduling.node import Node
from betimes.service.spec.job_spec import JobSpec

_NAMES = ("GPU", "core")


def rounding_note(spec: JobSpec, nodes: Collection[Node], policy: str) -> str | None:
    """What a unit counts as where the policy gives out more than it needs, and what to do; null: it does not."""
    kind, text = kind_of(policy)
    if kind != POOL or not nodes:
        return None
    at = pool_resource(nodes)
    need, name = demand_of(spec)[at], _NAMES[at]
    if need >= PER_UNIT[at]:
        return None
    plain = text.partition(":")[0]
    sharing = f"nodes:{plain}" if NODES in engines_of(plain) else "easy"
    return (
        f"policy {policy} gives out whole {name}s: each unit of this job counts as 1 {name}, though it needs "
        f"{need / PER_UNIT[at]:g}; `betimes policy set {sharing}` lets jobs share {name}s"
    )
