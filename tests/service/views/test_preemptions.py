"""What a preemption cost, in node-seconds: the figures of small clusters, worked out by hand."""

from __future__ import annotations

import pytest

from betimes.service.runtime.to_views import displaced_by, preemptions_of
from betimes.service.scheduling.events import Ended, RunId
from betimes.service.store.batch import Batch
from betimes.service.store.store import Store
from betimes.service.views.models import PreemptionView
from tests.service.reliability.cluster import Cluster, spec

# A node has 2 cores. A job of 2 cores holds a node, is told to leave at 20 s, and leaves after 3 s.


def stories(cluster: Cluster, victim: int, taker: int) -> tuple[list[PreemptionView], list[PreemptionView]]:
    """The preemptions of `victim`, and those for the sake of `taker`."""
    store = Store.in_memory("/nowhere")
    store.commit(Batch(events=cluster.log))
    own = preemptions_of(victim, store.events(job=victim))
    return own, displaced_by(store.events(job=taker), store)


@pytest.mark.parametrize("policy", ["fitgpp", "srsf", "pool:fifo"])
def test_both_stories_have_the_same_figures(policy: str) -> None:
    cluster = Cluster(policy, nodes=1, restart_s=7.0)
    (long,) = cluster.submit(spec(200.0, min_units=2, max_units=2))
    cluster.go_on(20.0)
    (short,) = cluster.submit(spec(10.0, qos="trial"))
    told_at = cluster.now_at
    cluster.go_on()
    own, others = stories(cluster, long, short)
    assert own == others
    if policy == "pool:fifo":
        assert own == []
        return
    (one,) = own
    assert (one.job_id, one.run, one.by, one.policy) == (long, 1, [short], policy)
    assert (one.told_at, one.grace_s, one.nodes) == (told_at, 3.0, 1.0)
    assert (one.left_at, one.resumed_at) == (told_at + 3.0, told_at + 13.0)
    assert (one.vacating_node_s, one.restart_node_s, one.lost_node_s) == (3.0, 7.0, None)
    assert (one.cost_node_s, one.waiting_s) == (10.0, 10.0)


def test_a_part_of_a_node_counts_as_its_largest_share_of_any_resource() -> None:
    cluster = Cluster("fitgpp", nodes=1)  # of 2 cores and 8 GiB
    (long,) = cluster.submit(spec(100.0, cpu=1.0, memory_gib=6.0))
    cluster.go_on(20.0)
    (short,) = cluster.submit(spec(10.0, cpu=1.0, memory_gib=4.0, qos="trial"))
    cluster.go_on()
    ((one,), _) = stories(cluster, long, short)
    assert (one.nodes, one.vacating_node_s, one.cost_node_s) == (0.75, 2.25, 2.25)


def test_work_since_the_checkpoint_is_lost() -> None:
    cluster = Cluster("fitgpp", nodes=1)
    (long,) = cluster.submit(spec(100.0, cpu=2.0))
    cluster.go_on(20.0)
    cluster.scheduler.reports.progressed(long, 1, 20.0, 100.0)
    (short,) = cluster.submit(spec(10.0, qos="trial"))
    cluster.go_on(14.0)
    assert cluster.status(long) == "running"
    before = stories(cluster, long, short)
    assert before[0][0].lost_node_s is None
    cluster.scheduler.reports.progressed(long, 2, 15.0, 100.0)  # of 100 s on a whole node, 5 % are done again
    cluster.scheduler.reports.progressed(long, 2, 16.0, 100.0)
    cluster.turn()
    own, others = stories(cluster, long, short)
    assert own == others
    assert own[0].lost_node_s == pytest.approx(5.0)
    assert own[0].cost_node_s == pytest.approx(8.0)
    assert cluster.story(long).count("work-lost") == 1


def test_one_that_ends_by_itself_while_it_makes_room_has_wasted_nothing() -> None:
    cluster = Cluster("fitgpp", nodes=1)
    (long,) = cluster.submit(spec(100.0, cpu=2.0))
    cluster.go_on(20.0)
    (short,) = cluster.submit(spec(10.0, qos="trial"))

    run = RunId(long, 1)
    cluster.world.forget(run, cluster.now_at)
    cluster.report(Ended(run, cluster.now_at, 0))
    cluster.turn()
    assert cluster.status(long) == "finished"
    ((one,), _) = stories(cluster, long, short)
    assert (one.vacating_node_s, one.resumed_at, one.waiting_s) == (0.0, None, None)


def test_in_a_pool_units_are_counted_off_in_order() -> None:
    cluster = Cluster("srsf", nodes=2)  # 4 units
    first, second = cluster.submit(spec(200.0), spec(300.0, min_units=3, max_units=3))
    cluster.go_on(5.0)
    a, b, c = cluster.submit(*[spec(10.0 + one) for one in range(3)])
    cluster.go_on()
    assert stories(cluster, first, a)[0] == []
    own, others = stories(cluster, second, c)
    assert own[0].by == [a, b, c]
    assert own == others == stories(cluster, second, a)[1]


def test_the_account_of_a_preemption_comes_back_from_the_log_and_a_snapshot() -> None:
    cluster = Cluster("fitgpp", nodes=1, restart_s=7.0)
    (long,) = cluster.submit(spec(100.0, cpu=2.0))
    cluster.go_on(20.0)
    (short,) = cluster.submit(spec(10.0, qos="trial"))
    cluster.snapshot()
    cluster.crash()
    cluster.go_on(8.0)
    cluster.snapshot()
    cluster.crash()
    cluster.go_on()
    ((one,), _) = stories(cluster, long, short)
    assert one.restart_node_s == 7.0
    assert one.waiting_s == pytest.approx(10.0)
