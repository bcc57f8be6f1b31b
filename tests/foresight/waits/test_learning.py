"""Waits that are learned: what is observed, models that are fitted and evaluated, and policies that go by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.nodes.wait_features import FEATURES
from betimes.errors import InputError, PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.waits import evaluate, fit, learn, mcc, observe
from betimes.foresight.waits.learning import CENSORED, Observed, choose_censored
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.wait_model import KINDS
from betimes.workload import Workload
from tests.foresight.waits.fixtures import CLUSTER, stump, work
from tests.twin.nodes.test_waiting_policies import jobs_of

SWW = parse_nodes_policy("sww:b=30m")


def test_a9_matthews_correlation() -> None:
    said = np.array([True] * 6 + [False] * 90 + [True] * 2 + [False] * 2)
    true = np.array([True] * 6 + [False] * 90 + [False] * 2 + [True] * 2)
    assert mcc(said, true) == pytest.approx(536 / 736, abs=1e-12)
    assert mcc(said, np.zeros(100, dtype=bool)) == 0.0


def test_the_features_of_the_paper_by_hand() -> None:
    """Two machines of four cores and 16 GiB; a job of 3 since 0, one of 4 since 10, one of 2 waits since 20."""
    cluster = Cluster(
        "two",
        (NodeGroup("own", 2, 0.0, 4.0, 16.0),),
        offers=(Offer(type="c", cpu=4.0, memory_gib=16.0, usd_per_h=1.0),),
    )
    jobs = jobs_of((0.0, 3, 1000.0), (10.0, 4, 2000.0), (20.0, 2, 500.0), (50.0, 4, 10.0))
    with_memory = Workload.from_columns(
        submit_s=jobs.submit_s, work_s=jobs.work_s, min_units=jobs.min_units, max_units=jobs.max_units,
        cpu=[1.0] * 4, memory_gib=[2.0] * 4,
    )  # fmt: skip
    seen = observe(with_memory, parse_nodes_policy("sww:b=1h"), cluster)
    assert seen.decided_s.tolist() == [20.0, 50.0]
    assert seen.wait_s.tolist() == [980.0, 1450.0]
    found = dict(zip(FEATURES, seen.features[1].tolist(), strict=True))
    assert found == pytest.approx(
        {
            "cluster-cpu-util": 7 / 8, "cluster-mem-util": 14 / 32, "runq-size": 2, "waitq-size": 1,
            "runq-mean-cpu": 3.5, "runq-mean-time": 45.0, "waitq-mean-cpu": 2.0, "waitq-mean-time": 30.0,
            "num-cores": 4.0,
        }
    )  # fmt: skip
    assert seen.features[0, [3, 6, 7]].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("above_s", "waits", "rented"), [(99.0, 90.0, []), (101.0, 0.0, [2])])
def test_a_job_that_is_predicted_to_wait_too_long_rents_at_once(
    tmp_path: Path, above_s: float, waits: float, rented: list[int]
) -> None:
    """Of three jobs the third finds one waiting; its true wait is 90 s."""
    stump("waitq-size", 0.5, 0.0, above_s).save(tmp_path / "model.npz")
    cluster = Cluster(
        "one",
        (NodeGroup("own", 1, 0.0, 1.0, 0.0),),
        offers=(Offer(type="c", cpu=1.0, memory_gib=4.0, usd_per_h=1.0),),
    )
    jobs = jobs_of((0.0, 1, 100.0), (10.0, 1, 10.0), (20.0, 1, 100.0))
    result = simulate_nodes(jobs, f"sww:b=100,waits=learned,model={tmp_path / 'model.npz'}", cluster=cluster)
    assert np.flatnonzero(result.jobs.rented).tolist() == rented
    assert (result.jobs.start_s - result.jobs.submit_s).tolist() == [0.0, 90.0, waits]


def test_what_waits_beyond_a_prediction_waits_for_b_and_then_rents(tmp_path: Path) -> None:
    stump("waitq-size", 0.5, 0.0, 0.0).save(tmp_path / "model.npz")
    by_model = simulate_nodes(
        work(500), f"sww:b=30m,waits=learned,model={tmp_path / 'model.npz'}", cluster=CLUSTER
    )
    by_nothing = simulate_nodes(work(500), "sww:b=30m,waits=none", cluster=CLUSTER)
    assert by_model.jobs.start_s.tolist() == by_nothing.jobs.start_s.tolist()


def test_a_model_abstains_outside_the_range_that_it_has_seen() -> None:
    model = stump("waitq-size", 0.5, 1.0, 2.0)
    inside, outside = np.zeros((1, len(FEATURES))), np.full((1, len(FEATURES)), 2e9)
    assert model.predict(inside).tolist() == [1.0]
    assert np.isnan(model.predict(outside)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fitted_model_says_compiled_what_its_library_says_and_is_the_same_after_a_file(
    kind: str, tmp_path: Path
) -> None:
    """`fit` compares it with the library, and raises where they differ."""
    seen = observe(work(2000), SWW, CLUSTER)
    model = fit(kind, seen, CENSORED[0])
    model.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    assert again.predict(seen.features).tolist() == model.predict(seen.features).tolist()
    assert again.kind == kind


@pytest.mark.slow
def test_a_learned_model_is_better_than_chance_and_worse_than_an_oracle() -> None:
    model, found = learn(work(6000), SWW, CLUSTER, "boosting")
    assert 0.1 < found.mcc[1800.0] < 1.0
    assert found.abstained_frac < 0.05
    assert found.error_s < 1800.0
    guesses = [guess for guess, _ in found.calibration]
    assert guesses == sorted(guesses)
    assert found.calibration[0][1] < found.calibration[-1][1]
    assert model.error_s == found.error_s
    truth = observe(work(500), SWW, CLUSTER)
    assert evaluate(model, truth).jobs == len(truth)


def test_how_long_a_wait_in_vain_counts_is_chosen_among_the_jobs_of_training() -> None:
    """Jobs wait in vain where the queue is long; a line through what is known sees that from 2.5 b on only."""
    rng = np.random.default_rng(1)
    size = rng.uniform(0.0, 100.0, 1000)
    vain = size > 80.0
    features = np.zeros((1000, len(FEATURES)))
    features[:, FEATURES.index("waitq-size")] = size
    wait_s = np.where(vain, 1000.0, 100.0 + rng.uniform(0.0, 1.0, 1000))
    seen = Observed(features, np.arange(1000.0), wait_s, vain, 1000.0)
    assert choose_censored("linear", seen) == 2.5
    guess = fit("linear", seen).predict(features)
    assert mcc(guess > 1000.0, vain) > 0.7
    nothing = replace(seen, vain=np.zeros(1000, dtype=bool))
    assert choose_censored("linear", nothing) == CENSORED[0]


def test_too_little_to_learn_from_and_policies_without_waits_are_refused() -> None:
    with pytest.raises(InputError, match="a model needs 50"):
        learn(work(20), SWW, CLUSTER)
    with pytest.raises(PolicyError, match="choose sww or compound"):
        observe(work(20), parse_nodes_policy("njw"), CLUSTER)
    with pytest.raises(InputError, match="choose linear, forest, boosting"):
        fit("oracle", observe(work(2000), SWW, CLUSTER))
