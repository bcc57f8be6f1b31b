"""Where tasks go, against every way of putting them on up to four nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup
from tests.theory.nodes.watching import Seen, Vector, given_back, plus, taken_as_they_are, watch

Counts = tuple[int, ...]  # tasks on each node


@dataclass(frozen=True)
class Gang:
    """A job that comes at a whole second, and runs so many seconds and a half: only one thing happens at a time."""

    demand: Vector
    tasks: int
    seconds: int


@dataclass(frozen=True)
class Case:
    nodes: tuple[Vector, ...]
    jobs: tuple[Gang, ...]

    @property
    def cluster(self) -> Cluster:
        return Cluster(
            "tiny",
            tuple(
                NodeGroup(f"n{at}", 1, gpu / 1000, cpu / 1000, memory / 1024)
                for at, (gpu, cpu, memory) in enumerate(self.nodes)
            ),
        )

    @property
    def largest(self) -> Vector:
        gpu, cpu, memory = (max(amounts) for amounts in zip(*self.nodes, strict=True))
        return gpu, cpu, memory


# Powers of two and quarters of them: what is a tie in fractions is one in floating point.
SHAPES: tuple[Vector, ...] = ((4000, 8000, 4096), (4000, 4000, 1024), (1000, 8000, 2048), (2000, 2000, 4096))

DEMANDS: tuple[Vector, ...] = tuple(
    (gpu * 500, cpu * 1000, memory * 512)
    for gpu, cpu, memory in product(range(5), repeat=3)
    if gpu + cpu + memory > 0
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = tuple(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4)))
    jobs: list[Gang] = []
    for _ in range(draw(st.integers(1, 14))):
        demand = draw(st.sampled_from(DEMANDS))
        most = sum(1 for _ in placements(demand, 1, nodes))
        if most > 0:
            tasks = draw(st.sampled_from([1, 1, 1, *range(2, most + 2)]))
            job = Gang(demand, tasks, draw(st.sampled_from([1, 3, 6, 30, 100])))
            if any(placements(job.demand, job.tasks, nodes)):
                jobs.append(job)
    return Case(nodes, tuple(jobs))


def placements(demand: Vector, tasks: int, free: Sequence[Vector]) -> Iterator[Counts]:
    """All ways of putting the tasks on the nodes."""
    for counts in product(range(tasks + 1), repeat=len(free)):
        if sum(counts) == tasks and all(
            min(plus(room, demand, -count)) >= 0 for room, count in zip(free, counts, strict=True)
        ):
            yield counts


def best_placement(
    rule: str, demand: Vector, tasks: int, free: Sequence[Vector], largest: Vector
) -> Counts | None:
    """Of all placements the one that the rule prefers; None: there is none."""

    def score(node: int) -> Fraction:
        if rule == "first":
            return Fraction(node)
        left = plus(free[node], demand, -1)
        norm = sum(
            (Fraction(amount, most) ** 2 for amount, most in zip(left, largest, strict=True)), Fraction(0)
        )
        return norm if rule == "best" else -norm

    preferred = sorted(range(len(free)), key=lambda node: (score(node), node))

    def worth(counts: Counts) -> tuple[list[int], list[int]]:
        # Either as many as possible on the preferred node, then on the next; or as evenly as possible before that.
        in_order = [counts[node] for node in preferred]
        return (sorted(counts) if rule == "worst" else []), in_order

    return max(placements(demand, tasks, free), key=worth, default=None)


def walk(rule: str, window: int, case: Case, free: list[Vector], queue: Sequence[int]) -> dict[int, Counts]:
    """Who starts where, in order, until `window` jobs were passed over (0: all are tried)."""
    started: dict[int, Counts] = {}
    passed = 0
    for row in queue:
        job = case.jobs[row]
        counts = best_placement(rule, job.demand, job.tasks, free, case.largest)
        if counts is None:
            passed += 1
            if passed == window:
                break
            continue
        started[row] = counts
        free = [plus(room, job.demand, -count) for room, count in zip(free, counts, strict=True)]
    return started


@pytest.mark.parametrize("window", [0, 1, 2], ids=["skip-over", "strict", "window of 2"])
@pytest.mark.parametrize("rule", ["first", "best", "worst"])
@given(case=cases())
def test_jobs_start_where_the_search_over_all_placements_says(rule: str, window: int, case: Case) -> None:
    demands = [job.demand for job in case.jobs]
    before: list[Seen] = []

    def look(seen: Seen) -> None:
        held = {stay.row: stay for stay in seen.running}
        free, queue = list(case.nodes), list[int]()
        if before:
            gone = [stay for stay in before[0].running if stay.row not in held]
            free = given_back(before[0].free, gone, demands)
            queue = before[0].waiting
        known = set(queue) | ({stay.row for stay in before[0].running} if before else set())
        queue = [*queue, *sorted((held.keys() | set(seen.waiting)) - known)]
        expected = walk(rule, window, case, free, queue)
        assert expected == {
            row: tuple(held[row].on.get(node, 0) for node in range(len(case.nodes)))
            for row in queue
            if row in held
        }
        before[:] = [seen]

    if not case.jobs:
        return
    ended = watch(
        Workload.from_columns(
            submit_s=[float(row) for row in range(len(case.jobs))],
            work_s=[job.seconds + 0.5 for job in case.jobs],
        ),
        f"skip-over:window={window},placement={rule}" if window != 1 else f"fifo:placement={rule}",
        case.cluster,
        look,
        tasks=taken_as_they_are([job.tasks for job in case.jobs], demands),
    )
    assert ended.jobs.finished.all()


def test_the_search_finds_what_is_known() -> None:
    free: list[Vector] = [(4000, 0, 0), (2000, 0, 0), (3000, 0, 0)]
    largest, one = (4000, 1, 1), (1000, 0, 0)
    assert best_placement("best", one, 1, free, largest) == (0, 1, 0)
    assert best_placement("worst", one, 1, free, largest) == (1, 0, 0)
    assert best_placement("first", one, 5, free, largest) == (4, 1, 0)
    assert best_placement("best", one, 4, free, largest) == (0, 2, 2)
    assert best_placement("worst", one, 5, free, largest) == (2, 1, 2)
    assert best_placement("worst", one, 8, free, largest) == (3, 2, 3)
    assert best_placement("first", one, 10, free, largest) is None
