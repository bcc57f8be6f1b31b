"""The fake cloud: what it answers, what happens in it, what it costs."""

from __future__ import annotations

import math

import pytest

from betimes.cluster.offer import Offer, Spot
from betimes.errors import CloudError, Unknown
from betimes.service.machines.fake_cloud import FakeCloud, Outage, Reclaim, SetCapacity, SetPrice, Slow
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import (
    Booted,
    Failed,
    NoCapacity,
    PriceChanged,
    Provider,
    Reclaimed,
    ReclaimNotice,
    RequestId,
)
from tests.service.machines.kinds import kind

A100 = kind("a100", 12, 85, 1, 3.6, boot_s=60)
BIG = kind("big", 96, 768, usd_per_h=7.2)


def asked(cloud: FakeCloud, now_s: float, type: str = "a100", count: int = 1) -> RequestId:  # noqa: A002
    answer = cloud.request(now_s, type, count)
    assert isinstance(answer, RequestId)
    return answer


def test_it_is_a_provider() -> None:
    cloud: Provider = FakeCloud([A100, BIG])
    assert [offer.type for offer in cloud.offers()] == ["a100", "big"]
    assert isinstance(cloud.offers()[0], Offer)
    assert cloud.next_at_s() == math.inf
    assert cloud.advance(0.0) == []


def test_machines_boot_and_are_charged_for_until_they_are_released() -> None:
    cloud = FakeCloud([A100, BIG])
    first, second = asked(cloud, 0.0, count=2), asked(cloud, 10.0, "big")
    assert cloud.next_at_s() == 10.0
    big = Machine("big-0", "fake-cloud", "big", 96, 768, 0, 7.2)
    assert cloud.advance(30.0) == [Booted(10.0, second, big)]
    a, b = (Machine(f"a100-{number}", "fake-cloud", "a100", 12, 85, 1, 3.6) for number in (0, 1))
    assert cloud.next_at_s() == 60.0
    assert cloud.advance(60.0) == [Booted(60.0, first, a), Booted(60.0, first, b)]
    assert cloud.machines() == [a, b, big]
    cloud.release(110.0, "big-0")
    assert cloud.cost_usd(160.5) == pytest.approx(100 * 7.2 / 3600 + 2 * 101 * 3.6 / 3600)
    cloud.release(161.0, first)
    assert cloud.machines() == []
    assert cloud.bills_usd(1000.0) == {"a100-0": 0.101, "a100-1": 0.101, "big-0": 0.2}
    assert cloud.next_at_s() == math.inf


def test_what_is_released_before_it_boots_never_does() -> None:
    cloud = FakeCloud([A100])
    request = asked(cloud, 0.0, count=3)
    cloud.release(10.0, request)
    assert (cloud.held("a100"), cloud.next_at_s(), cloud.advance(500.0), cloud.cost_usd(500.0)) == (
        0,
        math.inf,
        [],
        0,
    )


def test_releasing_twice_is_releasing_once() -> None:
    cloud = FakeCloud([BIG])
    request = asked(cloud, 0.0, "big", 2)
    cloud.advance(0.0)
    cloud.release(100.0, "big-0")
    cloud.release(200.0, request)
    cloud.release(300.0, request)
    cloud.release(300.0, "big-1")
    assert cloud.bills_usd(400.0) == {"big-0": 0.2, "big-1": 0.4}


def test_no_capacity() -> None:
    cloud = FakeCloud([kind("few", 4, 8, capacity=3)])
    asked(cloud, 0.0, "few", 2)
    refused = cloud.request(1.0, "few", 2)
    assert refused == NoCapacity("few", 2, "capacity", "no capacity: 2 few asked for, 1 of 3 free")
    cloud.release(2.0, "few-0")
    assert isinstance(cloud.request(2.0, "few", 2), NoCapacity), "only after that instant"
    assert asked(cloud, 2.5, "few", 2) == RequestId("few", 1)
    assert cloud.held("few") == 3


def test_capacity_that_shrinks_takes_nothing_away() -> None:
    script = [SetCapacity(10.0, "big", 1), SetCapacity(20.0, "big", None)]
    cloud = FakeCloud([BIG], script=script)
    asked(cloud, 0.0, "big", 5)
    refused = cloud.request(10.0, "big", 1)
    assert isinstance(refused, NoCapacity)
    assert refused.text == "no capacity: 1 big asked for, 0 of 1 free"
    assert cloud.held("big") == 5
    asked(cloud, 20.0, "big", 100)


def test_quota_over_all_types() -> None:
    cloud = FakeCloud([A100, BIG], quota=3)
    asked(cloud, 0.0, "a100", 2)
    refused = cloud.request(0.0, "big", 2)
    assert refused == NoCapacity("big", 2, "quota", "over the quota: 2 big asked for, 2 of 3 machines held")
    asked(cloud, 0.0, "big", 1)


def test_boot_delays_are_spread_as_told_and_each_machine_has_its_own() -> None:
    def delays(seed: int) -> list[float]:
        cloud = FakeCloud([kind("a", 1, 1, boot_s=100, boot_sigma=0.5)], seed)
        asked(cloud, 0.0, "a", 999)
        events = cloud.advance(1e6)
        assert len(events) == 999
        return [event.at_s for event in events]

    drawn = delays(1)
    assert drawn == sorted(drawn) == delays(1) != delays(2)
    logs = [math.log(delay_s) for delay_s in drawn]
    assert logs[499] == pytest.approx(math.log(100), abs=0.1)  # the median
    assert math.dist(logs, [sum(logs) / 999] * 999) / 999**0.5 == pytest.approx(0.5, abs=0.05)


def test_machines_that_do_not_boot_cost_nothing() -> None:
    cloud = FakeCloud([kind("bad", 1, 1, 0, 5.0, boot_s=30, boot_failure_frac=1.0, capacity=1)])
    request = asked(cloud, 0.0, "bad")
    assert cloud.advance(30.0) == [Failed(30.0, request, "bad-0", "boot", "bad-0 did not boot")]
    assert (cloud.held("bad"), cloud.cost_usd(99.0), cloud.machines()) == (0, 0.0, [])
    asked(cloud, 100.0, "bad")


def test_reclaims_by_script_take_the_longest_running_after_notice() -> None:
    spot = kind("spot", 4, 8, usd_per_h=36.0, notice_s=30.0)
    cloud = FakeCloud([spot], script=[Reclaim(50.0, "spot", 2), Reclaim(60.0, "spot")])
    asked(cloud, 0.0, "spot", 2)
    asked(cloud, 10.0, "spot")
    asked(cloud, 49.0, "spot")
    cloud.advance(49.0)
    assert cloud.next_at_s() == 50.0
    assert cloud.advance(79.0) == [
        ReclaimNotice(50.0, "spot-0", 80.0),
        ReclaimNotice(50.0, "spot-1", 80.0),
        ReclaimNotice(60.0, "spot-2", 90.0),
    ]
    cloud.release(79.5, "spot-1")
    assert cloud.advance(200.0) == [Reclaimed(80.0, "spot-0"), Reclaimed(90.0, "spot-2")]
    assert cloud.bills_usd(149.0 + 51.0) == {"spot-0": 0.8, "spot-1": 0.8, "spot-2": 0.8, "spot-3": 1.51}


def test_reclaims_by_rate() -> None:
    cloud = FakeCloud([kind("spot", 4, 8, reclaims_per_h=60.0, notice_s=0.0)], "seed")
    asked(cloud, 1000.0, "spot", 500)
    events = cloud.advance(1e9)
    notices = [event for event in events if isinstance(event, ReclaimNotice)]
    gone = [event for event in events if isinstance(event, Reclaimed)]
    assert [(each.at_s, each.node) for each in notices] == [(each.at_s, each.node) for each in gone]
    assert sum(each.at_s - 1000.0 for each in gone) / 500 == pytest.approx(60.0, rel=0.15)
    assert cloud.held("spot") == 0


def test_prices_change_for_what_runs_too() -> None:
    cloud = FakeCloud([BIG], script=[SetPrice(100.0, "big", 72.0)])
    asked(cloud, 0.0, "big")
    assert cloud.advance(100.0)[1] == PriceChanged(100.0, "big", 72.0)
    assert cloud.prices() == {"big": 72.0}
    assert cloud.offers() == [BIG]
    assert cloud.machines()[0].usd_per_h == 72.0
    assert cloud.cost_usd(150.0) == 0.2 + 1.0


def test_api_errors() -> None:
    cloud = FakeCloud([BIG], script=[Outage(10.0, 20.0)])
    asked(cloud, 0.0, "big")
    for call in (lambda: cloud.request(10.0, "big", 1), lambda: cloud.release(19.0, "big-0")):
        with pytest.raises(CloudError, match="try again later"):
            call()
    cloud.release(20.0, "big-0")
    assert asked(cloud, 20.0, "big") == RequestId("big", 1)
    assert cloud.bills_usd(21.0) == {"big-0": 0.04, "big-1": 0.002}


def test_slow_answers() -> None:
    few = kind("few", 4, 8, usd_per_h=36.0, capacity=2, boot_s=5.0)
    cloud = FakeCloud([few], script=[Slow(0.0, 100.0, 30.0)])
    lucky, unlucky = asked(cloud, 0.0, "few", 2), asked(cloud, 1.0, "few")
    assert cloud.held("few") == 0
    assert cloud.advance(30.0) == []
    assert cloud.held("few") == 2
    text = "no capacity: 1 few asked for, 0 of 2 free"
    assert cloud.advance(31.0) == [Failed(31.0, unlucky, None, "capacity", text)]
    assert [event.at_s for event in cloud.advance(35.0)] == [35.0, 35.0]
    cloud.release(40.0, lucky)
    cloud.release(45.0, unlucky)
    cloud.advance(50.0)
    assert cloud.held("few") == 2
    assert cloud.cost_usd(200.0) == 0.7, "charged for until the release is dealt with"


def test_a_slow_request_that_is_withdrawn_in_time_comes_to_nothing() -> None:
    cloud = FakeCloud([A100], script=[Slow(0.0, 1.0, 30.0)])
    request = asked(cloud, 0.0)
    cloud.release(2.0, request)
    assert cloud.advance(1000.0) == []
    assert cloud.held("a100") == 0


def test_steps_and_types_can_be_added_on_the_way() -> None:
    cloud = FakeCloud([])
    cloud.offer(BIG)
    asked(cloud, 5.0, "big")
    cloud.advance(5.0)
    cloud.add(Reclaim(5.0, "big"))
    assert cloud.advance(5.0) == [ReclaimNotice(5.0, "big-0", 125.0)]
    with pytest.raises(ValueError, match="is in the past"):
        cloud.add(Reclaim(4.0, "big"))
    with pytest.raises(ValueError, match="an instance type big already"):
        cloud.offer(BIG)


def test_wrong_calls() -> None:
    cloud = FakeCloud([A100], script=[])
    with pytest.raises(Unknown, match="there is no instance type 'b100'; there are a100"):
        cloud.request(0.0, "b100", 1)
    with pytest.raises(Unknown, match="no instance type 'x'"):
        cloud.add(SetPrice(0.0, "x", 1.0))
    with pytest.raises(ValueError, match="at least one machine"):
        cloud.request(0.0, "a100", 0)
    for unknown in ("a100-0", RequestId("a100", 0)):
        with pytest.raises(Unknown, match="has never given this out"):
            cloud.release(0.0, unknown)
    cloud.advance(10.0)
    for now_s in (9.9, math.nan, math.inf):
        with pytest.raises(ValueError, match="a cloud's time goes on"):
            cloud.advance(now_s)


def test_whole_hours_from_the_request() -> None:
    hours = kind(
        "vm", 1, 4, usd_per_h=2.0, boot_s=120.0, min_bill_s=3600.0, bill_step_s=3600.0, bill_from="request"
    )
    cloud = FakeCloud([hours])
    request = asked(cloud, 100.0, "vm", 2)
    assert cloud.cost_usd(100.0) == 4.0
    cloud.release(150.0, "vm-0")
    assert cloud.advance(220.0) == [Booted(220.0, request, cloud.machines()[0])]
    assert cloud.cost_usd(3700.0) == 4.0
    assert cloud.bills_usd(3700.5) == {"vm-0": 2.0, "vm-1": 4.0}


def test_a_machine_is_set_up_and_released_at_its_cost() -> None:
    slow = kind("p3", 4, 61, 1, 3.6, boot_s=22.0, setup_s=151.0, release_s=1.0, bill_step_s=0.0)
    cloud = FakeCloud([slow])
    request = asked(cloud, 0.0, "p3")
    assert cloud.advance(172.5) == []
    assert [machine.name for machine in cloud.booting()] == ["p3-0"]
    assert cloud.cost_usd(172.5) == 0.1505
    assert [type(event) for event in cloud.advance(173.0)] == [Booted]
    cloud.release(200.25, request)
    assert cloud.held("p3") == 0
    assert cloud.bills_usd(200.25) == {"p3-0": 0.17825}
    assert cloud.bills_usd(1000.0) == {"p3-0": 0.17925}, "until it is gone, a second later"


def test_a_failed_boot_costs_nothing_from_the_request_either() -> None:
    bad = kind("bad", 1, 1, 0, 5.0, boot_s=30, boot_failure_frac=1.0, min_bill_s=60.0, bill_from="request")
    cloud = FakeCloud([bad])
    asked(cloud, 0.0, "bad")
    assert (cloud.cost_usd(20.0), cloud.cost_usd(40.0)) == (0.0, 0.0)


def test_spot_machines_cost_less_and_live_at_most_a_day() -> None:
    spot = Offer(type="spot", cpu=4, memory_gib=16, usd_per_h=2.0, spot=Spot(), notice_s=0.0)
    cloud = FakeCloud([spot])
    asked(cloud, 0.0, "spot", 200)
    gone = [event.at_s for event in cloud.advance(1e6) if isinstance(event, Reclaimed)]
    assert len(gone) == 200
    assert max(gone) == 86_400.0
    assert sum(at_s == 86_400.0 for at_s in gone) == pytest.approx(20, abs=12)
    assert cloud.cost_usd(1e6) == pytest.approx(0.6 * sum(gone) / 3600)
    assert cloud.prices() == {"spot": 0.6}
