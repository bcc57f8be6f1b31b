"""Points of the released Pareto fronts: the stored objective values come of the stored variables (trace 2869ce)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from betimes import Result, SpeedupTable, Workload
from betimes.foresight.tuning import Evaluator, HeuristicSpace, Problem, parse_objectives
from betimes.twin.options import SimulationOptions
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


@pytest.mark.parametrize("point", POINTS)
def test_the_search_finds_them_at_the_same_place(
    point: str, trace: Callable[[str], Workload], curves: SpeedupTable
) -> None:
    variables, average_jct_s, average_error = POINTS[point]
    objectives = parse_objectives(["jct:avg", "pred_err:avg"])
    evaluator = Evaluator(
        Problem(trace("2869ce"), objectives, SimulationOptions(units=64, fractional=True, curves=curves))
    )
    space = HeuristicSpace(evaluator.sizes(), published=True)
    config = space.config(np.array(list(map(float, variables))))
    assert config is not None
    found = evaluator.values(config.policy)
    assert found == pytest.approx((average_jct_s, average_error / 100.0), rel=1e-7)
