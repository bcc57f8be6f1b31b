"""No job starts on a rented machine whose longest lease ends before the job would be over; promises know it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import lists, sampled_from, tuples

from betimes.cluster.offer import Offer
from betimes.errors import Refused
from betimes.service.machines.budgets import FleetLimits
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_changes import JobChanges
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_fleet_limits import play, play_with, reason
from tests.service.runtime.test_rentals import BIG, House, clouds

LEASE_S, TAKES_S, LONGEST_S = 3000.0, 2880.0, 2760.0  # notice two minutes before; twice 60 s to boot
LIMITS = Settings(fleet=FleetLimits(longest_lease_s=LEASE_S))
PAID = replace(BIG, min_bill_s=LEASE_S)
"""Its machines cost nothing more until their lease ends, so that idle ones are kept."""


async def start_of(house: House, number: int) -> tuple[float, str]:
    """When a job's first run began, s since the first start, and the node."""
    run = (await house.backend.job(number)).runs[0]
    return run.started_at - 1000.0, run.places[0].node


async def promise_of(house: House, number: int) -> tuple[float, float]:
    """The start and the end that a job was promised first, s since the first start."""
    quote = (await house.backend.job(number)).quotes[0]
    assert quote.start_at is not None
    assert quote.finish_at is not None
    return quote.start_at - 1000.0, quote.finish_at - 1000.0


@pytest.mark.parametrize(
    ("policy", "starts_again"),
    [("fifo", False), ("fifo", True), ("nodes:fifo", True), ("easy", False), ("conservative", False)],
)
def test_a_machine_rented_by_hand_takes_the_jobs_that_are_over_in_time(
    tmp_path: Path, policy: str, starts_again: bool
) -> None:
    async def test(house: House) -> None:
        await house.submit(2500.0, cpu=1.0)
        await house.rent()
        await house.at(1000.0)
        assert (await house.job((await house.submit(1800.0, cpu=1.0))[0]))[0] == Status.RUNNING
        quoted = await house.backend.quote(spec(1900.0, cpu=1.0), "ann")
        assert quoted.reason is not None
        assert quoted.reason.text.startswith(
            "may take 31.7 min, and node big-0 takes jobs that are over by 1970-01-01T01:04:40Z, as its lease then "
            "ends (--longest-lease); expected 1970-01-01T00:58:20Z, when job 1 ends"
        )
        (job,) = await house.submit(1900.0, cpu=1.0)
        assert await promise_of(house, job) == (2500.0, 4400.0)
        assert (quoted.start_at, quoted.finish_at) == (3500.0, 5400.0)
        if not starts_again:
            await house.at(4500.0)
            assert await start_of(house, job) == (2500.0, "own-0")
            assert (await house.job(job)) == (Status.FINISHED, 1)

    async def again(house: House) -> None:
        await house.at(1100.0)
        view = (await house.backend.job(3)).job
        assert view.reason is not None
        assert view.reason.code == "lease"

    play(tmp_path, policy, LIMITS, test, *([again] if starts_again else []))


def house_of(folder: Path, policy: str, limits: Settings, offer: Offer) -> House:
    house = House(folder, policy, clouds(offered=offer))
    house.settings = limits
    return house


@pytest.mark.parametrize(
    ("policy", "offer", "first", "cpu"),
    [
        ("odb", BIG, 2500.0, 3.0),  # there is room beside the first
        ("odb", PAID, 300.0, 4.0),  # the first has left the machine
        ("eva:period=60", BIG, 2500.0, 3.0),
        ("eva:rules=paper,period=60", BIG, 2500.0, 3.0),
    ],
)
def test_another_machine_is_rented_for_a_job_that_the_lease_would_not_see_done(
    tmp_path: Path, policy: str, offer: Offer, first: float, cpu: float
) -> None:
    async def test(house: House) -> None:
        await house.submit(2990.0, cpu=1.0)
        await house.submit(first, cpu=4.0 - cpu or 4.0)
        await house.at(1000.0)
        assert "big-0" in await house.statuses()
        (job,) = await house.submit(2000.0, cpu=cpu)
        promised = await promise_of(house, job)
        await house.at(4000.0)
        start_s, node = await start_of(house, job)
        assert node == "big-1"
        assert (start_s, start_s + 2000.0) == pytest.approx(promised, abs=1.0)
        assert (await house.job(job)) == (Status.FINISHED, 1)

    play_with(house_of(tmp_path, policy, LIMITS, offer), test)


@pytest.mark.parametrize("policy", ["odb", "no-packing:period=60", "njw", "sww:b=15m"])
def test_nothing_is_rented_for_a_job_that_is_longer_than_a_lease(tmp_path: Path, policy: str) -> None:
    async def test(house: House) -> None:
        await house.submit(LONGEST_S, cpu=1.0)
        await house.at(100.0)
        answer = (await house.backend.submit([spec(LONGEST_S + 10.0, cpu=1.0)], "ann"))[0]
        assert answer.note == (
            "it may take 46.2 min, and a rented machine takes jobs of at most 46 min (--longest-lease): it waits for "
            "a machine that is not rented"
        )
        await house.at(200.0)
        assert "no machine is rented for it, since it may take 46.2 min" in await reason(house, answer.job_id)
        promised = await promise_of(house, answer.job_id)
        await house.at(6000.0)
        start_s, node = await start_of(house, answer.job_id)
        assert node == "own-0"
        assert (start_s, start_s + LONGEST_S + 10.0) == pytest.approx(promised, abs=1.0)

    play(tmp_path, policy, LIMITS, test)


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo", "odb", "njw"])
def test_a_job_that_is_longer_than_a_lease_and_fits_no_owned_machine_is_refused(
    tmp_path: Path, policy: str
) -> None:
    async def test(house: House) -> None:
        await house.rent()
        await house.at(60.0)
        said = (
            r"it may take 46.2 min, and a rented machine takes jobs of at most 46 min \(--longest-lease\); no owned "
            "machine holds it. State a shorter time, or ask for longer leases"
        )
        cases: list[tuple[dict[str, Any], str]] = [
            ({"estimate_s": LONGEST_S + 10.0}, "estimate_s"),
            ({"estimate_s": 60.0, "time_limit_s": LONGEST_S + 7.0}, "time_limit_s"),  # 3 s of grace besides
        ]
        for asked, field in cases:
            with pytest.raises(Refused, match=said) as refused:
                await house.backend.submit([spec(60.0, cpu=4.0, **asked)], "ann")
            assert refused.value.field == field
            with pytest.raises(Refused, match=said):
                await house.backend.quote(spec(60.0, cpu=4.0, **asked), "ann")

    play(tmp_path, policy, LIMITS, test)


def test_a_job_without_an_estimate_is_refused_by_the_hour_that_is_assumed(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        said = (
            r"it states no run time \(--estimate\), so that 60 min is assumed, and a rented machine takes jobs of at "
            r"most 46 min \(--longest-lease\)"
        )
        unknown = spec(60.0, cpu=4.0, estimate_s=None)
        with pytest.raises(Refused, match=said + "; no owned machine holds it"):
            await house.backend.submit([unknown], "ann")
        await house.submit(LONGEST_S, cpu=1.0)
        await house.at(100.0)
        waits = (await house.backend.submit([unknown.model_copy(update={"cpu": 1.0})], "ann"))[0]
        await house.at(200.0)
        assert re.search("no machine is rented for it, since " + said, await reason(house, waits.job_id))

    play(tmp_path, "odb", LIMITS, test)


def test_a_machine_at_once_is_refused_to_a_job_that_is_longer_than_a_lease(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        said = (
            r"it may take 46.2 min, and a rented machine takes jobs of at most 46 min \(--longest-lease\), and it asks "
            r"for one at once. State a shorter time, leave --rent now out, or ask for longer leases"
        )
        at_once = spec(LONGEST_S + 10.0, cpu=1.0, rent="now")
        with pytest.raises(Refused, match=said):
            await house.backend.submit([at_once], "ann")
        with pytest.raises(Refused, match=said):
            await house.backend.quote(at_once, "ann")

    play(tmp_path, "njw", LIMITS, test)


def test_no_job_that_waits_is_made_longer_than_a_lease(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        runs, waits = await house.submit(600.0, 600.0, cpu=4.0)
        await house.at(100.0)
        for changes in (JobChanges(estimate_s=LONGEST_S + 10.0), JobChanges(time_limit_s=LONGEST_S + 7.0)):
            with pytest.raises(Refused, match=r"it may take 46.2 min, .* no owned machine holds it"):
                await house.backend.edit([waits], changes, "ann")
            await house.backend.edit([runs], changes, "ann")
        await house.backend.edit([waits], JobChanges(estimate_s=700.0, name="longer"), "ann")
        await house.at(2000.0)
        assert await house.job(waits) == (Status.FINISHED, 1)

    limits = Settings(fleet=FleetLimits(most_machines=1, longest_lease_s=LEASE_S))
    play(tmp_path, "odb", limits, test)


@pytest.mark.parametrize("policy", ["odb", "no-packing:period=60"])
def test_a_promise_counts_on_no_lease_that_ends_too_early_later_on(tmp_path: Path, policy: str) -> None:
    """The only machine that may be rented is free again when its lease is too short."""

    async def test(house: House) -> None:
        await house.submit(1900.0, cpu=4.0)
        await house.at(100.0)
        (job,) = await house.submit(1000.0, cpu=4.0)
        promised = await promise_of(house, job)
        await house.at(6000.0)
        start_s, node = await start_of(house, job)
        assert (node, start_s, start_s + 1000.0) == ("big-1", *map(pytest.approx, promised))

    limits = Settings(fleet=FleetLimits(most_machines=1, longest_lease_s=LEASE_S))
    play(tmp_path, policy, limits, test)


RENTING = (
    "odb", "oda", "ode:placement=worst", "odx", "njw", "sww:b=10m", "compound:t=5m,b=10m", "no-packing:period=60",
    "eva:period=60", "portfolio",
)  # fmt: skip


@pytest.mark.slow
@given(
    policy=sampled_from(RENTING),
    offer=sampled_from([BIG, PAID]),
    by_hand=sampled_from([False, True]),
    asked=lists(
        tuples(
            sampled_from([0.0, 0.0, 400.0, 1500.0]),
            sampled_from([1.0, 2.0, 4.0]),
            sampled_from([50.0, 600.0, 1500.0, 2700.0]),
        ),
        min_size=1,
        max_size=6,
    ),
)
@settings(deadline=None)
def test_no_job_starts_past_the_lease_of_its_machine_and_none_waits_for_ever(
    policy: str, offer: Offer, by_hand: bool, asked: list[tuple[float, float, float]]
) -> None:
    last_s = 0.0

    async def test(house: House) -> None:
        nonlocal last_s
        if by_hand:
            await house.rent()
        for after_s, cpu, work_s in asked:
            last_s += after_s
            await house.at(last_s)
            await house.submit(work_s, cpu=cpu)
        await house.at(30_000.0)
        jobs = range(1, len(asked) + 1)
        assert {(await house.job(job)) for job in jobs} == {(Status.FINISHED, 1)}

    with TemporaryDirectory() as folder:
        house = house_of(Path(folder), policy, LIMITS, offer)
        play_with(house, test)
        events = house.store.events(limit=100_000)
    rented_at: dict[Any, float] = {}
    for event in events:
        if event.kind == "node-added" and event.data.get("rented_at") is not None:
            rented_at[event.node] = event.data["rented_at"]
        elif event.kind == "launched":
            work_s = asked[(event.job or 0) - 1][2]
            ends_at = [rented_at[name] + TAKES_S for name, _ in event.data["places"] if name in rented_at]
            assert all(event.at_s + work_s <= at + 1.0 for at in ends_at), event
