"""A large array is accepted whole; its elements become jobs in slices, between which other requests are answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from betimes.errors import Refused
from betimes.service.runtime import promises
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling import admission
from betimes.service.scheduling.events import Event
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.users import User
from betimes.service.views.models import JobFilter, Submitted
from tests.service.four_cores import on_four_cores
from tests.service.four_cores import spec as of_four_cores
from tests.service.reliability.cluster import Cluster, spec

SLICE, ELEMENTS = 3, 20


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ELEMENTS_A_TURN", SLICE)
    monkeypatch.setattr(promises, "MOST_A_TURN", SLICE)


@pytest.mark.parametrize("with_snapshot", [False, True], ids=["log", "snapshot"])
def test_an_array_whose_service_is_killed_while_it_is_taken_is_taken_whole(with_snapshot: bool) -> None:
    cluster = Cluster()
    numbers = cluster.submit(spec(array=f"5-{ELEMENTS + 4}%2"))
    assert numbers == [*range(numbers[0], numbers[0] + ELEMENTS)]
    assert cluster.story(numbers[0])[:2] == [
        "array-submitted",
        "submitted",
    ]  # its owner's, as all events of a job
    there = [*cluster.ledger.jobs]
    assert there == numbers[: len(there)] != numbers
    if with_snapshot:
        cluster.snapshots.append(cluster.ledger.to_bytes())
    cluster.crash()
    (other,) = cluster.submit(spec(), user="bob")
    assert other == numbers[-1] + 1
    assert not {*numbers} <= {*cluster.ledger.jobs}
    cluster.go_on(0.0)
    assert {*cluster.ledger.jobs} == {*numbers, other}
    assert [cluster.job(number).array_index for number in numbers] == [*range(5, 5 + ELEMENTS)]
    assert Counter(map(cluster.status, numbers)) == {"running": 2, "blocked": ELEMENTS - 2}
    cluster.go_on()
    assert {cluster.status(number) for number in (*numbers, other)} == {"finished"}


@pytest.mark.parametrize("with_snapshot", [False, True], ids=["log", "snapshot"])
def test_elements_keep_one_specification_until_one_of_them_is_edited(with_snapshot: bool) -> None:
    cluster = Cluster()
    cluster.submit(spec())
    numbers = cluster.submit(spec(array=f"1-{ELEMENTS}", name="alike"))
    cluster.go_on(0.0)
    if with_snapshot:
        cluster.snapshots.append(cluster.ledger.to_bytes())
    cluster.crash()
    first, *others = (cluster.job(number) for number in numbers)
    assert all(job.spec is first.spec for job in others)
    assert all(
        cluster.job(number).spec is not first.spec for number in cluster.ledger.jobs if number not in numbers
    )
    cluster.scheduler.edits.edit(numbers[1:2], JobChanges(name="other"), "ann")
    assert [cluster.job(number).spec.name for number in numbers[:3]] == ["alike", "other", "alike"]


def test_elements_that_are_no_jobs_yet_count_in_the_queue_of_their_user() -> None:
    cluster = Cluster()
    limits = {"max_queued_jobs": ELEMENTS}
    cluster.scheduler.users.add(User.model_validate({"name": "ann", "limits": limits}), "operator")
    cluster.scheduler.admission.submit(spec(array=f"1-{ELEMENTS}"), "ann")
    with pytest.raises(Refused, match=f"ann may have {ELEMENTS} jobs in the queue"):
        cluster.scheduler.admission.submit(spec(), "ann")


def test_others_are_answered_while_an_array_is_taken_and_promised(tmp_path: Path) -> None:
    turns = list[list[Event]]()

    async def ask(backend: ServiceBackend) -> None:
        backend.controller.listeners.append(turns.append)
        (there,) = await backend.submit([of_four_cores()], "bob")
        whole = asyncio.ensure_future(backend.submit([of_four_cores(array=f"1-{ELEMENTS}")], "ann"))
        while not backend.scheduler.ledger.arrays:
            await asyncio.sleep(0)
        last = next(iter(backend.scheduler.ledger.arrays)).missing[-1]
        assert await backend.owners([last]) == {last: "ann"}
        of_whole = asyncio.ensure_future(backend.steer("cancel", [last], "ann"))
        await backend.steer("cancel", [there.job_id], "bob")
        assert backend.scheduler.ledger.arrays
        (view,) = await of_whole
        assert (view.job_id, view.status) == (last, "cancelled")
        (told,) = await whole
        assert told.job_ids == [*range(last - ELEMENTS + 1, last + 1)]

    on_four_cores(tmp_path, ask)
    for kind in ("submitted", "quoted"):
        assert max(sum(event.kind == kind for event in events) for events in turns) <= SLICE


def test_a_list_by_user_name_or_array_has_the_whole_array(tmp_path: Path) -> None:
    """By such a list `betimes cancel --name` names the jobs."""

    async def ask(backend: ServiceBackend) -> None:
        submitted = list[asyncio.Future[list[Submitted]]]()
        for at, by in enumerate(("user", "name", "array_id")):
            array = of_four_cores(array=f"1-{ELEMENTS}", name="sweep")
            submitted.append(asyncio.ensure_future(backend.submit([array], "ann")))
            while not backend.scheduler.ledger.arrays:
                await asyncio.sleep(0)
            (coming,) = backend.scheduler.ledger.arrays
            which = {"user": "ann", "name": "sweep", "array_id": coming.first}
            assert len((await backend.jobs(JobFilter())).items) < ELEMENTS * (at + 1)
            listed = await backend.jobs(JobFilter(**{by: which[by]}))
            assert {*coming.numbers} <= {job.job_id for job in listed.items}
        await asyncio.gather(*submitted)

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize(("policy", "nodes"), [("wfq", 0), ("easy", 2)])
def test_an_array_is_taken_whole_under_policies_for_pools_and_nodes(policy: str, nodes: int) -> None:
    cluster = Cluster(policy, nodes=nodes) if nodes else Cluster(policy)
    numbers = cluster.submit(spec(array=f"1-{ELEMENTS}"))
    (held,) = cluster.submit(spec(hold=True, array=f"1-{SLICE + 1}"))[:1]
    cluster.go_on(0.0)
    assert {*cluster.ledger.jobs} >= {*numbers, *range(held, held + SLICE + 1)}
    assert {cluster.status(number) for number in range(held, held + SLICE + 1)} == {"held"}
    cluster.go_on()
    assert {cluster.status(number) for number in numbers} == {"finished"}
