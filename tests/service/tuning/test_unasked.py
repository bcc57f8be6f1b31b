"""Searching again unasked: after an interval, and when workload or promises have left what was tuned on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes.service.scheduling.events import Event
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.drift import LEARNT_FROM
from betimes.service.tuning.process import Order
from betimes.service.tuning.retune import Retune, Watch, parse_retune
from betimes.service.views.models import PolicyView, TuneSpec
from tests.service.tuning.fronts import front, policy
from tests.service.tuning.living import House, Searches, spec

pytestmark = pytest.mark.usefixtures("no_fits")
SPEC = TuneSpec(evaluations=30, jobs=50)
Arrivals = list[tuple[float, JobSpec]]


def retune(*when: str, **options: Any) -> Retune:
    found = parse_retune(when, **options)
    assert found is not None
    return found


def steady(many: int, begin_s: float = 0.0, scale: float = 1.0, seed: int = 0) -> Arrivals:
    """Jobs of a mean of 100 s, one every 50 s, for four cores."""
    draw = np.random.default_rng(seed)
    sizes = draw.lognormal(0.0, 1.0, many) * 60.0 * scale + 1.0
    at = begin_s + np.cumsum(draw.exponential(50.0, many))
    return [(float(when), spec(float(size))) for when, size in zip(at, sizes, strict=True)]


def served(house: House, arrivals: Arrivals) -> PolicyView:
    """All of these jobs; the policy in force at the end."""

    async def main() -> PolicyView:
        async with house.open(arrivals):
            await house.all_over()
            return await house.backend.policy()

    return asyncio.run(main())


def found_at_once(order: Order) -> Any:
    return front(order.baselines[0])


def test_after_an_interval_a_point_is_proposed_and_nothing_is_put_in_force(tmp_path: Path) -> None:
    house = House(tmp_path, retune=retune("1h"), searches=Searches(found_at_once))
    view = served(house, steady(150))
    began = house.told("tuning")
    assert len(began) == 2
    assert {event.cause for event in began} == {"timer"}
    assert began[0].at_s >= 3600.0
    assert began[1].at_s >= began[0].at_s + 3600.0
    assert began[0].data["reason"]["code"] == "interval"
    proposal = view.proposal
    assert (view.policy, proposal is not None) == ("fifo", True)
    assert proposal is not None
    assert (proposal.point, proposal.names, proposal.policy) == (1, ["PCS-balanced"], policy(1))
    assert proposal.in_force == {"jct:avg": 200.0, "pred_err:avg": 0.0}
    assert proposal.proposed == {"jct:avg": 120.0, "pred_err:avg": 0.2}
    assert proposal.units == {"jct:avg": "s", "pred_err:avg": "frac"}
    assert "--retune-apply" in (proposal.not_applied or "")
    assert [event.data["proposed"] for event in house.told("tuned")] == [1, 1]
    assert len(house.told("policy-set")) == 1

    async def again() -> None:
        async with house.open():
            assert (await house.backend.policy()).proposal == proposal  # it is still news after a restart
            await house.backend.set_policy("srsf", "ann")
            assert (await house.backend.policy()).proposal is None

    asyncio.run(again())


@pytest.mark.parametrize(
    ("bounds", "point"),
    [
        (("jct:avg<=1.0", "pred_err:avg<=0.3"), 1),  # PCS-balanced keeps both
        (("jct:avg<=0.55", "pred_err:avg<=0.6"), 0),  # only PCS-JCT does
        (("jct:avg<=1.0", "pred_err:avg<=0.1"), 2),
    ],
)
def test_within_bounds_it_is_put_in_force_and_the_log_says_why(
    tmp_path: Path, bounds: tuple[str, ...], point: int
) -> None:
    house = House(tmp_path, retune=retune("1h", apply=bounds), searches=Searches(found_at_once))
    view = served(house, steady(80))
    assert (view.policy, view.proposal) == (policy(point), None)
    assert view.chosen is not None
    assert (view.chosen.point, view.chosen.before, view.chosen.reason.code) == (point, "fifo", "interval")
    assert view.chosen.in_force == {"jct:avg": 200.0, "pred_err:avg": 0.0}
    (tuned,) = house.told("tuned")
    _, applied = house.told("policy-set")
    assert applied.cause == f"event:{tuned.event_id}"
    assert applied.data["front"]["point"] == tuned.data["proposed"] == point
    assert tuned.data["not_applied"] is None


def test_out_of_bounds_it_is_proposed_with_what_is_in_the_way(tmp_path: Path) -> None:
    bounds = ("jct:avg<=0.55", "pred_err:avg<=0.1")
    house = House(tmp_path, retune=retune("1h", apply=bounds), searches=Searches(found_at_once))
    view = served(house, steady(80))
    assert view.policy == "fifo"
    assert view.proposal is not None
    assert view.proposal.not_applied == "jct:avg<=0.55x: it would be 120, and the limit is 110"


def test_the_name_that_was_chosen_is_proposed_again(tmp_path: Path) -> None:
    house = House(tmp_path, retune=retune("1h"), searches=Searches(found_at_once))

    async def choose() -> None:
        async with house.open():
            with house.clock.hold():  # the jobs still run when the service stops
                await house.submit(10.0, 20.0)
                await house.backend.tune(SPEC, "ann")
                await house.until(lambda: house.tuner.going is None and house.tuner.tuned is not None)
                await house.backend.set_policy("front:PCS-pred", "ann")
                await house.controller.stop()

    asyncio.run(choose())
    view = served(house, steady(80, begin_s=house.store.events()[-1].at_s))
    assert view.proposal is not None
    assert (view.proposal.names, view.proposal.not_applied) == (["PCS-pred"], view.proposal.not_applied)


def test_the_first_search_on_drift_is_made_once_there_are_jobs_enough(tmp_path: Path) -> None:
    house = House(tmp_path, retune=retune("drift"), searches=Searches(found_at_once))
    served(house, steady(220))
    began, *_ = house.told(
        "tuning"
    )  # another may follow: how far the jobs are when the front is there is not fixed
    assert began.data["reason"]["code"] == "first"
    assert 200 <= sum(event.event_id < began.event_id for event in house.told("submitted")) < 210


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_a_workload_that_has_changed_is_searched_on_again(tmp_path: Path, scale: float) -> None:
    house = House(tmp_path, retune=retune("drift"), searches=Searches(found_at_once))

    async def main() -> None:
        async with house.open(steady(80)):
            await house.all_over()
            await house.backend.tune(SPEC, "ann")
            await house.until(lambda: house.tuner.going is None and house.tuner.tuned is not None)
        now_s = house.store.events(limit=100_000)[-1].at_s
        async with house.open(steady(45, begin_s=now_s, scale=scale, seed=1)):
            await house.all_over()

    asyncio.run(main())
    asked, *others = house.told("tuning")
    assert asked.cause == "user:ann"
    # More than once: the first search is made when there are few of the new ones among the old.
    assert {event.data["reason"]["code"] for event in others} == (set() if scale == 1.0 else {"sizes"})
    assert all(event.cause.startswith("event:") for event in others)


def test_what_cannot_be_tuned_is_tried_again_after_another_interval(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path, policy="nodes:fifo", retune=retune("1h"), searches=Searches(found_at_once))
    served(house, [(100.0 * at, spec(10.0 + at)) for at in range(80)])
    assert house.told("tuning") == []
    assert caplog.text.count("not tuned again: the policy in force, nodes:fifo") == 2


def test_an_unasked_search_waits_for_one_that_goes_on(tmp_path: Path) -> None:
    house = House(tmp_path, retune=retune("1h"))

    async def main() -> None:
        async with house.open():
            with house.clock.hold():
                await house.submit(10.0, 7200.0, 7300.0)
                await house.backend.tune(SPEC, "ann")
                await house.until(lambda: bool(house.searches.orders))
            await house.until(lambda: len(house.told("finished")) == 3)
            assert len(house.searches.orders) == 1
            await house.found()

    asyncio.run(main())
    assert [event.cause for event in house.told("tuning")] == ["user:ann"]


def job(number: int, at: float, promised_s: float, took_s: float) -> list[Event]:
    quote = {"finish_at": at + promised_s}
    return [
        Event(0, at, "submitted", "user:ann", number),
        Event(0, at, "quoted", "policy", number, data=quote),
        Event(0, at, "quoted", "policy", number, data={"finish_at": at + took_s}),  # the first one counts
        Event(0, at + took_s, "finished", "executor", number),
    ]


def test_drift_is_looked_for_when_so_many_jobs_have_come() -> None:
    watch = Watch(retune("drift"), 0.0, [])
    watch.looks_at = 20
    for number in range(1, 21):
        assert not watch.wants_look
        watch.heed(Event(0, 1.0, "submitted", "user:ann", number))
    assert watch.wants_look
    watch.looked()
    assert not watch.wants_look


def heard(watch: Watch, jobs: range, error: float) -> list[str]:
    reasons = (watch.heed(event) for n in jobs for event in job(n, 100.0 * n, 50.0, 50.0 * (1.0 + error)))
    return [reason.code for reason in reasons if reason is not None]


def test_promises_that_get_worse_are_a_reason_and_a_new_policy_begins_a_new_chart() -> None:
    watch = Watch(retune("drift"), 0.0, [])
    many = 2 * LEARNT_FROM
    assert heard(watch, range(1, many), 0.1) == []
    assert heard(watch, range(many, many + 5), 2.0)[:1] == ["errors"]
    watch.heed(Event(0, 100.0 * (many + 10), "policy-set", "user:ann"))
    assert heard(watch, range(many + 10, 2 * many), 2.0) == []
    assert heard(Watch(retune("1h"), 1e9, []), range(1, many + 5), 0.1) == []


def test_what_was_promised_before_a_hold_is_not_judged() -> None:
    watch = Watch(retune("drift"), 0.0, [])
    many = 2 * LEARNT_FROM
    assert heard(watch, range(1, many), 0.1) == []
    for number in range(many, many + 20):
        at = 100.0 * number
        for event in (
            Event(0, at, "submitted", "user:ann", number),
            Event(0, at, "quoted", "policy", number, data={"finish_at": at + 50.0}),
            Event(0, at, "held", "user:ann", number),
            Event(0, at + 5000.0, "released", "user:ann", number),
            Event(0, at + 5000.0, "quoted", "policy", number, data={"finish_at": at + 5050.0}),
            Event(0, at + 5055.0, "finished", "executor", number),
        ):
            assert watch.heed(event) is None
