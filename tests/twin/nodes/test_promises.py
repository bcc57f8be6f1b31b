"""Play-outs on nodes: a copy goes on as the original does, and promises hold where nothing comes between."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from betimes import Workload
from betimes.cluster import Cluster
from betimes.core.nodes import snapshot
from betimes.core.nodes.growth import room_to_play
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.kernels import as_array, entry
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import run_rows
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes
from tests.core.nodes.invariants import check
from tests.reference.nodes.cases import Case, cases, crowded_cases, is_refused, with_families
from tests.twin.nodes.driving import draw, simulation_of

copy_into = entry(snapshot.copy_into)


@settings(max_examples=10, deadline=None)
@given(cases() | crowded_cases() | with_families(cases() | crowded_cases()))
def test_a_copy_goes_on_as_the_original_does(case: Case):
    assume(not all(is_refused(job, case.nodes, case.policy) for job in case.jobs))
    case = replace(case, policy=replace(case.policy, draw=draw))
    run = simulation_of(case)
    half = len(run.jobs) // 2
    while run.row[0] < half:
        run.driver.heed(run.driver.step(half))
    copy = room_to_play(run.state)
    copy_into(run.state, copy, False)
    check(copy)
    aside = run.trace.replaced(
        outcomes=copied(run.trace.outcomes),
        finished=run.trace.finished.copy(),
        history=copied(run.trace.history),
    )
    row = run.row.copy()
    status = run_rows(copy, run.rules, aside, row, len(run.jobs), math.inf)
    assume(status == 0)  # the copy did not have to grow
    check(copy)
    run.run()
    assert as_array(aside.outcomes).tobytes() == as_array(run.trace.outcomes).tobytes()


def copied(records: Any) -> Any:
    return records.copy()


def mixture(jobs: int, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload.from_columns(
        submit_s=np.sort(rng.integers(0, 40 * jobs, jobs)).astype(float),
        work_s=rng.integers(60, 900, jobs).astype(float),
        qos=(rng.random(jobs) < 0.3).astype(int),
        gpu=rng.integers(0, 5, jobs).astype(float),
        cpu=rng.integers(1, 9, jobs).astype(float),
        memory_gib=rng.integers(1, 65, jobs).astype(float),
        grace_s=rng.integers(0, 120, jobs).astype(float),
        estimate_s=rng.integers(60, 1800, jobs).astype(float),
    )


CLUSTER = Cluster.uniform(2, gpu=8, cpu=16, memory_gib=128)


@pytest.mark.parametrize("policy", ["fifo", "fifo:placement=worst", "fifo:placement=first"])
def test_strict_order_is_perfectly_predictable(policy: str) -> None:
    jobs = simulate_nodes(mixture(300, 1), policy, cluster=CLUSTER, sizes="true", predict=True).jobs
    assert np.abs(jobs.finish_s - jobs.predicted_finish_s).max() <= 1e-6


@pytest.mark.parametrize("policy", ["easy", "fitgpp", "unicef:backfill=easy"])
@pytest.mark.parametrize("sizes", ["true", "estimate", "noise:0.5"])
def test_promising_changes_nothing_and_a_sample_promises_the_same(policy: str, sizes: str) -> None:
    workload = mixture(200, 3)
    plain = simulate_nodes(workload, policy, cluster=CLUSTER, sizes=sizes)
    every = simulate_nodes(workload, policy, cluster=CLUSTER, sizes=sizes, predict=True)
    some = simulate_nodes(workload, policy, cluster=CLUSTER, sizes=sizes, predict=True, predict_sample=40)
    assert np.array_equal(plain.jobs.finish_s, every.jobs.finish_s)
    assert np.array_equal(plain.jobs.finish_s, some.jobs.finish_s)
    chosen = ~np.isnan(some.jobs.predicted_finish_s)
    assert chosen.sum() == 40
    assert np.array_equal(some.jobs.predicted_finish_s[chosen], every.jobs.predicted_finish_s[chosen])


def test_all_that_arrive_at_one_instant_are_promised_together() -> None:
    """More jobs at once than the columns begin with: they grow in the middle of the instant."""
    rng = np.random.default_rng(4)
    jobs = Workload.from_columns(
        submit_s=np.zeros(600),
        work_s=rng.integers(10, 1000, 600).astype(float),
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
    )
    for policy in ("sjf", "skip-over", "conservative"):
        result = simulate_nodes(jobs, policy, cluster=Cluster.uniform(2, cpu=2), predict=True).jobs
        assert np.abs(result.finish_s - result.predicted_finish_s).max() <= 1e-6


def test_noise_never_lets_nodes_be_taken_twice() -> None:
    """Beliefs that run out before the work does are no promise that the nodes are free."""
    workload = mixture(300, 6)
    for policy in ("conservative", "easy", "conservative:order=sjf"):
        run = NodesSimulation(
            workload,
            parse_nodes_policy(policy),
            SimulationOptions(cluster=CLUSTER, sizes=parse_sizes("noise:0.9"), seed=1),
        )

        def step(stop: int, run: NodesSimulation = run) -> int:
            run.state.pool[0].budget = 1
            status = run.driver.step(stop)
            assert (
                min(as_array(run.state.nodes)[name].min() for name in ("free_gpu", "free_cpu", "free_memory"))
                >= 0
            )
            return status

        run.run(step)
        check(run.state)


def test_jobs_shorter_than_the_clock_can_tell_do_not_share_a_core() -> None:
    jobs = Workload.from_columns(submit_s=np.full(3, 1e15), work_s=1e-3, cpu=1.0, gpu=0.0, memory_gib=0.0)
    run = NodesSimulation(
        jobs, parse_nodes_policy("conservative"), SimulationOptions(cluster=Cluster.uniform(1, cpu=1))
    )
    run.run(lambda stop: (run.driver.step(stop), check(run.state))[0])
    assert not np.isnan(run.result().jobs.finish_s).any()
