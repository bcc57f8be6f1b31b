"""The engine that runs a policy: the pool of identical units, or the nodes."""

from __future__ import annotations

from typing import Literal

from betimes import plugins
from betimes.errors import InputError, PolicyError
from betimes.policies import NODES_POLICIES, POLICIES, ChosenPolicy, Policy
from betimes.policies.loading import installed_policy, load_policy
from betimes.policies.nodes.heterogeneous_wfq import asks_for_it, heterogeneous_wfq
from betimes.policies.nodes.hooks import NodesPolicy

Engine = Literal["pool", "nodes"]
POOL: Engine = "pool"
NODES: Engine = "nodes"
ENGINES = ("auto", POOL, NODES)

AnyChosen = ChosenPolicy[Policy] | ChosenPolicy[NodesPolicy]


def engine_for(
    policy: str | AnyChosen, engine: str = "auto", nodes_because: str = "", *, prefers_nodes: bool = False
) -> Engine:
    """The engine of a policy; of several the requested one, else nodes if these are preferred, else the pool.

    engine: the request, which may also begin the policy's text, as in `nodes:fifo`. nodes_because: why the engine must
    be nodes, in a few words; "" if it need not.
    Raises PolicyError if the policy is not for that engine, and InputError for an unknown engine.
    """
    if engine not in ENGINES:
        raise InputError(f"--engine {engine}: choose {', '.join(ENGINES)}")
    named, plain = named_engine(policy) if isinstance(policy, str) else (None, policy)
    homes = engines_of(plain)
    if named is not None:
        if engine not in ("auto", named):
            raise PolicyError(f"policy {policy}: --engine {engine} is given too; leave one of them out")
        return named
    chosen, why = homes[-1] if prefers_nodes else homes[0], ""
    if engine != "auto":
        chosen, why = POOL if engine == POOL else NODES, f"--engine {engine} is given"
    elif nodes_because:
        chosen, why = NODES, nodes_because
    if chosen not in homes:
        there = ", ".join(NODES_POLICIES if chosen == NODES else POLICIES)
        kind = "a pool" if chosen == NODES else "nodes"
        place = "; or give --engine pool" if nodes_because and engine == "auto" else ""
        raise PolicyError(f"policy {policy} is for {kind}, but {why}; choose among {there}{place}")
    return chosen


def named_engine(policy: str) -> tuple[Engine | None, str]:
    """The engine that a policy's text begins with, as in `nodes:fifo`, and the rest; raises PolicyError."""
    for engine in (POOL, NODES):
        if policy.startswith(f"{engine}:"):
            rest = policy.removeprefix(f"{engine}:")
            if engine not in homes_of(rest):
                raise PolicyError(
                    f"policy {policy}: there is no {rest} for {engine}; `betimes policies` lists all"
                )
            return engine, rest
    return None, policy


def engines_of(policy: str | AnyChosen) -> tuple[Engine, ...]:
    """The engines that may run a policy whose text names none, the pool first; raises PolicyError for none."""
    if isinstance(policy, str) and policy.strip().partition(":")[0] == heterogeneous_wfq.name:
        return (NODES,) if asks_for_it(policy.partition(":")[2]) else (POOL,)
    return homes_of(policy)


def homes_of(policy: str | AnyChosen) -> tuple[Engine, ...]:
    """The engines for which a policy exists, the pool first; raises PolicyError for none."""
    if isinstance(policy, ChosenPolicy):
        return (NODES,) if isinstance(policy.policy, NodesPolicy) else (POOL,)
    name, _, rest = policy.strip().partition(":")
    if name.endswith(".py"):
        return (_engine_of_users(name, rest.partition(":")[0]),)
    on_pool: tuple[Engine, ...] = (POOL,) if name in POLICIES else ()
    found = (*on_pool, NODES) if name in NODES_POLICIES else on_pool
    if found:
        return found
    match installed_policy(name):
        case None:
            known = [*POLICIES, *NODES_POLICIES]
            raise PolicyError(f"unknown policy {name!r}{plugins.or_else(plugins.POLICIES, name, known)}")
        case NodesPolicy():
            return (NODES,)
        case _:
            return (POOL,)


def _engine_of_users(path: str, name: str) -> Engine:
    """The engine of a user's policy; raises PolicyError."""
    try:
        load_policy(path, name, Policy)
    except PolicyError as error:
        try:
            load_policy(path, name, NodesPolicy)
        except PolicyError:
            raise error from None
        return NODES
    return POOL
