"""What a promise made at an arrival is worth, and that making it changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import simulate
from betimes.errors import InputError
from betimes.outcome import Result
from betimes.workload import Workload
from tests.twin.pool.crowds import EVERY_POLICY, MODES, crowd
from tests.twin.pool.replaying import outcome_of


@EVERY_POLICY
@MODES
@pytest.mark.parametrize("minimums", [True, False], ids=["minimums", "no-minimums"])
@pytest.mark.parametrize("restart_s", [0.0, 5.0])
def test_a_promise_is_the_future_without_further_arrivals(
    policy: str, fractional: bool, minimums: bool, restart_s: float
) -> None:
    """To the last bit: what is promised at an arrival comes true if it was the last one."""
    jobs = crowd(7, 60, minimums=minimums)

    def run(jobs: Workload, *, predict: bool) -> Result:
        return simulate(
            jobs, policy, units=8, fractional=fractional, restart_s=restart_s, predict=predict, sizes="true"
        )

    promised = run(jobs, predict=True).jobs.predicted_finish_s
    for last in range(0, len(jobs), 4):
        truth = run(jobs[: last + 1], predict=False).jobs.finish_s[-1]
        assert promised[last] == truth


@EVERY_POLICY
@MODES
@pytest.mark.parametrize("sizes", ["true", "estimate", "last-two", "noise:0.4"])
@pytest.mark.parametrize("restart_s", [0.0, 5.0])
def test_promising_changes_nothing(policy: str, fractional: bool, sizes: str, restart_s: float) -> None:
    """Play-outs run on copies: the schedule is the same, to the last bit, as without them."""

    def outcome(predict: bool) -> dict[str, bytes]:
        result = simulate(
            crowd(11, 80),
            policy,
            units=10,
            fractional=fractional,
            predict=predict,
            sizes=sizes,
            restart_s=restart_s,
            timeline=True,
        )
        assert np.isnan(result.jobs.predicted_finish_s).all() != predict
        return {name: bits for name, bits in outcome_of(result).items() if name != "predicted_finish_s"}

    assert outcome(True) == outcome(False)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("restart_s", [0.0, 3.0])
def test_fifo_keeps_its_promises(seed: int, restart_s: float) -> None:
    """Whoever comes later takes nothing away, in whole units and with minimum widths too."""
    jobs = simulate(crowd(seed, 200), "fifo", units=12, predict=True, restart_s=restart_s).jobs
    np.testing.assert_allclose(jobs.predicted_finish_s, jobs.finish_s, rtol=1e-12)


def sampled(seed: int, sample: int | None) -> Result:
    return simulate(crowd(3, 60), "srsf", units=8, predict=True, predict_sample=sample, seed=seed)


def test_a_sample_of_promises_is_drawn_by_the_seed() -> None:
    everyone = sampled(1, None).jobs.predicted_finish_s
    some = sampled(1, 20).jobs.predicted_finish_s
    chosen = ~np.isnan(some)
    assert chosen.sum() == 20
    assert some[chosen].tolist() == everyone[chosen].tolist()
    assert some.tobytes() == sampled(1, 20).jobs.predicted_finish_s.tobytes()
    assert (np.isnan(sampled(2, 20).jobs.predicted_finish_s) == chosen).any()


def test_a_sample_as_large_as_the_workload_is_everyone() -> None:
    assert sampled(1, 60).jobs == sampled(1, None).jobs
    assert sampled(1, 1000).jobs == sampled(1, None).jobs


@pytest.mark.parametrize("sample", [0, -3])
def test_a_sample_of_nobody_is_refused(sample: int) -> None:
    with pytest.raises(InputError, match="--predict-sample"):
        sampled(1, sample)
