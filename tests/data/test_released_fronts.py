"""Points of the released Pareto fronts: the stored objective values come of the stored variables (trace 2869ce)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from betimes import Result
from tests.data.test_published_figures import error_percent, jct

# T, W, zeta_min, delta -> average completion time (s), average prediction error (percent)
POINTS = {
    "shortest completion times": (
        ("2.4564053788354894", "2.2547490957674077", "0.8451585702251541", "0.03856238126746582"),
        67133.79324858576,
        7.590350638786166,
    ),
    # One class, and yet not FIFO: zeta_min is above the least efficiency of some curves.
    "one class": (
        ("5.353709990914058", "1.452694127025606", "0.24740147668626183", "0.061556538792883406"),
        270802.05263170286,
        0.023230884578907988,
    ),
}


@pytest.mark.parametrize("point", POINTS)
def test_objectives_of_a_released_point(point: str, replay: Callable[..., Result]) -> None:
    (most, decay, zeta_min, delta), average_jct_s, average_error = POINTS[point]
    policy = f"wfq:T={most},W={decay},zeta_min={zeta_min},delta={delta},classes=published"
    result = replay("2869ce", policy, predict=True)
    assert jct(result).mean() == pytest.approx(average_jct_s, rel=1e-7)
    assert error_percent(result).mean() == pytest.approx(average_error, rel=1e-7)
