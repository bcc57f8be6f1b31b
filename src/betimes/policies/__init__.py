"""The policies, a file each but for small ones of a kind, and the interface for users' own.

A user's policy file imports from here: ``from betimes.policies import priority, Parameter``.
"""

from betimes.core.pool.columns import Again, Grant, View
from betimes.core.work import speed
from betimes.kernels import Floats, Ints, Records
from betimes.kernels import full_kernel as kernel
from betimes.policies.hooks import Parameter, Policy, Prepared, Setting, allocation, greedy, priority
from betimes.policies.nodes.registry import NODES_POLICIES
from betimes.policies.parsing import ChosenPolicy
from betimes.policies.registry import POLICIES
from betimes.policies.specification import (
    parse_nodes_policy,
    parse_policies,
    parse_policy,
    split_policies,
)

__all__ = [
    "NODES_POLICIES",
    "POLICIES",
    "Again",
    "ChosenPolicy",
    "Floats",
    "Grant",
    "Ints",
    "Parameter",
    "Policy",
    "Prepared",
    "Records",
    "Setting",
    "View",
    "allocation",
    "greedy",
    "kernel",
    "parse_nodes_policy",
    "parse_policies",
    "parse_policy",
    "priority",
    "speed",
    "split_policies",
]
