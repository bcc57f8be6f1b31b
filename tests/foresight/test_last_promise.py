"""The last promise: sizes are true and nothing comes later, so that it is the end, under every policy that there is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from betimes import Workload, simulate
from betimes.cluster import Cluster, Interference, NodeGroup, Offer
from betimes.errors import PolicyError
from betimes.foresight.nodes.predict import predicting
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.outcome import Result
from betimes.policies import NODES_POLICIES, POLICIES, parse_nodes_policy
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from tests.foresight.waits.fixtures import stump
from tests.twin.pool.crowds import crowd

EVERY = {f"pool:{name}": policy for name, policy in POLICIES.items()} | {
    f"nodes:{name}": policy for name, policy in NODES_POLICIES.items()
}
CLUSTER = Cluster(
    "owned and offered",
    (NodeGroup("quick", 1, 8.0, 16.0, 128.0), NodeGroup("slow", 1, 8.0, 16.0, 128.0)),
    offers=(
        Offer(type="large", gpu=8.0, cpu=16.0, memory_gib=128.0, usd_per_h=2.0, boot_s=40.0, setup_s=5.0),
        Offer(type="small", gpu=2.0, cpu=8.0, memory_gib=64.0, usd_per_h=0.5, boot_s=20.0),
    ),
    interference=Interference(("serve", "train"), ((0.9, 0.7), (0.8, 0.6))),
)

NUMBERS = (0, 1, 2, 30, 200, 600, 3000)
VALUES: dict[str, tuple[object, ...]] = {
    # Any number would do, but these let something happen within the run, or keep it short.
    "period": (30, 200, 600),
    "tick": (5, 20, 200),
    "budget": (2, 3),
    "seconds": (0.001,),
    "stretches": (1, 2),
    "workers": (1, 2),
    "thresholds": ("100+300", "400"),
    "weights": ("1/2+3/10+1/5", "0.3+0.7"),
    "objective": ("utility", "cost", "cost:0.5", "jct:avg", "slowdown:p95"),
    # Each question to an exact planner starts a solver: once, in `test_runs_in_which_it_was_not`.
    "planner": ("heuristic",),
    "limit": (60,),
}
BY_CHANCE = "spot"
"""The parameter that is left out: chance takes such machines away, and no promise knows when."""


@dataclass(frozen=True)
class Run:
    """A policy with some of its options, and what it is run on."""

    policy: str
    jobs: int
    seed: int
    gap_s: int = 40
    restart_s: float = 0.0
    fractional: bool = False

    @property
    def engine(self) -> str:
        return self.policy.partition(":")[0]

    @property
    def workload(self) -> Workload:
        return (
            crowd(self.seed, self.jobs, gap_s=self.gap_s / 4)
            if self.engine == "pool"
            else mixture(self.jobs, self.seed, self.gap_s)
        )

    @property
    def options(self) -> dict[str, Any]:
        where = {"units": 8, "fractional": self.fractional} if self.engine == "pool" else {"cluster": CLUSTER}
        return {**where, "sizes": "true", "restart_s": self.restart_s}

    def simulated(self, *, predict: bool = True) -> Result:
        return simulate(self.workload, self.policy, **self.options, predict=predict)


def mixture(count: int, seed: int, gap_s: int) -> Workload:
    """Trial jobs and others, which slow each other, and whose speed depends on the node."""
    rng = np.random.default_rng(seed)
    return Workload.from_columns(
        submit_s=np.sort(rng.integers(0, gap_s * count, count)).astype(float),
        work_s=rng.integers(60, 900, count).astype(float),
        qos=(rng.random(count) < 0.3).astype(int),
        priority=rng.integers(0, 4, count),
        gpu=rng.integers(0, 5, count).astype(float),
        cpu=rng.integers(1, 9, count).astype(float),
        memory_gib=rng.integers(1, 65, count).astype(float),
        grace_s=rng.integers(0, 120, count).astype(float),
        estimate_s=rng.integers(60, 1800, count).astype(float),
        extra={
            "workload_variant": rng.choice(["train", "serve[1]", "serve"], count),
            "speed.quick": rng.choice([1.0, 2.0, 4.0], count),
            "speed.slow": rng.choice([0.5, 1.0], count),
            "speed.large": np.ones(count),
            "speed.small": np.ones(count),
            "init_delay_s": rng.integers(0, 30, count).astype(float),
            "kill_delay_s": rng.integers(0, 20, count).astype(float),
        },
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Waits that are said to be long where any job waits."""
    path = tmp_path_factory.mktemp("waits") / "model.npz"
    stump("waitq-size", 0.5, 0.0, 1000.0).save(path)
    return path


@st.composite
def runs(draw: st.DrawFn, name: str, model: Path, most_jobs: int) -> Run:
    """A run under one of the policies, with any of its options."""
    policy, options = EVERY[name], list[str]()
    for one in policy.parameters:
        if one.name in (BY_CHANCE, "model") or not draw(st.booleans()):
            continue
        value = draw(members() if one.name == "members" else st.sampled_from(values_of(one)))
        options.append(f"{one.name}={value}")
        if value == "learned":
            options.append(f"model={model}")
    return Run(
        f"{name}:{','.join(options)}" if options else name,
        draw(st.integers(1, most_jobs)),
        draw(st.integers(0, 1000)),
        draw(st.sampled_from((1, 40, 200))),
        draw(st.sampled_from((0.0, 20.0))),
        draw(st.booleans()),
    )


def values_of(parameter: Parameter) -> tuple[object, ...]:
    """Some that it may have; a list or a text has to be among `VALUES`."""
    if parameter.name in VALUES:
        return VALUES[parameter.name]
    assert not parameter.is_list, f"give values of {parameter.name}"
    assert not parameter.is_text, f"give values of {parameter.name}"
    return parameter.choices or tuple(n for n in NUMBERS if parameter.low <= n <= parameter.high)


@st.composite
def members(draw: st.DrawFn) -> str:
    """Up to three policies that can take turns."""

    def kind(policy: NodesPolicy) -> tuple[bool, ...]:
        return policy.planner is None, policy.provision is None, policy.by_priority

    possible = [one for one in NODES_POLICIES.values() if one.members is None and one.name not in POLICIES]
    possible += [NODES_POLICIES["fifo"]]
    first = draw(st.sampled_from(possible))
    alike = [one for one in possible if kind(one) == kind(first)]
    named = [
        f"{one.name}/waits=none" if any(each.name == "waits" for each in one.parameters) else one.name
        for one in alike
    ]
    if first.provision is not None:
        named += list(CANDIDATES)
    return "+".join(draw(st.lists(st.sampled_from(named), min_size=1, max_size=3, unique=True)))


MANY = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@pytest.mark.parametrize("name", EVERY)
@settings(MANY, max_examples=3)
@given(st.data())
def test_the_last_promise_is_the_end(name: str, model: Path, data: st.DataObject) -> None:
    check(data.draw(runs(name, model, most_jobs=6)))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@settings(MANY, max_examples=100)
@given(st.data())
def test_the_last_promise_is_the_end_in_many_runs(name: str, model: Path, data: st.DataObject) -> None:
    check(data.draw(runs(name, model, most_jobs=12)))


@pytest.mark.parametrize(
    "run",
    [
        Run("nodes:ljw:t=200,lengths=speculate", 25, 0),
        Run("nodes:compound:t=200,b=600,lengths=speculate,waits=none,short_uses_owned=false", 25, 3),
        Run("nodes:widest", 7, 0),  # a running job has neighbours, which leave
        pytest.param(Run("nodes:eva:planner=exact,limit=60", 4, 1), marks=pytest.mark.slow),
    ],
    ids=lambda run: run.policy,
)
def test_runs_in_which_it_was_not(run: Run) -> None:
    check(run)


def check(run: Run) -> None:
    """Raises AssertionError if the last promise is off by a millisecond, or if promising changes anything."""
    try:
        if run.policy.startswith("nodes:portfolio"):
            promised_s, end_s = under_the_member_in_force(run)
        else:
            found = run.simulated()
            promised_s, end_s = found.jobs.predicted_finish_s[-1], found.jobs.finish_s[-1]
            plain = run.simulated(predict=False)
            assert np.array_equal(found.jobs.finish_s, plain.jobs.finish_s, equal_nan=True)
            assert found.leases == plain.leases
    except PolicyError:
        reject()  # options that exclude each other
    assert promised_s == pytest.approx(end_s, abs=1e-3, rel=0, nan_ok=True)


def under_the_member_in_force(run: Run) -> tuple[float, float]:
    """The last promise, and the end where no other member is selected after it was made."""
    chosen = parse_nodes_policy(run.policy)
    assert chosen.policy.members is not None
    simulation = NodesSimulation(run.workload, chosen, SimulationOptions.of(None, **run.options))
    portfolio = Portfolio(
        simulation, list(chosen.policy.members(chosen.values)), Settings.of(chosen), lambda _: None
    )
    portfolio.start()
    select = simulation.select
    assert select is not None

    def select_until_then() -> None:
        if math.isnan(simulation.predicted[-1]):
            select()
        else:
            simulation.state.cluster[0].select_s = math.inf

    simulation.select = select_until_then
    simulation.run(predicting(simulation, np.ones(len(simulation.jobs), np.int64)))
    return float(simulation.predicted[-1]), float(simulation.result().jobs.finish_s[-1])


def test_only_spot_machines_are_left_out_and_have_to_be() -> None:
    """They are taken away within a day, and the promise is of a machine that stays."""
    run = Run(f"nodes:njw:{BY_CHANCE}=true", 12, 4)
    jobs = replace(run.workload, work_s=np.full(12, 80_000.0))
    found = simulate(jobs, run.policy, **run.options, predict=True).jobs
    assert found.finish_s[-1] > found.predicted_finish_s[-1] + 3600.0


STAYS = (
    "members=odb/unicef/best",
    "members=easy",
    "members=no-packing",
    "members=conservative+wfp3,shadow=true",
)


@pytest.mark.parametrize("portfolio", STAYS)
def test_where_the_member_in_force_stays_so_its_promise_is_the_end(portfolio: str) -> None:
    run = Run(f"nodes:portfolio:{portfolio}", 8, 3)
    found = run.simulated()
    assert found.selections is not None
    assert len(found.selections.at_s) > 0
    assert found.jobs.predicted_finish_s[-1] == pytest.approx(found.jobs.finish_s[-1], abs=1e-3, rel=0)


def test_where_another_member_is_selected_its_promise_is_that_of_the_one_before() -> None:
    """Which is why a portfolio is compared with what the member in force would do, and not with what happens."""
    run = Run("nodes:portfolio:members=widest+unicef+fifo,objective=jct:avg", 10, 3, 1)
    found = run.simulated().jobs
    assert found.predicted_finish_s[-1] != pytest.approx(found.finish_s[-1], abs=60.0)
    assert under_the_member_in_force(run)[0] == found.predicted_finish_s[-1]
