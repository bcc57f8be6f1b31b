"""From four numbers to thresholds and weights, as worked out by hand (specification of PCS, case T8)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.foresight.tuning import FreeSpace, HeuristicSpace
from betimes.policies import parse_policy

SIZES = np.array([1.0, 2.0, 3.0, 10.0, 11.0, 50.0, 100.0, 1000.0])


def config(sizes: np.ndarray, most: float, decay: float = 0.0):
    return HeuristicSpace(sizes, published=True).config(np.array([most, decay, 0.5, 0.1]))


@pytest.mark.parametrize(
    ("most", "ends"), [(5.0, ()), (0.5, (3, 100)), (0.25, (3, 11, 100)), (0.05, (1, 3, 11, 100))]
)
def test_thresholds_as_published(most: float, ends: tuple[float, ...]) -> None:
    found = config(SIZES, most)
    assert found is not None
    assert found.thresholds == ends


def test_thresholds_as_published_are_whole_seconds() -> None:
    found = config(np.array([10.0, 10.0, 10.9, 100.0, 100.5, 400.0]), 0.3)
    assert found is not None
    assert found.thresholds == (10, 100)


@pytest.mark.parametrize(
    ("decay", "most", "weights"),
    [
        (0.0, 0.5, "1/3 1/3 1/3"),
        (1.0, 0.5, "133/200 49/200 9/100"),
        (2.5, 0.5, "34/37 25/333 2/333"),
        (3.0, 0.5, "950/999 47/999 2/999"),
        (-0.67, 0.5, "148/1001 289/1001 564/1001"),
        (0.5, 0.25, "91/200 69/250 167/1000 51/500"),
    ],
)
def test_weights(decay: float, most: float, weights: str) -> None:
    found = config(SIZES, most, decay)
    assert found is not None
    assert found.weights == tuple(map(Fraction, weights.split()))


def test_a_class_that_would_get_nothing_makes_it_impossible() -> None:
    assert config(SIZES, 0.25, 3.0) is None


def test_bounds() -> None:
    space = HeuristicSpace(SIZES)
    np.testing.assert_allclose(space.low, [0.001, -3.0, 0.0, 0.01])
    np.testing.assert_allclose(space.high, [4.848343606464602 + 1.0, 3.0, 1.0, 0.9])


def test_the_policy_says_all_of_it() -> None:
    found = config(SIZES, 0.5, 1.0)
    assert found is not None
    assert found.policy == "wfq:thresholds=3+100,weights=133/200+49/200+9/100,zeta_min=0.5,delta=0.1"
    assert parse_policy(found.policy).values["thresholds"] == (3, 100)


def test_one_class_needs_no_threshold() -> None:
    found = config(SIZES, 5.0)
    assert found is not None
    assert found.policy == "wfq:weights=1,zeta_min=0.5,delta=0.1"


def test_every_threshold_and_weight_of_its_own() -> None:
    space = FreeSpace(SIZES)
    assert len(space.names) == len(space.low) == len(space.high) == 13
    middle = np.array([3.9, 500.0, 20.0, 7.0, 7.0, 7.0, 0.5, 0.25, 0.25, 1.0, 1.0, 0.3, 0.2])
    found = space.config(middle)
    assert found is not None
    assert found.thresholds == (20.0, 500.0)
    assert found.weights == (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
    middle[6] = 0.0
    assert space.config(middle) is None


@pytest.mark.parametrize("space", [HeuristicSpace, FreeSpace])
@pytest.mark.parametrize(
    ("sizes", "part"), [([5.0], "needs at least two jobs"), ([5.0, 5.0, 5.0], "same size (5 s")]
)
def test_what_has_no_classes_is_refused(space: type, sizes: list[float], part: str) -> None:
    with pytest.raises(InputError, match=r"at least two|same size") as refused:
        space(np.array(sizes))
    assert part in str(refused.value)
