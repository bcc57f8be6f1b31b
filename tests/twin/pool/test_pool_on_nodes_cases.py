"""Worked cases of docs/notes/pool-on-nodes.md, by hand."""

from __future__ import annotations

import pytest

from betimes import simulate
from betimes.cluster import Cluster, NodeGroup
from betimes.core.pool import feasible_grants
from betimes.core.pool.feasible_grants import KEPT_BY_OTHERS, NO_GAIN, NO_ROOM, NOT_CURTAILED, TOO_SOON
from betimes.workload import Workload
from tests.reference import Job
from tests.twin.pool.driving import recorded_segments
from tests.twin.pool.feasible_driving import CutSetup, run_seen

FLAT = (0, 1, 1, 1, 1)


def on(
    *nodes: tuple[int, int, int], jobs: tuple[Job, ...], policy: str = "fifo", **options: object
) -> CutSetup:
    units = sum(node[0] for node in nodes)
    return CutSetup(jobs, units, policy, nodes=nodes, **options)  # pyright: ignore[reportArgumentType]


def test_a_start_that_finds_too_little_room_is_cut_to_nothing_and_told_why() -> None:
    """Two nodes of 4 GPUs and 8 GiB: the first job leaves 2 GiB on each, and the second needs 3 GiB a unit."""
    jobs = (Job(0, 40, 4, 4, demand=(1, 0, 3)), Job(1, 30, 2, 2, demand=(1, 0, 3)))
    result, seen = run_seen(on((4, 0, 8), (4, 0, 8), jobs=jobs))
    assert seen[0.0] == {0: (4, 4, NOT_CURTAILED, {0: 2, 1: 2})}
    assert seen[1.0][1] == (0, 2, NO_ROOM, {})
    assert result.jobs.start_s.tolist() == [0.0, 10.0]
    assert result.jobs.finish_s.tolist() == [10.0, 25.0]
    assert result.jobs.predicted_finish_s.tolist() == [10.0, 25.0]


def test_a_job_starts_with_the_units_that_fit_and_grows_when_there_is_room() -> None:
    """The second job is given 4 units, and memory is left for 3 of them."""
    jobs = (Job(0, 20, 4, 4, demand=(1, 0, 1)), Job(0, 30, 4, 1, demand=(1, 0, 4)))
    result, seen = run_seen(on((8, 0, 16), jobs=jobs))
    assert seen[0.0][1] == (3, 4, NO_ROOM, {0: 3})
    assert seen[5.0][1] == (4, 4, NOT_CURTAILED, {0: 4})
    assert recorded_segments(result) == [(0, 0.0, 5.0, 4.0), (1, 0.0, 5.0, 3.0), (1, 5.0, 8.75, 4.0)]
    assert result.jobs.resizes.tolist() == [0, 1]


def test_where_units_are_placed() -> None:
    """First where the job is, then most of what is missing, then the fullest node that takes the rest."""
    jobs = (
        Job(0, 100, 3, 3, demand=(1, 0, 0)),  # the three nodes have 4, 2 and 6
        Job(0, 100, 2, 2, demand=(1, 0, 0)),
        Job(0, 100, 6, 6, demand=(1, 0, 0)),
        Job(0, 100, 1, 1, demand=(1, 0, 0)),
    )
    _, seen = run_seen(on((4, 0, 0), (2, 0, 0), (6, 0, 0), jobs=jobs))
    assert [seen[0.0][job][3] for job in range(4)] == [{0: 3}, {1: 2}, {2: 6}, {0: 1}]
    _, seen = run_seen(on((4, 0, 0), (3, 0, 0), (2, 0, 0), jobs=(Job(0, 9, 9, demand=(1, 0, 0)),)))
    assert list(seen[0.0][0][3].items()) == [(2, 2), (1, 3), (0, 4)]  # as listed: where it came last, first


def test_whoever_shrinks_gives_back_what_was_placed_last() -> None:
    jobs = (Job(0, 50, 5, 1, demand=(1, 0, 0)), Job(1, 50, 3, 3, demand=(1, 0, 0)))
    _, seen = run_seen(on((3, 0, 0), (2, 0, 0), jobs=jobs, policy="max-min"))
    assert list(seen[0.0][0][3].items()) == [(1, 2), (0, 3)]
    assert seen[1.0] == {0: (2, 2, NOT_CURTAILED, {0: 2}), 1: (3, 3, NOT_CURTAILED, {1: 2, 0: 1})}


def test_a_drained_node_takes_nothing_new_and_keeps_what_it_has() -> None:
    jobs = (
        Job(0, 20, 2, 2, demand=(1, 0, 0)),
        Job(1, 8, 2, 1, demand=(1, 0, 0)),
        Job(2, 8, 2, 1, demand=(1, 0, 0)),
    )
    result, seen = run_seen(on((2, 0, 0), (2, 0, 0), jobs=jobs, switches=((0, 0), (2, 0))))
    assert seen[0.0][0][3] == seen[1.0][0][3] == {0: 2}
    assert seen[1.0][1][3] == seen[2.0][1][3] == {1: 2}
    assert seen[2.0][2] == (0, 0, NOT_CURTAILED, {})
    assert result.jobs.finish_s.tolist() == [10.0, 5.0, 9.0]


def test_what_is_thought_twice_within_an_instant_moves_nobody() -> None:
    """At 4 s the first job ends, the wide one is given its room, and then a shorter one comes and takes it back."""
    jobs = (
        Job(0, 8, 2, 2, demand=(1, 0, 0)),
        Job(0, 20, 1, 1, demand=(1, 0, 0)),
        Job(1, 60, 3, 3, demand=(1, 0, 0)),
        Job(4, 6, 3, 3, demand=(1, 0, 0)),
    )
    _, seen = run_seen(on((2, 0, 0), (2, 0, 0), jobs=jobs, policy="srsf"))
    assert seen[1.0][1][3] == seen[4.0][1][3] == {1: 1}
    assert seen[4.0][3][3] == {0: 2, 1: 1}
    assert seen[4.0][2] == (0, 0, NOT_CURTAILED, {})


def test_a_width_stands_for_the_interval_and_then_the_pool_wakes_up() -> None:
    jobs = (Job(0, 40, 4, 1), Job(1, 4, 2, 2))
    result, seen = run_seen(CutSetup(jobs, 4, "max-min", resize_interval_s=6.0))
    assert seen[1.0] == {0: (4, 2, TOO_SOON, {}), 1: (0, 2, KEPT_BY_OTHERS, {})}
    assert seen[6.0] == {0: (2, 2, NOT_CURTAILED, {}), 1: (2, 2, NOT_CURTAILED, {})}
    assert seen[8.0] == {0: (2, 4, TOO_SOON, {})}  # the second is done; the first was resized 2 s ago
    assert recorded_segments(result)[-1] == (0, 12.0, 13.0, 4.0)
    assert result.jobs.finish_s.tolist() == [13.0, 8.0]
    assert result.jobs.predicted_finish_s.tolist() == [10.0, 8.0]


def test_a_preemption_is_no_resize() -> None:
    jobs = (Job(0, 40, 4, 4), Job(1, 4, 4, 4))
    result, _ = run_seen(CutSetup(jobs, 4, "srsf", resize_interval_s=1000.0))
    assert recorded_segments(result) == [(0, 0.0, 1.0, 4.0), (1, 1.0, 2.0, 4.0), (0, 2.0, 11.0, 4.0)]


@pytest.mark.parametrize(("restart_s", "grows"), [(4.0, True), (5.0, False), (6.0, False)])
def test_a_growth_must_pay_for_the_restart(restart_s: float, grows: bool) -> None:
    """At 10 s, with 10 s of work left on one unit: 5 s on two. To be done at the same time is not earlier."""
    jobs = (Job(0, 10, 1, 1), Job(0, 20, 2, 1))
    _, seen = run_seen(CutSetup(jobs, 2, "fifo", restart_s=restart_s, resize_gain=True))
    assert seen[10.0][1][:3] == ((2, 2, NOT_CURTAILED) if grows else (1, 2, NO_GAIN))


def test_a_growth_on_a_flat_curve_never_pays() -> None:
    jobs = (Job(0, 10, 1, 1), Job(0, 20, 2, 1, speedup=FLAT))
    _, seen = run_seen(CutSetup(jobs, 2, "fifo", resize_gain=True))
    assert seen[10.0][1][:3] == (1, 2, NO_GAIN)


def test_a_shrink_whose_units_nobody_gets_is_not_carried_out() -> None:
    """Under max-min the first would make room for the second, whose units find no room on the node left to it."""
    jobs = (Job(0, 80, 4, 1, demand=(1, 0, 2)), Job(1, 20, 2, 2, demand=(1, 0, 5)))
    nodes = ((4, 0, 8),)
    result, seen = run_seen(on(*nodes, jobs=jobs, policy="max-min", resize_gain=True))
    assert seen[1.0] == {0: (4, 2, NO_GAIN, {0: 4}), 1: (0, 2, NO_ROOM, {})}
    assert result.jobs.finish_s.tolist()[0] == 20.0
    _, without = run_seen(on(*nodes, jobs=jobs, policy="max-min"))
    assert without[1.0][0] == (2, 2, NOT_CURTAILED, {0: 2})


def test_a_cluster_as_a_pool() -> None:
    """Units are its GPUs; a job that could use more than the nodes hold is narrowed, one that fits no node refused."""
    cluster = Cluster("mixed", (NodeGroup("gpu", 2, 4, 8, 64), NodeGroup("cpu", 3, 0, 32, 128)))
    jobs = Workload.from_columns(
        submit_s=[0.0, 0.0, 1.0], work_s=[40.0, 12.0, 5.0], max_units=[8, 8, 1], gpu=[1.0, 1.0, 5.0],
        memory_gib=[1.0, 30.0, 1.0],
    )  # fmt: skip
    said: list[str] = []
    result = simulate(
        jobs, "srsf", cluster=cluster, engine="pool", on_wide="drop", warn=said.append, fair=True
    )
    assert result.units == 8
    assert result.jobs.start_s.tolist()[:2] == [0.0, 0.0]
    assert result.jobs.finish_s.tolist()[:2] == [6.5, 3.0]  # 4 GPUs each, then all 8
    assert said == [
        "1 job with a minimum of more than fits into mixed: left out (refused)",
        "1 job that could use more units than the nodes hold: narrowed to those",
    ]
    assert result.fair_finish_s is not None
    without_gpus = Cluster.uniform(2, cpu=3.5, memory_gib=8)
    assert simulate(jobs[:2], "fifo", cluster=without_gpus, engine="pool", on_wide="drop").units == 7


def test_codes_are_told_apart() -> None:
    codes = (NOT_CURTAILED, TOO_SOON, NO_GAIN, KEPT_BY_OTHERS, NO_ROOM)
    assert len(set(codes)) == len(codes)
    assert feasible_grants.NOT_CURTAILED == 0
