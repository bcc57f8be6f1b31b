"""Trial jobs under policies that rent: room on owned machines as under FitGpp, or a rented one if it is up earlier.

Cases worked by hand, in minutes, on nodes of 8 GPUs; and what holds in any case.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.nodes.columns import NodesState
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from tests.core.nodes.invariants import check
from tests.twin.nodes.driving import step_through
from tests.twin.nodes.test_spec_cases import BE, MINUTE_S, TE, Row, workload_of

ONE_VICTIM: list[Row] = [(BE, 8, 60, 0, 3), (TE, 4, 5, 10, 0)]
TWO_TRIALS: list[Row] = [(BE, 8, 60, 0, 3), (TE, 8, 5, 10, 0), (TE, 8, 5, 10, 0)]
THREE_TRIALS: list[Row] = [*ONE_VICTIM, (TE, 8, 5, 30, 0)]
COMPOUND = "compound:t=1m,b=1000h,trials=room"


def cluster_of(nodes: int, boot_min: float, setup_min: float = 0.0, **terms: Any) -> Cluster:
    return Cluster(
        "lab",
        (NodeGroup("own", nodes, 8, 32, 256),),
        offers=(
            Offer(
                type="cloud",
                gpu=8,
                cpu=32,
                memory_gib=256,
                usd_per_h=24.0,
                boot_s=boot_min * MINUTE_S,
                setup_s=setup_min * MINUTE_S,
                **terms,
            ),
        ),
    )


def with_wishes(rows: list[Row], rents: list[str] | None) -> Workload:
    """rents: what each job wishes of rented machines; null: nothing."""
    jobs = workload_of(rows)
    return jobs if rents is None else replace(jobs, extra={"rent": np.array(rents)})


def run(rows: list[Row], policy: str, cluster: Cluster, rents: list[str] | None = None) -> Result:
    return simulate_nodes(with_wishes(rows, rents), policy, cluster=cluster, predict=True)


@pytest.mark.parametrize(
    ("rows", "policy", "boot_min", "setup_min", "rents", "finishes", "preempted", "rented"),
    [
        # The victim is gone after 3 minutes: earlier than a machine that boots for 10, or at the same time.
        (ONE_VICTIM, COMPOUND, 10, 0, None, [68, 18], [1, 0], []),
        (ONE_VICTIM, COMPOUND, 3, 0, None, [68, 18], [1, 0], []),
        # The machine is up first: 10 + 2 + 5, nobody leaves.
        (ONE_VICTIM, COMPOUND, 2, 0, None, [60, 17], [0, 0], [1]),
        # Setting it up counts.
        (ONE_VICTIM, COMPOUND, 2, 2, None, [68, 18], [1, 0], []),
        # Nothing may be rented for it.
        (ONE_VICTIM, COMPOUND, 2, 0, ["auto", "never"], [68, 18], [1, 0], []),
        # A trial job does not wait for b, whoever else does.
        (ONE_VICTIM, "compound:t=1m,b=1000h", 2, 0, None, [60, 65], [0, 0], []),
        # At 30 the victim has been preempted once: it stays, and a machine is rented, although it is up later.
        (THREE_TRIALS, COMPOUND, 10, 0, None, [68, 18, 45], [1, 0, 0], [2]),
        (THREE_TRIALS, f"{COMPOUND},P=2", 10, 0, None, [76, 18, 38], [2, 0, 0], []),
        (THREE_TRIALS, f"{COMPOUND},P=0", 10, 0, None, [60, 25, 45], [0, 0, 0], [1, 2]),
    ],
)
def test_compound_as_worked_by_hand(
    rows: list[Row],
    policy: str,
    boot_min: float,
    setup_min: float,
    rents: list[str] | None,
    finishes: list[float],
    preempted: list[int],
    rented: list[int],
) -> None:
    jobs = run(rows, policy, cluster_of(1, boot_min, setup_min), rents).jobs
    assert (jobs.finish_s / MINUTE_S).tolist() == finishes
    assert jobs.preemptions.tolist() == preempted
    assert np.flatnonzero(jobs.rented).tolist() == rented
    assert jobs.predicted_finish_s[-1] == jobs.finish_s[-1]


def test_who_comes_too_late_for_the_last_machine_finds_room() -> None:
    """Both would have a machine at 12; there is one, and room for the other at 13."""
    jobs = run(TWO_TRIALS, f"{COMPOUND},waits=none", cluster_of(1, 2, capacity=1)).jobs
    assert (jobs.finish_s / MINUTE_S).tolist() == [68, 17, 18]
    assert jobs.preemptions.tolist() == [1, 0, 0]
    assert jobs.predicted_finish_s[-1] == jobs.finish_s[-1]


def test_a_trial_job_takes_what_is_free_before_those_that_came_earlier() -> None:
    """At 20 four GPUs are free, for which a best-effort job waits since 10; the trial job preempts nobody."""
    rows: list[Row] = [(BE, 4, 20, 0, 1), (BE, 4, 60, 0, 1), (BE, 4, 10, 10, 1), (TE, 4, 5, 20, 0)]
    jobs = run(rows, COMPOUND, cluster_of(1, 10)).jobs
    assert (jobs.start_s / MINUTE_S).tolist() == [0, 0, 25, 20]
    assert jobs.preemptions.sum() == 0


def test_a_job_on_a_machine_of_its_own_makes_no_room_and_does_not_count() -> None:
    """The one on the full node leaves: with the grace period of the rented job as the longest, the other would.

    Sizes are 1 and 1/2 (GPUs, the rest is next to nothing), grace periods 1 and 3 minutes.
    """
    rows: list[Row] = [
        (BE, 8, 60, 0, 1),
        (BE, 4, 60, 0, 3),
        (TE, 4, 60, 0, 0),
        (BE, 8, 0.9, 1, 60),
        (TE, 4, 5, 1.5, 0),
    ]
    jobs = run(rows, "compound:t=59s,b=1000h,trials=room", cluster_of(2, 10)).jobs
    assert np.flatnonzero(jobs.rented).tolist() == [3]
    assert jobs.preemptions.tolist() == [1, 0, 0, 0, 0]
    assert (jobs.start_s / MINUTE_S).tolist()[4] == 2.5


@pytest.mark.parametrize("lengths", ["oracle", "estimate"])
def test_a_job_that_has_made_room_is_as_long_as_what_is_left_of_it(lengths: str) -> None:
    """Of 40 minutes 20 are left, which is short: it rents, and does not wait for the trial job to end."""
    rows: list[Row] = [(BE, 8, 40, 0, 0), (TE, 8, 5, 20, 0)]
    result = run(rows, f"compound:t=30m,b=1000h,trials=room,lengths={lengths}", cluster_of(1, 1))
    assert result.jobs.finish_s.tolist() == [41 * MINUTE_S, 25 * MINUTE_S]


def test_a_trial_job_does_not_run_for_a_while_and_then_again() -> None:
    """With lengths=speculate others are stopped after t; a trial job has its machine to its end."""
    jobs = run(ONE_VICTIM, "compound:t=1m,b=1000h,lengths=speculate,trials=room", cluster_of(1, 2)).jobs
    assert (jobs.finish_s / MINUTE_S).tolist() == [60, 17]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("compound:P=2", "parameter P: only with trials=room"),
        ("compound:trials=room,order=sjf", "parameter order: with trials=room"),
        ("compound:trials=room,backfill=easy", "parameter backfill: with trials=room"),
        ("compound:trials=room,requeue=tail", "parameter requeue.*trials=room"),
    ],
)
def test_what_contradicts_itself_is_refused(policy: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        run(ONE_VICTIM, policy, cluster_of(1, 2))


def crowd(seed: int, count: int = 80) -> tuple[list[Row], list[str]]:
    """More jobs than two nodes hold; of grace periods some are longer than a boot."""
    rng = np.random.default_rng(seed)
    rows = [
        (
            int(rng.random() < 0.3),
            float(rng.choice((1, 2, 4, 8))),
            float(
                rng.uniform(1, 60)
            ),  # no machine is given back at the instant at which another is asked for
            float(at),
            float(rng.integers(0, 9)),
        )
        for at in np.sort(rng.integers(0, 6 * count, count))
    ]
    return rows, rng.choice(("auto", "never", "now"), count, p=(0.8, 0.1, 0.1)).tolist()


class Watched:
    """What a run shows at each instant: of preemptions, when the trial job they were for would have had a machine."""

    def __init__(self, boot_s: float, most: int) -> None:
        self.boot_s, self.most = boot_s, most
        self.preemptions = 0

    def look(self, state: NodesState) -> None:
        check(state)
        now = float(state.pool[0].now)
        for slot in state.holders[: state.pool[0].holders].tolist():
            eviction, need = state.evictions[slot], state.needs[slot]
            assert state.progress[slot].preemptions <= self.most
            if eviction.vacate_at == math.inf or eviction.preempted_s != now:
                continue
            self.preemptions += 1
            assert need.trial == 0
            assert need.rented == 0
            preemptor = int(eviction.preemptor)
            if preemptor < 0:
                continue  # it left at once, and the trial job has begun
            assert state.needs[preemptor].trial == 1
            cluster, offer = state.cluster[0], state.offers[0]
            could_rent = state.rentings[preemptor].choice != 1 and offer.rented < offer.capacity
            if could_rent and cluster.rented < cluster.quota:
                assert eviction.vacate_at <= now + self.boot_s


@pytest.mark.parametrize(
    ("most", "capacity", "parameters"),
    [(1, None, ""), (2, 2, ""), (1, 2, ",backfill=strict"), (1, 2, ",lengths=speculate")],
)
def test_what_holds_in_any_case(most: int, capacity: int | None, parameters: str) -> None:
    """Also: each job has done its work when it ends, and nothing is oversubscribed at any instant (`check`)."""
    seen = 0
    for seed in range(3):
        rows, rents = crowd(seed)
        cluster = cluster_of(2, 4, capacity=capacity)
        jobs = with_wishes(rows, rents)
        policy = f"compound:t=5m,b=1h,waits=none,trials=room,P={most}{parameters}"
        simulation = NodesSimulation(
            jobs, parse_nodes_policy(policy), SimulationOptions(cluster=cluster, seed=seed)
        )
        watched = Watched(4 * MINUTE_S, most)
        step_through(simulation, watched.look)
        result = simulation.result()
        assert np.isfinite(result.jobs.finish_s).all()
        seen += watched.preemptions
    assert seen > 5
