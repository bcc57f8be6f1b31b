"""Which nodes a job's tasks are placed on."""

from __future__ import annotations

import pytest

from tests.core.nodes.small_cluster import SmallCluster


@pytest.mark.parametrize(
    ("placement", "node"), [("first", 0), ("best", 1), ("worst", 2)], ids=["first", "best", "worst"]
)
def test_one_task_goes_to_the_node_that_the_rule_prefers(placement: str, node: int) -> None:
    cluster = SmallCluster(4, 2, 8)
    assert cluster.find(cluster.submit(2), placement) == {node: 1}


@pytest.mark.parametrize("placement", ["first", "best", "worst"])
def test_equal_nodes_are_taken_by_their_number(placement: str) -> None:
    cluster = SmallCluster(4, 4, 4)
    assert cluster.find(cluster.submit(2), placement) == {0: 1}


def test_what_counts_is_what_is_free_now() -> None:
    cluster = SmallCluster(4, 4)
    cluster.running(0, gpu=3)
    assert cluster.find(cluster.submit(2), "best") == {1: 1}
    assert cluster.find(cluster.submit(1), "best") == {0: 1}
    assert cluster.find(cluster.submit(1), "worst") == {1: 1}


@pytest.mark.parametrize("placement", ["first", "best", "worst"])
def test_a_gang_is_placed_whole_or_not_at_all(placement: str) -> None:
    cluster = SmallCluster(3, 3)
    assert cluster.find(cluster.submit(2, 3), placement) == {}  # one GPU of each node is of no use to it
    assert sum(cluster.find(cluster.submit(2, 2), placement).values()) == 2


@pytest.mark.parametrize("placement", ["first", "best"])
def test_a_gang_is_packed_onto_one_node_before_the_next(placement: str) -> None:
    cluster = SmallCluster(4, 4, 4)
    assert cluster.find(cluster.submit(1, 6), placement) == {0: 4, 1: 2}


def test_a_gang_under_worst_is_spread_one_task_after_another() -> None:
    cluster = SmallCluster(4, 4, 4)
    assert cluster.find(cluster.submit(1, 5), "worst") == {0: 2, 1: 2, 2: 1}


def test_a_spread_gang_fills_up_where_others_have_no_more_room() -> None:
    cluster = SmallCluster(1, 4)
    assert cluster.find(cluster.submit(1, 5), "worst") == {1: 4, 0: 1}


def test_nodes_that_are_not_up_are_no_room() -> None:
    cluster = SmallCluster(4, 4)
    cluster.open(0, up=False)
    assert cluster.find(cluster.submit(1, 5)) == {}
    assert cluster.find(cluster.submit(1, 4)) == {1: 4}


def test_a_task_is_not_split_over_nodes() -> None:
    cluster = SmallCluster(2, 2)
    assert cluster.find(cluster.submit(3)) == {}


def test_finding_nodes_changes_no_job_and_no_node() -> None:
    cluster = SmallCluster(4)
    job = cluster.submit(2)
    cluster.find(job)
    assert (cluster.free, cluster.first_waiting) == ([4], job)
