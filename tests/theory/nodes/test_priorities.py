"""Classes of jobs on one server and on several: Cobham's waits without preemption, preemptive resume with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest

from betimes import Result, Workload
from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from tests.theory.nodes.replications import JOBS, agrees, seeds_for, steady_mean, waits
from tests.theory.queues import Floats, Size, bounded_pareto, exponential, responses
from tests.theory.test_first_come_first_served import erlang_c


@dataclass(frozen=True)
class Kind:
    """Jobs of one class: Poisson arrivals at `rate` a second."""

    rate: float
    size: Size

    @property
    def load(self) -> float:
        return self.rate * self.size.mean


HURRIED = Kind(0.5, exponential(0.4))  # a load of 0.2
PATIENT = Kind(0.5, bounded_pareto())  # of 0.5
MIDDLE = Kind(0.3, exponential(0.5))  # of 0.15
TRIAL_POLICIES = ("fitgpp", "lrtp", "rand", "youngest")


def classes_workload(kinds: Sequence[Kind], seed: int, *, as_trials: bool) -> Workload:
    """Jobs of several classes, the first of the highest rank: a trial job, or the highest priority."""
    rng = np.random.default_rng(seed)
    rates = np.array([kind.rate for kind in kinds])
    submit_s = np.cumsum(rng.exponential(1.0 / rates.sum(), JOBS))
    of = rng.choice(len(kinds), JOBS, p=rates / rates.sum())
    work_s = np.choose(of, [kind.size.draw(rng, JOBS) for kind in kinds])
    return Workload.from_columns(
        submit_s=submit_s,
        work_s=work_s,
        qos=np.where(of == 0, 1, 0) if as_trials else 0,
        priority=0 if as_trials else len(kinds) - 1 - of,
    )


@lru_cache(maxsize=8)
def runs(
    policy: str, kinds: tuple[Kind, ...], cluster: Cluster, *, as_trials: bool
) -> list[tuple[Workload, Result]]:
    pairs = []
    for seed in seeds_for(len(cluster), [kind.rate for kind in kinds], policy):
        workload = classes_workload(kinds, seed, as_trials=as_trials)
        pairs.append((workload, simulate_nodes(workload, policy, cluster=cluster)))
    return pairs


def means_of(
    pairs: Sequence[tuple[Workload, Result]], kind: int, measure: Callable[[Result], Floats]
) -> list[float]:
    """The mean of each run over the jobs of one class, the first being the highest."""
    means = []
    for workload, result in pairs:
        rank = 2 * workload.priority + workload.qos
        means.append(steady_mean(measure(result), rank == np.unique(rank)[::-1][kind]))
    return means


def load_upto(kinds: Sequence[Kind], kind: int) -> float:
    """The load of all classes up to and including this one; 0 before the first."""
    return sum(other.load for other in kinds[: kind + 1])


def cobham(kinds: Sequence[Kind], kind: int) -> float:
    """Mean wait of a class in M/G/1 with classes of which none interrupts another (Cobham 1954)."""
    residual = sum(other.rate * other.size.second_moment for other in kinds) / 2.0
    return residual / ((1.0 - load_upto(kinds, kind - 1)) * (1.0 - load_upto(kinds, kind)))


def preemptive_resume(kinds: Sequence[Kind], kind: int) -> float:
    """Mean response of a class in M/G/1 where higher ones interrupt, and work goes on later (Kleinrock II, 3.6)."""
    before = 1.0 - load_upto(kinds, kind - 1)
    residual = sum(other.rate * other.size.second_moment for other in kinds[: kind + 1]) / 2.0
    return kinds[kind].size.mean / before + residual / (before * (1.0 - load_upto(kinds, kind)))


@pytest.mark.parametrize("policy", ["fitgpp:P=0", "youngest:P=0"])
def test_trial_jobs_that_may_not_preempt_are_cobhams_first_class(policy: str) -> None:
    kinds = (HURRIED, PATIENT)
    results = runs(policy, kinds, Cluster.pool(1), as_trials=True)
    for kind in range(2):
        means = means_of(results, kind, waits)
        agrees(means, cobham(kinds, kind), precision=0.05)


def test_three_priorities_without_preemption() -> None:
    kinds = (HURRIED, MIDDLE, PATIENT)
    results = runs("lowest-priority:P=0", kinds, Cluster.uniform(1, cpu=1), as_trials=False)
    for kind in range(3):
        means = means_of(results, kind, waits)
        agrees(means, cobham(kinds, kind), precision=0.08)


def test_three_priorities_on_several_nodes_without_preemption() -> None:
    # One size for all: the wait of a class is what everybody's server time gives, over those that go before (Cobham).
    servers = 4
    kinds = tuple(Kind(rate, exponential(2.5)) for rate in (0.4, 0.5, 0.4))
    results = runs("lowest-priority:P=0", kinds, Cluster.uniform(servers, cpu=1), as_trials=False)
    load = sum(kind.load for kind in kinds)
    until_one_ends = erlang_c(servers, load) * 2.5 / servers
    for kind in range(3):
        before, upto = (load_upto(kinds, k) / servers for k in (kind - 1, kind))
        means = means_of(results, kind, waits)
        agrees(means, until_one_ends / ((1.0 - before) * (1.0 - upto)), precision=0.07)


@pytest.mark.parametrize("policy", TRIAL_POLICIES)
def test_trial_jobs_that_preempt_at_once_are_preemptive_resume(policy: str) -> None:
    kinds = (HURRIED, PATIENT)
    results = runs(f"{policy}:P=1000000", kinds, Cluster.pool(1), as_trials=True)
    for kind in range(2):
        means = means_of(results, kind, responses)
        agrees(means, preemptive_resume(kinds, kind), precision=0.05)


def test_on_one_unit_there_is_one_victim_whoever_chooses() -> None:
    kinds = (HURRIED, PATIENT)
    workload = classes_workload(kinds, 3, as_trials=True)
    first, *others = (
        simulate_nodes(workload, f"{policy}:P=1000000", cluster=Cluster.pool(1)) for policy in TRIAL_POLICIES
    )
    assert first.jobs.preemptions.sum() > 1000
    for other in others:
        assert other.jobs == first.jobs


def test_three_priorities_with_preemption() -> None:
    kinds = (HURRIED, MIDDLE, PATIENT)
    results = runs("lowest-priority:P=1000000", kinds, Cluster.pool(1), as_trials=False)
    for kind in range(3):
        means = means_of(results, kind, responses)
        agrees(means, preemptive_resume(kinds, kind), precision=0.08)


def test_trial_jobs_see_nobody_else_where_victims_leave_at_once() -> None:
    # On nodes of one core trial jobs are an M/M/c of their own, whatever waits behind them.
    servers = 4
    kinds = (Kind(2.4, exponential()), Kind(0.8, bounded_pareto()))
    results = runs("fitgpp:P=1000000", kinds, Cluster.uniform(servers, cpu=1), as_trials=True)
    load = kinds[0].load
    wait = erlang_c(servers, load) / (servers - load)
    agrees(
        means_of(results, 0, responses),
        kinds[0].size.mean + wait,
        precision=0.02,
    )
    agrees(means_of(results, 0, waits), wait, precision=0.04)
