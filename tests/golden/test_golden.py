"""Outcomes of every policy on the samples, against what they were when they were last decided about.

A failure here means that schedules have changed. If that is meant, `tests/golden/regenerate.py` says what to do.
"""

from __future__ import annotations

import numpy as np
import pytest

from betimes import POLICIES
from tests.golden import outcomes

# Another processor may round a transcendental function otherwise, never more than this.
CLOSE = 1e-9

HINT = "; if that is meant, see tests/golden/regenerate.py"


@pytest.mark.parametrize(("sample", "policy", "mode"), outcomes.runs())
def test_outcomes_are_what_they_were(sample: str, policy: str, mode: str) -> None:
    golden = outcomes.load(sample)[outcomes.name_of(policy, mode)]
    now = outcomes.run(sample, policy, mode)
    assert golden.keys() == now.keys()
    for column in ("finish_s", "predicted_finish_s"):
        np.testing.assert_allclose(now[column], golden[column], rtol=CLOSE, err_msg=f"{column}{HINT}")
    for column in ("preemptions", "resizes"):
        np.testing.assert_array_equal(now[column], golden[column], err_msg=f"{column}{HINT}")


def test_every_policy_is_among_them() -> None:
    assert {policy.partition(":")[0] for policy in outcomes.POLICIES} == set(POLICIES)


def test_the_files_hold_the_runs_and_nothing_else() -> None:
    for sample in outcomes.UNITS:
        expected = [
            outcomes.name_of(policy, mode) for name, policy, mode in outcomes.runs() if name == sample
        ]
        assert list(outcomes.load(sample)) == expected
