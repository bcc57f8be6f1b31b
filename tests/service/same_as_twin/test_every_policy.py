"""Every policy that the service takes is compared with the twin by a test of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from betimes import plugins
from betimes.cluster import Offer
from betimes.errors import PolicyError
from betimes.policies import NODES_POLICIES, POLICIES
from betimes.service.engines.named_policies import check_live
from tests.service.same_as_twin import (
    test_heterogeneous,
    test_planners,
    test_rents,
    test_specifications,
    test_ticks,
    test_traces,
)

OF_A_POOL = (test_traces.test_pool_policies,)
ON_NODES = (
    test_traces.test_nodes_policies,
    test_specifications.test_few_wide_jobs_on_mixed_nodes,
    test_rents.test_hundreds_of_jobs,
    test_ticks.test_the_same_rents_at_ticks,
    test_planners.test_the_same_plans,
    test_heterogeneous.test_unlike_machines,
)
EVERY_ON_NODES = (*NODES_POLICIES, *plugins.OF_PAPERS[plugins.POLICIES])
OFFER = Offer(type="c2", cpu=2, memory_gib=8, usd_per_h=0.1)


def compared(*tests: Callable[..., None]) -> set[str]:
    """The names of the policies for which these tests are run."""
    found: set[str] = set()
    for test in tests:
        marks: list[Any] = [mark for mark in test.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
        for mark in marks:
            names, rows = mark.args
            names = [names] if isinstance(names, str) else list(names)
            for row in rows:
                values = row.values if hasattr(row, "marks") else row
                values = [values] if isinstance(values, str) else values
                found.add(values[names.index("policy")].removeprefix("nodes:").partition(":")[0])
    return found


def is_live(policy: str) -> bool:
    try:
        check_live(policy, (OFFER,))
    except PolicyError:
        return False
    return True


def test_each_for_a_pool_is_compared() -> None:
    assert compared(*OF_A_POOL) == set(POLICIES)


def test_each_on_nodes_is_compared() -> None:
    names = {name: f"nodes:{name}" if name in POLICIES else name for name in EVERY_ON_NODES}
    assert compared(*ON_NODES) == {name for name, text in names.items() if is_live(text)}


@pytest.mark.parametrize("policy", [name for name in EVERY_ON_NODES if name not in compared(*ON_NODES)])
def test_the_others_are_refused(policy: str) -> None:
    with pytest.raises(PolicyError, match=f"policy {policy}"):
        check_live(policy, (OFFER,))
