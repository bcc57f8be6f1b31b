"""Virtual runs: how long they take, to the last bit as the twin has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.virtual import WORK, VirtualWorld
from betimes.service.scheduling.job import SPECULATED
from tests.service.executors.running import a_launch


@pytest.mark.parametrize("units", [1, 3, 12])
def test_a_run_on_nodes_that_was_preempted_needs_its_run_time_less_what_it_ran(
    units: int, tmp_path: Path
) -> None:
    """On nodes a job's width is fixed, and its account is kept in seconds at that width."""
    work_s, began_s, told_s, again_s = 1941.0, 48.35, 65.05, 84.5
    world = VirtualWorld()
    first = a_launch(tmp_path, "x", units=units, env={WORK: repr(work_s)})
    world.start(first, began_s)
    world.stop(first.run, 0.0, told_s)
    world.advance(told_s)
    again = first.run._replace(number=2)
    world.start(a_launch(tmp_path, "x", run=again, units=units, env={WORK: repr(work_s)}), again_s)
    world.advance(again_s)
    assert world.next_at() == again_s + (work_s / units - (told_s - began_s))


def test_a_run_whose_work_is_lost_leaves_what_the_job_had_done_before(tmp_path: Path) -> None:
    """On a rented machine, speculatively or until it was lost, after a preemption elsewhere."""
    given: dict[str, Any] = {"env": {WORK: "100.0"}}
    world = VirtualWorld()
    first = a_launch(tmp_path, "x", **given)
    second, third, fourth = (first.run._replace(number=number) for number in (2, 3, 4))
    world.start(first, 0.0)
    world.stop(first.run, 0.0, 40.0)
    world.advance(40.0)
    world.start(a_launch(tmp_path, "x", run=second, **given), 50.0)
    world.note_stop(second, SPECULATED)
    world.stop(second, 0.0, 75.0)
    world.advance(75.0)
    world.start(a_launch(tmp_path, "x", run=third, **given), 80.0)
    world.advance(80.0)
    assert world.next_at() == 80.0 + 60.0
    world.forget(third, 90.0, discards=True)
    world.start(a_launch(tmp_path, "x", run=fourth, **given), 100.0)
    world.advance(100.0)
    assert world.next_at() == 100.0 + 60.0


@pytest.mark.parametrize(
    ("given", "takes_s"),
    [
        ({"estimate_s": 600.0}, 600.0),
        ({"estimate_s": 600.0, "units": 2, "max_units": 4}, 1200.0),
        ({"estimate_s": 600.0, "env": {WORK: "30"}}, 30.0),
        ({}, 60.0),
    ],
)
def test_a_run_takes_its_estimate_unless_its_work_is_set(
    given: dict[str, Any], takes_s: float, tmp_path: Path
) -> None:
    """An estimate is of the run on all units that the job asks for."""
    world = VirtualWorld()
    world.start(a_launch(tmp_path, "x", **given), 0.0)
    world.advance(0.0)
    assert world.next_at() == takes_s
