"""Planners of rented instances and the tasks on each: Eva, simpler ones and the exact optimum, as pure algorithms.

A planner reads a `Round` and returns a `Plan`, without access to clock, core or disk. Only the exact one starts a
process, and ends it. The names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.policies.packing.catalogue import Catalogue, Demand, InstanceType
    from betimes.policies.packing.plan import Bin, Changes, Move, Plan, Planner, changes, check
    from betimes.policies.packing.planners.boxes import NoPacking
    from betimes.policies.packing.planners.consolidation import Consolidation
    from betimes.policies.packing.planners.eva import RULES, Eva, Rules
    from betimes.policies.packing.planners.exact import Exact
    from betimes.policies.packing.problem import Machine, Problem, Round, Task
    from betimes.policies.packing.throughput import Throughput, ThroughputTable, normalised

__all__ = [
    "RULES",
    "Bin",
    "Catalogue",
    "Changes",
    "Consolidation",
    "Demand",
    "Eva",
    "Exact",
    "InstanceType",
    "Machine",
    "Move",
    "NoPacking",
    "Plan",
    "Planner",
    "Problem",
    "Round",
    "Rules",
    "Task",
    "Throughput",
    "ThroughputTable",
    "changes",
    "check",
    "normalised",
]

_HOME = {
    "RULES": "betimes.policies.packing.planners.eva",
    "Bin": "betimes.policies.packing.plan",
    "Catalogue": "betimes.policies.packing.catalogue",
    "Changes": "betimes.policies.packing.plan",
    "Consolidation": "betimes.policies.packing.planners.consolidation",
    "Demand": "betimes.policies.packing.catalogue",
    "Eva": "betimes.policies.packing.planners.eva",
    "Exact": "betimes.policies.packing.planners.exact",
    "InstanceType": "betimes.policies.packing.catalogue",
    "Machine": "betimes.policies.packing.problem",
    "Move": "betimes.policies.packing.plan",
    "NoPacking": "betimes.policies.packing.planners.boxes",
    "Plan": "betimes.policies.packing.plan",
    "Planner": "betimes.policies.packing.plan",
    "Problem": "betimes.policies.packing.problem",
    "Round": "betimes.policies.packing.problem",
    "Rules": "betimes.policies.packing.planners.eva",
    "Task": "betimes.policies.packing.problem",
    "Throughput": "betimes.policies.packing.throughput",
    "ThroughputTable": "betimes.policies.packing.throughput",
    "changes": "betimes.policies.packing.plan",
    "check": "betimes.policies.packing.plan",
    "normalised": "betimes.policies.packing.throughput",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
