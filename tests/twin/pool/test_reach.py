"""How wide jobs of a pool that rents can become: worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.cluster.resources import whole_demand
from betimes.policies.pool.renting import RentingRule
from betimes.twin.pool.reach import Reach

PAIR = Offer(type="g2", gpu=2, cpu=8, memory_gib=32, usd_per_h=1.0)
LARGE = Offer(type="g8", gpu=8, cpu=32, memory_gib=64, usd_per_h=3.0)
LIGHT = (1.0, 0.0, 0.0)
HEAVY = (1.0, 0.0, 32.0)


def reach(
    offers: tuple[Offer, ...] = (PAIR,),
    quota: int | None = None,
    price: float = math.inf,
    budget: float = math.inf,
) -> Reach:
    """Two owned GPUs, and what is offered."""
    cluster = Cluster("two", (NodeGroup("own", 1, 2, 8, 32),), offers=offers, quota=quota)
    return Reach.of(2, cluster, RentingRule(100.0, price, budget))


@pytest.mark.parametrize(
    ("given", "unit", "most"),
    [
        ({"quota": 3}, LIGHT, 2 + 3 * 2),
        ({"quota": 3}, HEAVY, 1 + 3 * 1),
        ({"quota": 0}, LIGHT, 2),
        ({"offers": (replace(PAIR, capacity=2),)}, LIGHT, 2 + 2 * 2),
        ({"budget": 2.9}, LIGHT, 2 + 2 * 2),
        ({"budget": 0.9}, LIGHT, 2),
        ({"price": 0.4, "quota": 3}, LIGHT, 2),
        # One of the large ones, and two of the others.
        ({"offers": (PAIR, replace(LARGE, capacity=1)), "quota": 3}, LIGHT, 2 + 8 + 2 * 2),
        # Of the large ones two hold as many as one's memory does; only these are cheap enough.
        ({"offers": (PAIR, LARGE), "price": 0.4, "quota": 2}, HEAVY, 1 + 2 * 2),
        # 8 units for 3 USD, and 2 more for the fourth.
        ({"offers": (PAIR, LARGE), "budget": 4.0, "quota": 2}, LIGHT, 2 + 8 + 2),
        ({"offers": (replace(PAIR, usd_per_h=9.0, price_changes=((50.0, 1.0),)),), "budget": 2.0}, LIGHT, 6),
        ({"offers": (replace(PAIR, usd_per_h=0.0),), "budget": 1.0, "quota": 5}, LIGHT, 12),
        # Units that need no GPU: no job has more than the pool has units.
        ({"quota": 1}, (0.0, 0.5, 0.0), 4),
        ({"quota": 1}, (1.0, 64.0, 0.0), 0),
    ],
)
def test_the_most_units_of_a_job(given: dict[str, Any], unit: tuple[float, ...], most: int) -> None:
    assert reach(**given).most_units(whole_demand([unit])).tolist() == [most]


def test_each_job_by_its_own_demand_and_without_a_rule_by_the_nodes_alone() -> None:
    demand = whole_demand([LIGHT, HEAVY, LIGHT])
    found = reach(quota=1)
    assert found.most_units(demand).tolist() == [4, 2, 4]
    assert replace(found, rule=None).most_units(demand).tolist() == [2, 1, 2]
    assert Reach.of(7, None).most_units(np.zeros((2, 3), np.int64)).tolist() == [7, 7]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"quota": 1}, "hold 4 at most, by the quota (machines that are rented at once: 1); ask for fewer"),
        ({"offers": (replace(PAIR, capacity=1),)}, "hold 4 at most, by the capacity of the offers; ask"),
        ({"price": 0.4}, r"by rent_price of the policy (USD an hour for a unit: 0.4); ask"),
        ({"budget": 1.0, "quota": 9}, r"by rent_budget of the policy (USD an hour for all: 1); ask"),
        ({"budget": 1.0, "quota": 1}, "(USD an hour for all: 1); ask for fewer (min_units), or raise those"),
    ],
)
def test_why_a_job_is_never_held(given: dict[str, Any], words: str) -> None:
    demand = whole_demand([LIGHT])
    why = reach(**given).why_no_more(demand, 5)
    assert why is not None
    assert why.startswith(
        "5 units can never be held at once: the nodes and all machines that may be rented hold"
    )
    assert words in why
    assert reach(**given).why_no_more(demand, 2) is None


def test_where_no_limit_forbids_it_the_unit_is_too_large() -> None:
    why = reach(quota=9).why_no_more(whole_demand([(3.0, 0.0, 0.0)]), 1)
    assert why is not None
    assert why.endswith("hold 0 at most; ask for fewer (min_units), or for less in each")
