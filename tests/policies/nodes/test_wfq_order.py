"""Weighted fair queueing over size classes as an order of the queue: who goes next, and what each class gets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.workload import Workload


def one_core(*work_s: float, units: tuple[int, ...] | None = None) -> Workload:
    """Jobs that all come at once."""
    widths = np.array(units or [1] * len(work_s))
    return Workload.from_columns(
        submit_s=np.zeros(len(work_s)),
        work_s=np.array(work_s) * widths,
        min_units=widths,
        max_units=widths,
        cpu=np.ones(len(work_s)),
    )


def cores(count: int) -> Cluster:
    """One node, and machines on offer for policies that rent."""
    offer = Offer(type="vm", cpu=1.0, memory_gib=4.0, usd_per_h=1.0)
    return Cluster("cores", (NodeGroup("node", 1, 0.0, float(count), 0.0),), offers=(offer,))


def order(policy: str, work: Workload, count: int = 1) -> list[int]:
    """Rows by when they start."""
    result = simulate_nodes(work, policy, cluster=cores(count))
    return np.argsort(result.jobs.start_s, kind="stable").tolist()


def test_the_class_of_the_larger_weight_goes_first_and_then_by_submission() -> None:
    """Nothing is held when a core is free: one more job of class i comes to 1 e^(0.5 i), the second to 2 e^(0.5 i)."""
    work = one_core(1000.0, 10.0, 1000.0, 20.0)
    assert order("wfq-order:classes=2,first=100s,W=0.5", work) == [1, 3, 0, 2]
    assert order("wfq-order:classes=2,first=100s,W=-0.5", work) == [0, 2, 1, 3]
    assert order("wfq-order:classes=1,first=100s,W=0.5", work) == [0, 1, 2, 3]
    assert order("ajw:order=wfq-order,classes=2,first=100s,W=0.5", work) == [1, 3, 0, 2]
    assert order("ajw:order=wfq-order,classes=2,first=100s,W=-0.5", work) == [0, 2, 1, 3]


def test_machines_rented_for_one_job_are_no_part_of_what_classes_share() -> None:
    """One owned core, W = ln 2, b = 10 s: two small jobs are rented for at 10 s, and run until 109 s.

    At 60 s the core is free for a large job, which comes to 2, and the small one behind it, which comes to 1, or to 3
    if the rented machines counted.
    """
    work = Workload.from_columns(
        submit_s=[0.0, 0.0, 0.0, 55.0, 56.0], work_s=[60.0, 99.0, 99.0, 1000.0, 20.0], cpu=1.0
    )
    for policy in ("ajw-t:b=10", "sww:waits=none,b=10"):
        classes = f"order=wfq-order,classes=2,first=100s,W={math.log(2.0)!r}"
        found = simulate_nodes(work, f"{policy},{classes}", cluster=cores(1)).jobs
        assert found.start_s.tolist() == [0.0, 10.0, 10.0, 65.0, 60.0]
        assert found.rented.tolist() == [False, True, True, True, False]


def test_classes_of_an_order_that_has_none_are_refused() -> None:
    with pytest.raises(PolicyError, match="parameter classes: only with order=wfq-order"):
        simulate_nodes(one_core(1.0), "ajw:order=sjf,classes=2", cluster=cores(1))


def test_classes_start_jobs_in_turn_by_weight() -> None:
    """Four cores, W = ln 2: the small come to 1, 2, 3, 4, the large to 2, 4, 6; equal keys by submission."""
    work = one_core(1000.0, 1000.0, 1000.0, 90.0, 91.0, 92.0, 93.0)
    policy = f"wfq-order:classes=2,first=100s,W={math.log(2.0)!r}"
    result = simulate_nodes(work, policy, cluster=cores(4))
    assert np.flatnonzero(result.jobs.start_s == 0.0).tolist() == [0, 3, 4, 5]
    # At 90 s the large hold 1 core, the small 2: another large one comes to 4, the last of the small to 3.
    assert result.jobs.start_s.tolist()[6] == 90.0
    assert result.jobs.start_s.tolist()[1] == 91.0


def test_a_size_is_units_times_seconds() -> None:
    work = one_core(60.0, 60.0, units=(2, 1))
    assert order("wfq-order:classes=2,first=100s,W=1", work, 2) == [1, 0]


def test_shares_are_as_the_weights_while_both_classes_wait() -> None:
    """Ten cores, weights 4 : 1: of what is held while there are jobs of both, the small hold four fifths."""
    rng = np.random.default_rng(1)
    work = one_core(*np.concatenate([rng.uniform(50.0, 100.0, 2000), rng.uniform(100.0, 200.0, 1000)]))
    policy = f"wfq-order:classes=2,first=100s,W={math.log(4.0)!r}"
    result = simulate_nodes(work, policy, cluster=cores(10), timeline=True)
    held = result.segments
    assert held is not None
    until_s = 10_000.0
    stays_s = np.clip(np.minimum(held.end_s, until_s) - held.start_s, 0.0, None)
    is_small = result.jobs.work_s[held.row] <= 100.0
    assert stays_s[is_small].sum() / stays_s.sum() == pytest.approx(0.8, abs=0.01)


def test_what_a_class_leaves_over_goes_to_the_other() -> None:
    result = simulate_nodes(one_core(*[1000.0] * 4), "wfq-order:classes=2,first=100s", cluster=cores(4))
    assert result.jobs.start_s.tolist() == [0.0] * 4


def test_it_fills_gaps_where_that_is_asked_for() -> None:
    """The wide one is next, and does not fit beside the first; the third does not delay it."""
    work = one_core(100.0, 100.0, 90.0, units=(3, 2, 1))
    strict, easy = (
        simulate_nodes(work, f"wfq-order:classes=1{more}", cluster=cores(4)).jobs.start_s.tolist()
        for more in ("", ",backfill=easy")
    )
    assert strict == [0.0, 100.0, 100.0]
    assert easy == [0.0, 100.0, 0.0]


@pytest.mark.parametrize("wrong", ["classes=0", "factor=0.5", "first=0", "W=x"])
def test_parameters_that_cannot_be(wrong: str) -> None:
    with pytest.raises(PolicyError, match="wfq-order"):
        simulate_nodes(one_core(1.0), f"wfq-order:{wrong}", cluster=cores(1))
