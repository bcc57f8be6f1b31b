"""Which engine runs a policy: the pool of identical units, or the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from betimes.errors import InputError, PolicyError
from betimes.policies import NODES_POLICIES, POLICIES, ChosenPolicy, Policy
from betimes.policies.loading import load_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.parsing import nearest

Engine = Literal["pool", "nodes"]
POOL: Engine = "pool"
NODES: Engine = "nodes"
ENGINES = ("auto", POOL, NODES)

AnyChosen = ChosenPolicy[Policy] | ChosenPolicy[NodesPolicy]


def engine_for(policies: Sequence[str | AnyChosen], engine: str = "auto", nodes_because: str = "") -> Engine:
    """The engine for all of these policies: the one named, else nodes if there is a reason, else the pool.

    nodes_because: why it is nodes, in a few words, "" for no reason; a policy that exists only there is one. A pool
    that is asked for by name may be on nodes too.
    Raises PolicyError naming the policy at odds with it, and InputError for another engine.
    """
    if engine not in ENGINES:
        raise InputError(f"--engine {engine}: choose {', '.join(ENGINES)}")
    homes = {str(policy): engines_of(policy) for policy in policies}
    if engine != "auto":
        chosen: Engine = "pool" if engine == POOL else "nodes"
        why = f"--engine {engine} is given"
    elif nodes_because:
        chosen, why = NODES, nodes_because
    else:
        only = next((name for name, found in homes.items() if found == (NODES,)), None)
        chosen, why = (POOL, "") if only is None else (NODES, f"{only} is for nodes")
    for name, found in homes.items():
        if chosen not in found:
            there = ", ".join(NODES_POLICIES if chosen == NODES else POLICIES)
            kind = "a pool" if found == (POOL,) else "nodes"
            place = (
                "; or give --engine pool" if chosen == NODES and nodes_because and engine == "auto" else ""
            )
            raise PolicyError(f"policy {name} is for {kind}, but {why}; choose among {there}{place}")
    return chosen


def engines_of(policy: str | AnyChosen) -> tuple[Engine, ...]:
    """The engines for which a policy exists; raises PolicyError for none."""
    if isinstance(policy, ChosenPolicy):
        return (NODES,) if isinstance(policy.policy, NodesPolicy) else (POOL,)
    name, _, rest = policy.strip().partition(":")
    if name.endswith(".py"):
        return (_engine_of_users(name, rest.partition(":")[0]),)
    on_pool: tuple[Engine, ...] = (POOL,) if name in POLICIES else ()
    found = (*on_pool, NODES) if name in NODES_POLICIES else on_pool
    if not found:
        known = [*POLICIES, *NODES_POLICIES]
        raise PolicyError(f"unknown policy {name!r}{nearest(name, known)}; `betimes policies` lists all")
    return found


def _engine_of_users(path: str, name: str) -> Engine:
    """What a user's policy is for; raises PolicyError."""
    try:
        load_policy(path, name, Policy)
    except PolicyError as error:
        try:
            load_policy(path, name, NodesPolicy)
        except PolicyError:
            raise error from None
        return NODES
    return POOL
