"""Policies by their names: the engine that each runs on, and whether its kernels are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from betimes.cluster import Offer
from betimes.errors import PolicyError
from betimes.foresight.engines import NODES, POOL, AnyChosen, Engine, engines_of, named_engine
from betimes.foresight.portfolio.driver import Settings
from betimes.foresight.portfolio.lookahead import ENTRIES as SELECTION_ENTRIES
from betimes.kernels import Entry
from betimes.policies import Policy, parse_nodes_policy, parse_policy
from betimes.policies.loading import installed_policy
from betimes.policies.nodes import families
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.registry import NODES_POLICIES
from betimes.policies.pool.renting import RentingRule, check_offers, renting_rule
from betimes.service.engines import nodes as nodes_engine
from betimes.service.engines import pool
from betimes.service.engines.planner_rounds import planners_for
from betimes.twin.nodes import planner_rounds

NOTHING_OFFERED = (
    "it rents machines, and none are offered; describe some ([[offers]]) in a cluster file and start the service with "
    "`betimes up --cluster FILE.toml`"
)


def kind_of(policy: str) -> tuple[Engine, str]:
    """The engine of a policy and its plain specification: `nodes:fifo` names one that both engines have.

    Raises PolicyError for an unknown name.
    """
    named, plain = named_engine(policy)
    return named or engines_of(plain)[0], plain


def check_live(policy: str, offers: Sequence[Offer]) -> None:
    """Raise PolicyError for a policy that cannot rent of these offers, or not live."""
    kind, text = kind_of(policy)
    if rule_of(policy) is not None:
        if not offers:
            raise PolicyError(f"policy {policy}: {NOTHING_OFFERED}")
        check_offers(policy, offers)
    found = _by_name(text) if kind == NODES else None
    if found is None:
        return
    chosen = parse_nodes_policy(text)
    values = chosen.values
    if found.members is not None:
        Settings.of(chosen)
    if not found.rents(values):
        return
    if values.get("spot") == "true":
        raise PolicyError(
            f"policy {policy}, parameter spot: the service rents the spot machines that the cluster file offers; give "
            "an offer there `spot = true`, and leave this out"
        )
    found.wait_model(values)  # which raises where its file cannot be used
    free = next((offer.type for offer in offers if offer.usd_per_h == 0.0), None)
    if found.rents_alone(values) and free is not None:
        raise PolicyError(
            f"policy {policy}: offer {free} costs nothing (usd_per_h), and renting is to be weighed by its price; give "
            "it one above 0"
        )
    unlike = next((offer.type for offer in offers if offer.speeds), None)
    if found.rents_alone(values) and unlike is not None:
        raise PolicyError(
            f"policy {policy}: offer {unlike} has speeds, and a machine that is rented for one job alone runs it as an "
            "owned one does; leave them out, or choose a policy that packs, such as eva"
        )
    if not offers:
        raise PolicyError(f"policy {policy}: {NOTHING_OFFERED}")
    planners_for(found.in_turn(values), offers, None)  # which raises where any of them cannot plan with these


def heeds_labels(policy: str) -> bool:
    """Whether a policy heeds labels that jobs require; planners pack by amounts alone."""
    return bool(policy) and kind_of(policy)[0] == NODES and not _traits(policy).plans


def rents_for_jobs(policy: str) -> bool:
    """Whether a policy sets how long a job waits before a machine is rented for it alone."""
    return bool(policy) and _traits(policy).rents_alone


def shared_offers(policy: str, offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """The offers, if a policy rents them for several jobs; none: it rents nothing so."""
    return tuple(offers) if policy and _traits(policy).shares_rented else ()


@dataclass(frozen=True)
class _Traits:
    """Whether a policy rents machines for one job alone, or for several, and plans in rounds."""

    rents_alone: bool = False
    shares_rented: bool = False
    plans: bool = False


@lru_cache(maxsize=64)
def _traits(policy: str) -> _Traits:
    kind, text = kind_of(policy)
    if kind == POOL:
        return _Traits(shares_rented=rule_of(policy) is not None)
    found = _by_name(text)
    if found is None:
        return _Traits()
    values = {} if found.members is None else parse_nodes_policy(text).values
    return _Traits(found.rents_alone(values), found.shares_rented(values), found.plans(values))


def rule_of(policy: str) -> RentingRule | None:
    """The rule by which a policy for a pool rents machines; null: it rents none. Raises PolicyError."""
    kind, text = kind_of(policy)
    if kind != POOL or "rent_" not in text:
        return None
    return renting_rule(policy, parse_policy(text).values)


def _by_name(text: str) -> NodesPolicy | None:
    """The policy for nodes that a plain specification names; null: it names one in a user's file."""
    name = text.partition(":")[0]
    found = NODES_POLICIES.get(name) or installed_policy(name)
    return found if isinstance(found, NodesPolicy) else None


def compile_policy(policy: str) -> None:
    """Compile or load the kernels of this policy's engine: up to a minute the first time on a machine."""
    chosen = _chosen(policy)
    if isinstance(chosen.policy, Policy):
        chosen.policy.rules()
    else:
        chosen.policy.rules(chosen.values)
        if chosen.policy.members is not None:
            families.compiled_hooks()
    for each in _entries_for(chosen):
        each.load()


def is_compiled(policy: str) -> bool:
    """Whether `compile_policy` takes only a moment, as the kernels are in the cache. Raises as it does."""
    chosen = _chosen(policy)
    if not all(each.is_ready() for each in _entries_for(chosen)):
        return False
    if isinstance(chosen.policy, Policy):
        return chosen.policy.is_ready()
    return chosen.policy.is_ready(chosen.values) and (chosen.policy.members is None or families.is_ready())


def kernels_of(policy: str) -> str | None:
    """A name for the kernels of `compile_policy`, shared by policies that differ in numbers alone.

    Null: a user's policy, whose file may change. Raises PolicyError, ClusterError.
    """
    chosen = _chosen(policy)
    if chosen.is_users:
        return None
    if isinstance(chosen.policy, Policy):
        return f"{POOL}-{chosen.policy.name}"
    order, placement = (chosen.values.get(name) for name in ("order", "placement"))
    members = f"-{chosen.values['members']}" if chosen.policy.members is not None else ""
    return f"{NODES}-{chosen.policy.name}-{order}-{placement}{members}"


def _entries_for(chosen: AnyChosen) -> Sequence[Entry[..., Any]]:
    if isinstance(chosen.policy, Policy):
        return pool.ENTRIES
    plans, selects = chosen.policy.plans(chosen.values), chosen.policy.members is not None
    return (
        *nodes_engine.ENTRIES,
        *(planner_rounds.ENTRIES if plans else ()),
        *(SELECTION_ENTRIES if selects else ()),
    )


def _chosen(policy: str) -> AnyChosen:
    kind, text = kind_of(policy)
    return parse_policy(text) if kind == POOL else parse_nodes_policy(text)
