"""From jobs to tasks: worked cases, and that one job alone is split as among others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster.resources import UnitDemand
from betimes.cluster.shapes import Room, undominated
from betimes.cluster.tasks import PACK, SPREAD, JobTasks, job_tasks, split

EIGHT = (8000, 64_000, 65_536)
FOUR = (4000, 32_000, 65_536)
GPU = (1.0, 0.0, 0.0)


def tasks_for(
    unit: tuple[float, float, float], units: int, choice: int, shapes: tuple[tuple[int, int, int], ...]
) -> JobTasks:
    """A job of one demand, on machines of one family."""
    return job_tasks(UnitDemand(unit), units, choice, tuple(Room(amounts, "x") for amounts in shapes))


def test_tasks_have_as_many_units_on_every_family_of_machines() -> None:
    unit = UnitDemand((0.0, 1.0, 0.0), (("cpu", (0.0, 4.0, 0.0)), ("gpu", (1.0, 1.0, 0.0))))
    both = (Room((0, 32_000, 0), "cpu"), Room(FOUR, "gpu"), Room((8000, 8000, 0), "other"))
    tasks = job_tasks(unit, 16, PACK, both)
    assert (tasks.count, tasks.units_each, tasks.together) == (2, 8, 8), (
        "eight units of four cores fit on cpu"
    )
    assert tasks.demand_on("cpu") == (0, 32_000, 0)
    assert tasks.demand_on("gpu") == (8000, 8000, 0)
    assert tasks.demand_on("other") is None
    assert tasks.demand == (0, 8000, 0), "the least of any family"
    assert job_tasks(unit, 16, PACK, both[2:]).together == 0, "it cannot run there"


def test_eight_gpus_on_nodes_of_eight_are_one_task() -> None:
    packed = tasks_for(GPU, 8, PACK, (EIGHT,))
    assert (packed.count, packed.units_each, packed.demand) == (1, 8, (8000, 0, 0))
    spread = tasks_for(GPU, 8, SPREAD, (EIGHT,))
    assert (spread.count, spread.units_each, spread.demand) == (8, 1, (1000, 0, 0))
    pairs = tasks_for(GPU, 8, 2, (EIGHT,))
    assert (pairs.count, pairs.units_each, pairs.demand) == (4, 2, (2000, 0, 0))


def test_the_roomiest_node_says_how_many_units_are_packed() -> None:
    assert tasks_for(GPU, 12, PACK, (FOUR,)).units_each == 4
    tasks = tasks_for(GPU, 12, PACK, (FOUR, EIGHT))
    assert (tasks.count, tasks.units_each, tasks.together) == (2, 6, 8)


def test_what_does_not_fit() -> None:
    made = split(
        np.array([GPU, GPU, (9.0, 0.0, 0.0)]), np.array([16, 16, 4]), np.array([16, 8, PACK]), [FOUR, EIGHT]
    )
    assert made.fits.tolist() == [False, True, False]
    assert made.together.tolist() == [8, 8, 0]
    assert made.count.tolist() == [1, 2, 4]


def test_without_nodes_every_unit_is_a_task() -> None:
    tasks = tasks_for(GPU, 3, PACK, ())
    assert (tasks.count, tasks.units_each, tasks.together) == (3, 1, 0)


def test_shapes_that_another_has_room_for_do_not_count() -> None:
    assert undominated([FOUR, EIGHT, FOUR, (0, 96_000, 0)]) == (EIGHT, (0, 96_000, 0))
    assert undominated([]) == ()


def test_units_of_uneven_tasks() -> None:
    tasks = tasks_for(GPU, 10, PACK, (FOUR,))  # 4 + 3 + 3
    assert (tasks.count, tasks.units_each) == (3, 4)
    assert tasks.units_in([1, 2]) == [4, 6]
    assert tasks.units_in([2, 1]) == [7, 3]
    assert tasks.tasks_in([4, 6]) == [1, 2]
    assert tasks.tasks_in([3, 7]) is None, "the fuller ones come first"
    assert tasks.tasks_in([4, 3]) is None, "three units are missing"


SHAPES = st.lists(
    st.tuples(st.integers(0, 9000), st.integers(0, 9000), st.integers(0, 9000)), min_size=0, max_size=4
)
UNIT = st.tuples(*[st.sampled_from([0.0, 0.125, 1 / 3, 0.5, 1.0, 1.001, 2.0])] * 3).filter(any)


@given(st.data(), UNIT, st.integers(1, 40), st.integers(0, 9), SHAPES)
def test_tasks_hold_all_units_and_places_can_be_read_back(
    data: st.DataObject, unit: tuple[float, float, float], units: int, choice: int, shapes: list
) -> None:
    tasks = tasks_for(unit, units, choice, tuple(shapes))
    assert 1 <= tasks.count <= units
    assert (tasks.count - 1) * tasks.units_each < units <= tasks.count * tasks.units_each
    if choice:
        assert tasks.units_each <= choice
    again = tasks_for(
        unit, units, tasks.units_each, ()
    )  # what a running job holds, whatever the nodes are now
    assert (again.count, again.units_each, again.demand) == (tasks.count, tasks.units_each, tasks.demand)
    places, left = [], tasks.count
    while left:
        places.append(data.draw(st.integers(1, left)))
        left -= places[-1]
    held = tasks.units_in(places)
    assert sum(held) == units
    assert tasks.tasks_in(held) == places


@given(st.lists(st.tuples(UNIT, st.integers(1, 40), st.integers(0, 9)), min_size=1, max_size=6), SHAPES)
def test_a_job_alone_is_split_as_among_others(jobs: list, shapes: list) -> None:
    unit, units, choice = zip(*jobs, strict=True)
    made = split(np.array(unit), np.array(units), np.array(choice), np.array(shapes).reshape(-1, 3))
    for row in range(len(jobs)):
        alone = tasks_for(unit[row], units[row], choice[row], tuple(shapes))
        assert (alone.count, alone.units_each) == (made.count[row], made.units_each[row])
        assert list(alone.demand) == made.demand[row].tolist()
