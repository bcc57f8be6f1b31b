"""Bills as columns are the exact ones, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster.billing import Billing, Prices, lease_usd, leases_usd

BILLINGS = (
    Billing(),
    Billing(min_bill_s=60.0),
    Billing(bill_step_s=1.0),
    Billing(min_bill_s=60.0, bill_step_s=1.0),
    Billing(min_bill_s=90.0, bill_step_s=60.0),
    Billing(bill_step_s=0.1),
    Billing(min_bill_s=3600.0, bill_step_s=3600.0),
)
SECONDS = st.one_of(st.floats(0.0, 1e9), st.integers(0, 10**6).map(float), st.just(math.inf))
CHANGED = Prices(0.5, ((10.0, 0.25),))


@given(
    billing=st.sampled_from(BILLINGS),
    prices=st.one_of(
        st.floats(0.0, 1e4).map(Prices), st.sampled_from([Prices(0.096), Prices(3600.0), CHANGED])
    ),
    spans=st.lists(st.tuples(SECONDS, st.one_of(SECONDS.filter(math.isfinite), st.none())), max_size=20),
)
def test_many_leases_cost_what_each_costs(
    billing: Billing, prices: Prices, spans: list[tuple[float, float | None]]
) -> None:
    pairs = [(a, min(a, 1e9) + 60.0 if b is None else b) for a, b in spans]
    found = leases_usd(billing, prices, np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    expected = [float(lease_usd(billing, prices, a, b)) if a < math.inf else 0.0 for a, b in pairs]
    assert found.tolist() == expected


@pytest.mark.parametrize("billing", BILLINGS)
def test_leases_of_a_long_run(billing: Billing) -> None:
    rng = np.random.default_rng(1)
    since = rng.uniform(0.0, 3e7, 2_000)
    until = since + rng.exponential(500.0, 2_000)
    found = leases_usd(billing, Prices(0.768), since, until)
    for a, b, usd in zip(since.tolist(), until.tolist(), found.tolist(), strict=True):
        assert usd == float(lease_usd(billing, Prices(0.768), a, b))
