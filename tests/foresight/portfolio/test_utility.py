"""The worked cases C1 and C4 of spec/portfolio.md, and what utility is at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.foresight.portfolio.utility import KAPPA, Utility, bounded_slowdown, charged_s
from betimes.kernels import entry

slowdown_of = entry(bounded_slowdown, float, float)
charged = entry(charged_s, float, float, float)


@pytest.mark.parametrize(
    ("wait_s", "run_s", "expected"),
    [(0.0, 50.0, 1.0), (20.0, 5.0, 3.0), (300.0, 100.0, 4.0), (120.0, 1800.0, 1.066667)],
)
def test_c1(wait_s: float, run_s: float, expected: float) -> None:
    assert slowdown_of(wait_s, run_s) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("held_s", "expected"), [(1.0, 3600.0), (3600.0, 3600.0), (3601.0, 7200.0), (7200.0, 7200.0)]
)
def test_c4(held_s: float, expected: float) -> None:
    assert charged(held_s, 3600.0, 3600.0) == expected


def test_without_steps_every_second_counts_from_the_minimum_on() -> None:
    assert charged(61.5, 60.0, 0.0) == 61.5
    assert charged(1.0, 60.0, 0.0) == 60.0


@given(
    st.floats(0.0, 1e9),
    st.floats(0.0, 1e9),
    st.floats(1.0, 1e6),
    st.floats(0.0, 4.0),
    st.floats(0.0, 4.0),
)
def test_c10_utility_is_at_most_kappa(
    job_s: float, machine_s: float, slowdown: float, alpha: float, beta: float
) -> None:
    assert 0.0 <= Utility(alpha, beta).of(job_s, machine_s, slowdown) <= KAPPA


def test_c10_without_alpha_only_waiting_counts() -> None:
    waits = Utility(alpha=0.0)
    assert waits.of(100.0, 7200.0, 2.0) == waits.of(100.0, 3600.0, 2.0) == KAPPA / 2.0


def test_jobs_that_need_no_rented_machine_cost_nothing() -> None:
    assert Utility().of(100.0, 0.0, 1.0) == KAPPA
