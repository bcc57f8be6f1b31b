"""Jobs that wait for others: they start when these are over, or their reason says why nothing is promised."""

from __future__ import annotations

import pytest

from betimes.service.runtime.slurm_source import number_of, play_of
from betimes.slurm.queue import queue_of
from tests.slurm.recording import row
from tests.slurm.test_queue import cluster, running, seen

ONE = running(id=1, cpus=8, start=9_000, limit="30:00")  # until 10,800 on n1
TWO = running(id=2, cpus=24, nodes=3, hosts="n[2-4]", start=9_000, limit="1:00:00")  # until 12,600


def after(number: object, dependency: str, **fields: object) -> str:
    return row(
        **({"id": number, "reason": "Dependency", "dependency": dependency, "limit": "10:00"} | fields)
    )


def starts(*rows: str) -> dict[int, float]:
    """When jobs start that wait for others, if all take their limits."""
    queue = queue_of(seen(*rows), cluster())
    found = play_of(queue, 0.0, {})()
    numbers = {number_of(job_id) for job_id in queue.dependencies.after}
    return {job: at for job, at in zip(found.job, found.start_s.tolist(), strict=True) if job in numbers}


def refused(*rows: str) -> dict[str, str]:
    return dict(queue_of(seen(*rows), cluster()).unforeseen)


@pytest.mark.parametrize(
    ("dependency", "start_s"),
    [
        ("afterok:1(unfulfilled)", 10_800.0),
        ("afterany:1", 10_800.0),  # as old versions print it
        ("afterany:2(unfulfilled)", 12_600.0),
        ("afterok:1(unfulfilled),afterany:2(unfulfilled)", 12_600.0),
        ("after:1+60(unfulfilled)", 12_600.0),
        ("after:1(unfulfilled)", 10_800.0),  # there is no room before
        ("afterok:9_*(unfulfilled)", 13_200.0),
        ("afterok:9_2(unfulfilled)", 13_200.0),
        ("afterok:9_1(unfulfilled)", 10_800.0),  # over by now
    ],
)
def test_a_job_starts_when_those_are_over_for_which_it_waits(dependency: str, start_s: float) -> None:
    array = [
        running(id="9_1", state="COMPLETED", end=9_900),
        row(id="9_2", cpus=24, nodes=3, limit="10:00", priority=200),
    ]
    assert starts(ONE, TWO, *array, after(3, dependency, cpus=8)) in (
        {3: start_s},
        {} if "9_1" in dependency else None,
    )


def test_elements_wait_for_those_of_their_index() -> None:
    array = [
        running(id="9_1", cpus=8, start=9_000, limit="30:00"),
        running(id="9_2", cpus=8, hosts="n2", start=9_000, limit="1:00:00"),
    ]
    behind = [after(f"10_{index}", "aftercorr:9_*(unfulfilled)") for index in (1, 2)]
    assert starts(*array, *behind) == {number_of("10_1"): 10_800.0, number_of("10_2"): 12_600.0}


def test_chains_are_played_one_after_the_other() -> None:
    chain = [after(number, f"afterany:{number - 1}(unfulfilled)", cpus=8) for number in range(3, 9)]
    chain[0] = after(3, "afterok:1(unfulfilled)", cpus=8)
    found = starts(ONE, TWO, *chain[::-1])
    assert found == {number: 10_800.0 + 600.0 * (number - 3) for number in range(3, 9)}


def test_a_job_that_may_start_waits_for_room_like_others() -> None:
    # 4 has the higher priority, and is there at 10,800 s, when 3 may start.
    rows = [
        ONE,
        TWO,
        row(id=4, cpus=8, limit="20:00", priority=900),
        after(3, "afterok:1(unfulfilled)", cpus=8),
    ]
    assert starts(*rows) == {3: 12_000.0}
    # So does what waits for that in turn.
    assert starts(*rows, after(5, "afterok:3(unfulfilled)", cpus=8)) == {3: 12_000.0, 5: 12_600.0}


@pytest.mark.parametrize(
    ("dependency", "why"),
    [
        ("singleton(unfulfilled)", "it waits for other jobs (singleton(unfulfilled))"),
        ("aftercorr:1_*(unfulfilled)", "it waits for other jobs (aftercorr:1_*(unfulfilled))"),
        ("afternotok:1(unfulfilled)", "it waits for other jobs (afternotok:1(unfulfilled))"),
        ("afterok:1(unfulfilled)?afterok:2(unfulfilled)", "it waits for other jobs (afterok:1(unfulfilled)?"),
        ("(null)", "it waits for other jobs"),
        ("afterok:77(unfulfilled)", "it waits for job 77, which Slurm does not show"),
        ("afterok:5(unfulfilled)", "it waits for job 5, which is promised nothing"),
        ("afterok:6(unfulfilled)", "it waits for job 6, which is promised nothing"),
        ("afterok:3(unfulfilled)", "it waits for jobs that wait for it"),
    ],
)
def test_what_is_not_foreseen(dependency: str, why: str) -> None:
    held = row(id=5, reason="JobHeldUser"), after(6, "afterok:5(unfulfilled)")
    assert refused(ONE, TWO, *held, after(3, dependency))["3"].startswith(why)


def test_a_dependency_that_is_never_met() -> None:
    never = after(3, "afterok:1(failed)", reason="DependencyNeverSatisfied")
    assert refused(ONE, never) == {"3": "a job that it waits for has not ended as it should"}
