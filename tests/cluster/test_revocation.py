"""When spot machines are taken away."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Offer, Spot
from betimes.cluster.draws import draw
from betimes.cluster.revocation import Bathtub, Exponential, Never, Revocation
from betimes.errors import ClusterError

SPECIFIED = [
    (0.05, 0.021947),
    (0.25, 0.099540),
    (1.0, 0.284454),
    (6.0, 0.448885),
    (12.0, 0.449997),
    (23.0, 0.578927),
    (24.0, 0.9),
]
UNIFORM = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("age_h", "probability"), SPECIFIED)
def test_the_bathtub_of_the_specification(age_h: float, probability: float) -> None:
    # spec/waiting.md, A.5
    assert Bathtub().cdf(age_h) == pytest.approx(probability, abs=5e-7)
    assert Bathtub().age_s(Bathtub().cdf(age_h)) == pytest.approx(3600 * age_h)


def test_what_is_left_goes_at_the_limit_exactly() -> None:
    assert [Bathtub().age_s(u) for u in (0.9001, 0.95, math.nextafter(1.0, 0.0))] == [86_400.0] * 3
    assert Bathtub().age_s(0.8999) < 86_400.0
    assert Bathtub(limit_h=6.0).age_s(0.5) == 21_600.0
    assert Bathtub().age_s(0.0) == 0.0


BATHTUBS = st.builds(
    Bathtub,
    st.floats(0.01, 1),
    st.floats(1e-3, 100),
    st.floats(1e-3, 100),
    st.floats(0, 100),
    st.floats(1e-3, 100),
)


@given(BATHTUBS, UNIFORM)
def test_the_age_is_the_least_at_which_so_many_are_gone(bathtub: Bathtub, u: float) -> None:
    age_h = bathtub.age_s(u) / 3600.0
    assert 0.0 <= age_h <= bathtub.limit_h * (1 + 1e-12)
    if age_h < bathtub.limit_h * (1 - 1e-12):
        assert bathtub.cdf(age_h * (1 + 1e-9)) >= u * (1 - 1e-9)
    if age_h > 0.0:
        assert bathtub.cdf(age_h * (1 - 1e-9)) <= u + 1e-9


@given(st.one_of(BATHTUBS, st.builds(Exponential, st.floats(1e-3, 1e3))), UNIFORM, UNIFORM)
def test_a_larger_draw_lives_longer(revocation: Revocation, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert revocation.age_s(low) <= revocation.age_s(high)


def test_exponential() -> None:
    ages = [Exponential(2.0).age_s(random.Random(number).random()) for number in range(2000)]
    assert sum(ages) / 2000 == pytest.approx(7200.0, rel=0.1)
    assert Exponential(2.0).cdf(2.0) == pytest.approx(1 - math.exp(-1))


def test_never() -> None:
    assert (Never().age_s(0.999), Never().cdf(1e9)) == (math.inf, 0.0)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Exponential(0.0), "mean_h"),
        (lambda: Exponential(math.nan), "mean_h"),
        (lambda: Bathtub(a=0.0), "a"),
        (lambda: Bathtub(a=1.5), "a"),
        (lambda: Bathtub(tau1_h=-1.0), "tau1_h"),
        (lambda: Bathtub(tau2_h=0.0), "tau2_h"),
        (lambda: Bathtub(b_h=-0.5), "b_h"),
        (lambda: Bathtub(limit_h=math.inf), "limit_h"),
    ],
)
def test_what_no_distribution_can_be(make: object, field: str) -> None:
    with pytest.raises(ClusterError, match=f"field {field}: expected a number"):
        make()  # pyright: ignore[reportCallIssue]


SPOT = Offer(
    type="s", cpu=1, memory_gib=1, usd_per_h=1, boot_s=60, boot_sigma=0.5, boot_failure_frac=0.25, spot=Spot()
)


def test_draws_follow_from_seed_type_and_number() -> None:
    drawn = [draw(SPOT, 7, number) for number in range(2000)]
    assert drawn == [draw(SPOT, 7, number) for number in range(2000)]
    assert drawn != [draw(SPOT, 8, number) for number in range(2000)]
    assert sorted(each.boot_s for each in drawn)[1000] == pytest.approx(60, rel=0.1)
    assert sum(each.fails for each in drawn) == pytest.approx(500, abs=80)
    assert sum(each.age_s <= 3600 for each in drawn) == pytest.approx(2000 * 0.284454, abs=80)
    assert sum(each.age_s == 86_400.0 for each in drawn) == pytest.approx(200, abs=50)


def test_on_demand_machines_stay() -> None:
    offer = Offer(type="s", cpu=1, memory_gib=1, usd_per_h=1, boot_s=60)
    assert draw(offer, 0, 3) == (60.0, False, math.inf)
