"""Outcomes of every policy on the samples, against what they were when they were last decided about.

A failure here means that schedules have changed. If that is meant, `tests/golden/regenerate.py` says what to do.
"""

from __future__ import annotations

import numpy as np
import pytest

from betimes import NODES_POLICIES, POLICIES, plugins
from betimes.policies import parse_nodes_policy
from tests.golden import on_nodes, outcomes, rented

# Another processor may round a transcendental function otherwise, never more than this.
CLOSE = 1e-9

HINT = "; if that is meant, see tests/golden/regenerate.py"


@pytest.mark.parametrize(("file", "policy", "mode"), outcomes.runs())
def test_outcomes_are_what_they_were(file: str, policy: str, mode: str) -> None:
    golden = outcomes.load(file)[outcomes.name_of(policy, mode)]
    now = outcomes.run(file, policy, mode)
    assert golden.keys() == now.keys()
    for column, values in golden.items():
        close = CLOSE if column.endswith("_s") else 0.0  # times, and counts
        np.testing.assert_allclose(now[column], values, rtol=close, err_msg=f"{column}{HINT}")


def test_every_policy_is_among_them() -> None:
    assert {policy.partition(":")[0] for policy in outcomes.POLICIES} == set(POLICIES)
    on_nodes_all = {*NODES_POLICIES, *plugins.OF_PAPERS[plugins.POLICIES]}
    chosen = [parse_nodes_policy(name) for name in on_nodes_all]
    renting = {each.source for each in chosen if each.policy.rents(each.values)}
    planned = {"wfq"}  # on unlike nodes, where there are no promises: tests/policies/packing
    assert on_nodes_all - renting - planned <= set(on_nodes.POLICIES)  # as they are by default
    assert renting == {policy.partition(":")[0] for policy in rented.POLICIES} | set(rented.WITHOUT)


def test_the_files_hold_the_runs_and_nothing_else() -> None:
    for file in outcomes.FILES:
        expected = [outcomes.name_of(policy, mode) for name, policy, mode in outcomes.runs() if name == file]
        assert list(outcomes.load(file)) == expected
