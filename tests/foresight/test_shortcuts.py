"""The quick ways of playing a queue out give the promises of the play-out that asks the policy at every event."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.foresight.simulate import predicting
from betimes.policies import parse_policy
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.simulation import Simulation
from betimes.twin.sizes import parse_sizes
from betimes.workload import Workload

JOBS = 60


def promises(workload: Workload, policy: str, *, shortcuts: bool, **options: object) -> np.ndarray:
    """The promised finish of every job."""
    run = Simulation(workload, parse_policy(policy), SimulationOptions(**options))  # pyright: ignore[reportArgumentType]
    run.run(predicting(run, np.ones(len(workload), dtype=np.int64), shortcuts))
    return run.predicted


def crowd(seed: int, widest: int, gap_s: float, minimum: int = 1) -> Workload:
    """More jobs than the pool can take, some identical, some at one instant; `minimum`: of every fifth job."""
    draw = np.random.default_rng(seed)
    width = draw.integers(1, widest + 1, JOBS)
    return Workload.from_columns(
        submit_s=np.cumsum(draw.exponential(gap_s, JOBS) * draw.integers(0, 2, JOBS)),
        work_s=draw.choice([1.0, 2.0, 5.0, float(draw.exponential(30.0)) + 0.1], JOBS),
        max_units=width,
        min_units=np.where(np.arange(JOBS) % 5 == 0, np.minimum(width, minimum), 1),
        curve=["linear", "amdahl:0.2", "power:0.7"][seed % 3],
        name="crowd",
    )


@given(
    seed=st.integers(0, 10_000),
    units=st.integers(1, 12),
    widest=st.integers(1, 10),
    gap_s=st.sampled_from([0.01, 0.5, 5.0]),
    restart_s=st.sampled_from([0.0, 0.7]),
    fractional=st.booleans(),
    sizes=st.sampled_from(["true", "noise:0.3"]),
    minimum=st.sampled_from([1, 3]),
)
def test_units_that_go_down_the_queue(
    seed: int,
    units: int,
    widest: int,
    gap_s: float,
    restart_s: float,
    fractional: bool,
    sizes: str,
    minimum: int,
) -> None:
    workload = crowd(seed, widest, gap_s, min(minimum, units))
    options = {
        "units": units,
        "fractional": fractional,
        "restart_s": restart_s,
        "sizes": parse_sizes(sizes),
        "seed": seed,
    }
    for policy in ("fifo", "max-min"):
        quick = promises(workload, policy, shortcuts=True, **options)
        asked = promises(workload, policy, shortcuts=False, **options)
        if policy == "max-min" and fractional:
            np.testing.assert_allclose(quick, asked, rtol=1e-9)  # the same sums in another order
        else:
            np.testing.assert_array_equal(quick, asked)


@pytest.mark.parametrize("policy", ["srsf", "srtf", "las", "afs", "themis"])
def test_other_policies_are_always_asked(policy: str) -> None:
    declared = parse_policy(policy).policy
    assert (declared.playout_whole, declared.playout_fractional) == (0, 0)


@given(
    seed=st.integers(0, 10_000),
    units=st.integers(1, 24),
    widest=st.integers(1, 10),
    gap_s=st.sampled_from([0.01, 0.5, 5.0]),
    restart_s=st.sampled_from([0.0, 0.7]),
    fractional=st.booleans(),
    sizes=st.sampled_from(["true", "noise:0.3"]),
    minimum=st.sampled_from([1, 3]),
    classes=st.sampled_from(["thresholds=1.5+4+30,weights=4+3+2+1", "thresholds=4,weights=1+9", "weights=1"]),
    caps=st.sampled_from(["zeta_min=0", "zeta_min=0.6,delta=0.1", "zeta_min=0.95,delta=0.3"]),
)
def test_units_that_stay_in_their_class(
    seed: int,
    units: int,
    widest: int,
    gap_s: float,
    restart_s: float,
    fractional: bool,
    sizes: str,
    minimum: int,
    classes: str,
    caps: str,
) -> None:
    workload = crowd(seed, widest, gap_s, min(minimum, units))
    options = {
        "units": units,
        "fractional": fractional,
        "restart_s": restart_s,
        "sizes": parse_sizes(sizes),
        "seed": seed,
    }
    policy = f"wfq:{classes},{caps}"
    quick = promises(workload, policy, shortcuts=True, **options)
    asked = promises(workload, policy, shortcuts=False, **options)
    if fractional:
        np.testing.assert_allclose(quick, asked, rtol=1e-9)  # shares leave up to a billionth of a unit over
    else:
        np.testing.assert_array_equal(quick, asked)
