"""Utilisation of machines that come and go."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster.utilisation import Span, amount_seconds, utilisation_frac


def test_only_time_in_which_a_machine_exists_counts() -> None:
    owned = Span(-math.inf, math.inf, (0, 4000, 1024))
    rented = Span(10.0, 20.0, (1000, 8000, 0))
    tasks = [Span(0.0, 5.0, (0, 4000, 512)), Span(12.0, 17.0, (1000, 8000, 0))]
    assert amount_seconds([owned, rented], 0.0, 20.0) == (10_000, 160_000, 20_480)
    assert utilisation_frac(tasks, [owned, rented], 0.0, 20.0) == (0.5, 60 / 160, 0.125)
    assert utilisation_frac(tasks, [owned, rented], 10.0, 20.0) == (0.5, 40 / 120, 0.0)


def test_nothing_there() -> None:
    assert utilisation_frac([], [], 0.0, 10.0) == ()
    assert utilisation_frac([], [Span(20.0, 30.0, (1, 1, 1))], 0.0, 10.0) == (0.0, 0.0, 0.0)
    assert amount_seconds([Span(5.0, 3.0, (1,))], 0.0, 10.0) == (0,)


TIMES = st.floats(0, 1e6)
SPANS = st.lists(st.builds(Span, TIMES, TIMES, st.tuples(*[st.integers(0, 10**12)] * 3)), max_size=6)


@given(SPANS, TIMES, TIMES, TIMES, st.randoms(use_true_random=False))
def test_pieces_add_up_in_any_order(
    spans: list[Span], one: float, two: float, three: float, order: random.Random
) -> None:
    first, middle, last = sorted((one, two, three))
    whole = amount_seconds(spans, first, last)
    halves = (
        amount_seconds(spans, first, middle),
        amount_seconds(order.sample(spans, len(spans)), middle, last),
    )
    assert whole == tuple(map(Fraction.__add__, *halves))
