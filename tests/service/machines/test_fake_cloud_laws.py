"""Whatever is asked of the fake cloud: what it costs, how much it gives out, and that only calls and times matter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster.billing import Prices, lease_usd, summed
from betimes.cluster.offer import Offer
from betimes.errors import CloudError
from betimes.service.machines.fake_cloud import (
    FakeCloud,
    Outage,
    Reclaim,
    SetCapacity,
    SetPrice,
    Slow,
    Step,
)
from betimes.service.machines.provider import (
    Booted,
    CloudEvent,
    Failed,
    NoCapacity,
    PriceChanged,
    Reclaimed,
    RequestId,
)
from tests.service.machines.kinds import kind

END_S = 300.0
TYPES = ("a", "b")
# Halves meet often, so that much happens at the same instant.
TIMES = st.one_of(st.integers(0, 100).map(lambda number: number / 2), st.floats(0, 50))
PRICES = st.floats(0, 50)


@dataclass(frozen=True)
class Call:
    """Ask for `count` of a type; 0: release what the type's `pick`-th request gave."""

    at_s: float
    type: str
    count: int
    pick: int


@st.composite
def instance_types(draw: st.DrawFn, name: str) -> Offer:
    return kind(
        name,
        4,
        16,
        usd_per_h=draw(PRICES),
        capacity=draw(st.one_of(st.none(), st.integers(1, 5))),
        boot_s=draw(st.sampled_from([0.0, 1.0, 7.5])),
        boot_sigma=draw(st.sampled_from([0.0, 0.8])),
        boot_failure_frac=draw(st.sampled_from([0.0, 0.3])),
        reclaims_per_h=draw(st.sampled_from([0.0, 100.0])),
        notice_s=draw(st.sampled_from([0.0, 2.0, 15.5])),
    )


OFFERED = st.tuples(*(instance_types(name) for name in TYPES))
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(SetPrice, TIMES, st.sampled_from(TYPES), PRICES),
    st.builds(Reclaim, TIMES, st.sampled_from(TYPES), st.integers(1, 3)),
    st.builds(lambda at_s, long_s: Outage(at_s, at_s + long_s), TIMES, TIMES),
    st.builds(lambda at_s, long_s, delay_s: Slow(at_s, at_s + long_s, delay_s), TIMES, TIMES, TIMES),
)
CALLS = st.lists(
    st.builds(Call, TIMES, st.sampled_from(TYPES), st.integers(0, 3), st.integers(0, 9)),
    max_size=12,
    unique=True,
).map(lambda calls: sorted(calls, key=lambda call: call.at_s))


def carry_out(cloud: FakeCloud, call: Call, given: dict[str, list[RequestId]]) -> object:
    try:
        if call.count == 0:
            if call.pick < len(given[call.type]):
                cloud.release(call.at_s, given[call.type][call.pick])
            return None
        answer = cloud.request(call.at_s, call.type, call.count)
    except CloudError as error:
        return str(error)
    if isinstance(answer, RequestId):
        given[call.type].append(answer)
    return answer


@dataclass
class Story:
    answers: dict[Call, object]
    events: list[CloudEvent]
    bills: dict[str, float]
    cost_usd: float


def play(cloud: FakeCloud, calls: Sequence[Call], looks: Sequence[float] = ()) -> Story:
    """The calls in their order, and looks at what has happened in between."""
    given: dict[str, list[RequestId]] = {name: [] for name in TYPES}
    answers: dict[Call, object] = {}
    events: list[CloudEvent] = []
    times = [*((call.at_s, call) for call in calls), *((at_s, None) for at_s in looks)]
    for at_s, call in sorted(times, key=lambda each: each[0]):
        if call is None:
            events += cloud.advance(at_s)
        else:
            answers[call] = carry_out(cloud, call, given)
    events += cloud.advance(END_S)
    return Story(answers, events, cloud.bills_usd(END_S), cloud.cost_usd(END_S))


def within_instants(events: Sequence[CloudEvent]) -> list[tuple[float, list[str]]]:
    """The events of each instant as a set: a look in the middle of an instant sees a part of it."""
    times = sorted({event.at_s for event in events})
    return [(at_s, sorted(repr(event) for event in events if event.at_s == at_s)) for at_s in times]


@given(OFFERED, st.lists(STEPS, max_size=6), CALLS, st.lists(TIMES, max_size=10), st.integers())
def test_how_often_one_looks_does_not_matter(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call], looks: list[float], seed: int
) -> None:
    once = play(FakeCloud(types, seed, quota=6, script=script), calls)
    often = play(
        FakeCloud(types, seed, quota=6, script=script), calls, [*looks, *(call.at_s for call in calls)]
    )
    assert once.answers == often.answers
    assert within_instants(once.events) == within_instants(often.events)
    assert (once.bills, once.cost_usd) == (often.bills, often.cost_usd)
    assert [event.at_s for event in once.events] == sorted(event.at_s for event in once.events)


@given(OFFERED, st.lists(STEPS, max_size=6), CALLS, st.integers())
def test_calls_for_different_types_at_one_instant_may_change_places(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call], seed: int
) -> None:
    forth = play(
        FakeCloud(types, seed, script=script), sorted(calls, key=lambda call: (call.at_s, call.type))
    )
    back = play(
        FakeCloud(types, seed, script=script), sorted(calls, key=lambda call: (call.at_s, call.type == "a"))
    )
    assert forth == back


@given(OFFERED, st.lists(STEPS, max_size=6), CALLS, st.integers())
def test_next_at_tells_of_every_event(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call], seed: int
) -> None:
    cloud = FakeCloud(types, seed, script=script)
    told = play(FakeCloud(types, seed, script=script), calls).events
    heard: list[CloudEvent] = []
    given: dict[str, list[RequestId]] = {name: [] for name in TYPES}
    for call in [*calls, Call(END_S, "a", 0, 99)]:
        while (at_s := cloud.next_at_s()) < call.at_s:
            found = cloud.advance(at_s)
            assert all(event.at_s == at_s for event in found)
            heard += found
        carry_out(cloud, call, given)
    assert within_instants([*heard, *cloud.advance(END_S)]) == within_instants(told)


def end_times(story: Story, releases: dict[RequestId, float]) -> dict[str, tuple[float, float, RequestId]]:
    """When each machine booted and was gone, by its events and the releases alone."""
    reclaimed = {event.node: event.at_s for event in story.events if isinstance(event, Reclaimed)}
    return {
        event.machine.name: (
            event.at_s,
            min(reclaimed.get(event.machine.name, math.inf), releases.get(event.request, math.inf), END_S),
            event.request,
        )
        for event in story.events
        if isinstance(event, Booted)
    }


def released(
    calls: Sequence[Call], answers: dict[Call, object], types: Sequence[str]
) -> dict[RequestId, float]:
    """The first release of each request that was given before."""
    given: dict[str, list[RequestId]] = {name: [] for name in types}
    first: dict[RequestId, float] = {}
    for call in calls:
        if call.count and isinstance(answers[call], RequestId):
            given[call.type].append(answers[call])  # pyright: ignore[reportArgumentType]
        if call.count == 0 and call.pick < len(given[call.type]):
            first.setdefault(given[call.type][call.pick], call.at_s)
    return first


QUIET = st.lists(STEPS, max_size=6).map(
    lambda steps: [step for step in steps if isinstance(step, SetPrice | Reclaim)]
)


@given(OFFERED, QUIET, CALLS, st.integers())
def test_cost_is_the_sum_over_every_second(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call], seed: int
) -> None:
    story = play(FakeCloud(types, seed, script=script), calls)
    prices = {each.type: [(-math.inf, each.usd_per_h)] for each in types}
    for event in story.events:
        if isinstance(event, PriceChanged):
            prices[event.type].append((event.at_s, event.usd_per_h))
    total = Fraction(0)
    for booted_s, ended_s, request in end_times(story, released(calls, story.answers, TYPES)).values():
        second = Fraction(booted_s)
        while second < ended_s:
            total += Fraction([usd for at_s, usd in prices[request.type] if at_s <= second][-1]) / 3600
            second += 1
    assert story.cost_usd == float(total)


@st.composite
def charged_types(draw: st.DrawFn, name: str) -> Offer:
    return kind(
        name,
        4,
        16,
        usd_per_h=draw(PRICES),
        boot_s=draw(st.sampled_from([0.0, 1.0, 7.5])),
        setup_s=draw(st.sampled_from([0.0, 3.25])),
        release_s=draw(st.sampled_from([0.0, 1.0])),
        min_bill_s=draw(st.sampled_from([0.0, 10.0])),
        bill_step_s=draw(st.sampled_from([0.0, 1.0, 7.0])),
        bill_from=draw(st.sampled_from(["request", "boot"])),
        reclaims_per_h=draw(st.sampled_from([0.0, 100.0])),
        notice_s=draw(st.sampled_from([0.0, 15.5])),
    )


@given(st.tuples(*(charged_types(name) for name in TYPES)), QUIET, CALLS, st.integers())
def test_every_lease_is_billed_as_its_offer_says(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call], seed: int
) -> None:
    story = play(FakeCloud(types, seed, script=script), calls)
    offers = {each.type: each for each in types}
    prices = {each.type: Prices(each.usd_per_h) for each in types}
    for event in story.events:
        if isinstance(event, PriceChanged):
            prices[event.type] = prices[event.type].changed(event.at_s, event.usd_per_h)
    reclaimed = {event.node: event.at_s for event in story.events if isinstance(event, Reclaimed)}
    ends = released(calls, story.answers, TYPES)
    bills: dict[str, Fraction] = {}
    for call in calls:
        answer = story.answers[call]
        if not isinstance(answer, RequestId):
            continue
        offer, released_s = offers[call.type], ends.get(answer, math.inf)
        booted_s = call.at_s + offer.boot_s
        since_s = offer.billing.since_s(call.at_s, booted_s if booted_s <= released_s else math.inf)
        for _ in range(call.count):
            node = f"{call.type}-{sum(name.startswith(call.type) for name in bills)}"
            taken_s = reclaimed.get(node, math.inf)
            gone_s = released_s + offer.release_s if released_s <= taken_s else taken_s
            bills[node] = lease_usd(offer.billing, prices[call.type], since_s, min(gone_s, END_S))
    assert story.bills == {node: float(bill) for node, bill in bills.items()}
    assert story.cost_usd == float(summed(bills.values()))


@given(OFFERED, QUIET, CALLS, st.integers(), st.integers(0, 8))
def test_never_more_than_capacity_and_quota(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call], seed: int, quota: int
) -> None:
    story = play(FakeCloud(types, seed, quota, script), calls)
    ends = released(calls, story.answers, TYPES)
    gone = {event.node: event.at_s for event in story.events if isinstance(event, Reclaimed)}
    gone |= {event.node: event.at_s for event in story.events if isinstance(event, Failed) and event.node}
    capacity = {each.type: math.inf if each.capacity is None else each.capacity for each in types}
    held: list[tuple[float, float, str]] = []  # of every machine: from, until, type
    made: Counter[str] = Counter()
    for call in calls:
        answer = story.answers[call]
        if isinstance(answer, RequestId):
            nodes = [f"{call.type}-{made[call.type] + number}" for number in range(call.count)]
            made[call.type] += call.count
            until_s = (min(ends.get(answer, math.inf), gone.get(node, math.inf)) for node in nodes)
            held += [(call.at_s, each_s, call.type) for each_s in until_s]
    for call in calls:
        now = [each for each in held if each[0] <= call.at_s <= each[1]]
        assert len(now) <= quota
        for name in TYPES:
            assert sum(each[2] == name for each in now) <= capacity[name]
    for call in calls:  # and what is refused could not have been given
        if isinstance(story.answers[call], NoCapacity):
            now = [each for each in held if each[0] <= call.at_s <= each[1]]
            of_type = sum(each[2] == call.type for each in now)
            assert of_type + call.count > capacity[call.type] or len(now) + call.count > quota


ANY_STEPS = st.lists(
    st.one_of(STEPS, st.builds(SetCapacity, TIMES, st.sampled_from(TYPES), st.integers(0, 4))), max_size=8
)


@given(OFFERED, ANY_STEPS, CALLS)
def test_cost_never_falls_and_nothing_goes_missing(
    types: tuple[Offer, ...], script: list[Step], calls: list[Call]
) -> None:
    cloud = FakeCloud(types, script=script)
    given: dict[str, list[RequestId]] = {name: [] for name in TYPES}
    before_usd = 0.0
    for call in calls:
        carry_out(cloud, call, given)
        assert cloud.cost_usd(call.at_s) >= before_usd
        before_usd = cloud.cost_usd(call.at_s)
    events = cloud.advance(END_S)
    booted = {event.machine.name for event in events if isinstance(event, Booted)}
    reclaimed = {event.node for event in events if isinstance(event, Reclaimed)}
    assert {machine.name for machine in cloud.machines()} <= booted - reclaimed
    for requests in given.values():
        for request in requests:
            cloud.release(END_S, request)
    assert cloud.machines() == []
    assert all(cloud.held(name) == 0 for name in TYPES) or any(isinstance(step, Slow) for step in script)
    cost_usd = cloud.cost_usd(END_S)
    assert cloud.cost_usd(2 * END_S) == cost_usd or any(isinstance(step, Slow) for step in script)
