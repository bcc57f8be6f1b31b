"""The queue in the order of expected ends: page after page, arrays and pipelines folded, against a plain sort."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest

from betimes.service.runtime.queue_order import SORTS, Place, QueueOrder
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import Forecast
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import JobFilter

LIVE = (Status.HELD, Status.BLOCKED, Status.QUEUED, Status.RUNNING)


def job(number: int, after: list[int] | None = None, **columns: Any) -> Job:
    spec = JobSpec(command=["x"], workdir="/", after=[str(other) for other in after or ()])
    return Job(number, spec, columns.pop("user", "ada"), 0.0, 60.0, "estimate", **columns)


def live_jobs() -> dict[int, Job]:
    """Two arrays lie in between; the ends that were promised are in another order."""
    found = {}
    for number in range(1, 121):
        array = 20 if 20 <= number < 40 else 60 if 60 <= number < 65 else None
        found[number] = job(
            number,
            array_id=array,
            user="ada" if (array or number) % 2 else "bob",
            status=LIVE[number % 4],
            promised_finish_at=float((number * 37) % 101) if number % 5 else None,
        )
    return found


def listed(
    order: QueueOrder, jobs: dict[int, Job], asked: JobFilter, pipeline: int | None = None
) -> list[int]:
    """The first jobs of the rows of all pages."""
    is_wanted, after, found = order.wanted(jobs, asked, pipeline), None, list[int]()
    fold = "none" if asked.array_id is not None else "array" if pipeline is not None else "pipeline"
    while page := list(islice(order.page(jobs, is_wanted, fold, after), 7)):
        found += [row.job for row in page]
        after = page[-1].place
    return found


@pytest.mark.parametrize(
    "conditions",
    [{}, {"user": "bob"}, {"status": ["queued", "held"]}, {"array_id": 20}, {"user": "nobody"}],
    ids=str,
)
def test_pages_together_are_the_queue(conditions: dict[str, Any]) -> None:
    jobs, asked = live_jobs(), JobFilter(**conditions)
    order = QueueOrder(jobs.values(), None)
    for number in range(7, 121, 7):  # they have ended since
        del jobs[number]
    live = [
        one
        for one in jobs.values()
        if (not asked.status or one.status in asked.status)
        and asked.user in (None, one.user)
        and asked.array_id in (None, one.array_id)
    ]
    expected, arrays = list[int](), set[int]()
    for one in sorted(live, key=lambda one: (one.promised_finish_at or math.inf, one.job_id)):
        if asked.array_id is None and one.array_id is not None:
            if one.array_id in arrays:
                continue
            arrays.add(one.array_id)
        expected.append(one.job_id)
    assert listed(order, jobs, asked) == expected
    is_wanted = order.wanted(jobs, asked, None)
    statuses = [one.status.value for one in live]
    standing = order.standing(jobs, is_wanted)
    assert {status: total.jobs for status, total in standing.items()} == {
        status: statuses.count(status) for status in {*statuses}
    }
    for row in order.page(jobs, is_wanted):
        if row.group is not None:
            assert sum(row.counts.values()) == sum(one.array_id == row.group.name for one in live)
            assert {*order.jobs_of(jobs, "array", int(row.group.name))} == {
                one.job_id for one in jobs.values() if one.array_id == row.group.name
            }


def test_what_is_expected_now_comes_before_what_was_promised() -> None:
    jobs = {number: job(number, promised_finish_at=10.0 * number) for number in (1, 2, 3, 4)}
    times = np.array([90.0, 20.0, math.nan])
    found = Forecast(0.0, [1, 2, 3], times - 5.0, times, np.ones(3, dtype=np.bool_))
    order = QueueOrder(jobs.values(), found)
    places: list[Place] = [row.place for row in order.page(jobs, lambda _: True)]
    assert places == [(20.0, 2), (40.0, 4), (90.0, 1), (None, 3)]


@pytest.mark.parametrize("descends", [False, True])
@pytest.mark.parametrize("sort", ["end", *SORTS])
def test_pages_of_any_order_together_are_the_queue_in_that_order(sort: str, descends: bool) -> None:
    jobs = live_jobs()
    order, after, found = QueueOrder(jobs.values(), None), None, list[int]()
    while page := list(islice(order.page(jobs, lambda _: True, "none", after, sort, descends), 7)):
        found += [row.job for row in page]
        after = page[-1].place
    keys: dict[int, Any] = {
        number: one.promised_finish_at or None if sort == "end" else SORTS[sort](one)
        for number, one in jobs.items()
    }
    known = [number for number in jobs if keys[number] is not None]
    assert found == [
        *sorted(known, key=lambda number: (keys[number], number), reverse=descends),
        *(number for number in jobs if keys[number] is None),
    ]


@pytest.mark.parametrize("descends", [False, True])
def test_rows_by_units_stand_in_the_order_of_what_their_jobs_hold_together(descends: bool) -> None:
    """By name: a (1, 2, 4) 6 units, of which 4 is over; b (3) 4; c (5, 6) 2, of which bob's 6 is not looked for."""
    held = {1: ("a", 1), 2: ("a", 5), 3: ("b", 4), 4: ("a", 9), 5: ("c", 2), 6: ("c", 7)}
    jobs = {number: job(number, user="bob" if number == 6 else "ada") for number in held}
    for number, (name, units) in held.items():
        spec = jobs[number].spec.model_copy(update={"name": name, "min_units": units, "max_units": units})
        jobs[number].spec = spec
    order = QueueOrder(jobs.values(), None)
    del jobs[4]
    is_wanted = order.wanted(jobs, JobFilter(user="ada"), None)
    rows, after = list[tuple[int, int]](), None
    while page := list(islice(order.page(jobs, is_wanted, "name", after, "units", descends), 2)):
        rows += [(row.job, row.units) for row in page]
        after = page[-1].place
    expected = [(5, 2), (3, 4), (1, 6)]
    assert rows == (expected[::-1] if descends else expected)


def test_jobs_that_wait_for_each_other_are_one_row() -> None:
    """1 over, <- 2 <- an array of 3 and 4 <- 5; 6 <- 7 in another; 8 alone."""
    jobs = {
        one.job_id: one
        for one in (
            job(2, [1], promised_finish_at=10.0, status=Status.RUNNING),
            job(3, [2], array_id=3, promised_finish_at=20.0),
            job(4, [2], array_id=3, promised_finish_at=21.0),
            job(5, [3, 4], promised_finish_at=30.0),
            job(6, promised_finish_at=5.0),
            job(7, [6], promised_finish_at=None),
            job(8, promised_finish_at=7.0),
        )
    }
    order = QueueOrder(jobs.values(), None)
    rows = list(order.page(jobs, lambda _: True))
    assert [(row.job, row.group, row.counts, row.last, row.units) for row in rows] == [
        (6, ("pipeline", 7), {"blocked": 2}, ((6, 5.0),), 2),
        (8, None, {}, (), 0),
        (2, ("pipeline", 5), {"running": 1, "blocked": 3}, ((2, 10.0), (3, 20.0), (4, 21.0), (5, 30.0)), 4),
    ]
    assert (
        listed(order, jobs, JobFilter(), pipeline=5)
        == listed(order, jobs, JobFilter(), pipeline=2)
        == [2, 3, 5]
    )
    assert listed(order, jobs, JobFilter(), pipeline=8) == []
    assert order.jobs_of(jobs, "pipeline", 5) == [2, 3, 4, 5]
