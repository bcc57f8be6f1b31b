"""The use of a run over its time: measured by its supervisor, in a file of bounded size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from betimes.service.executors.supervision.curve import MOST, Curve
from betimes.service.executors.supervision.files import CURVE
from tests.service.executors.running import a_launch, python, run_to_end

# A shell's child that computes and holds so many MiB, and one that has ended before the first look.
BUSY = python(
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    began = time.process_time()\n"
    "    while time.process_time() < began + 0.5: pass\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "held = bytearray(os.urandom(100 << 20))\n"
    "time.sleep(4.0)\n"
)


def points(folder: str | Path) -> list[list[float]]:
    return json.loads(Path(folder, CURVE).read_text(encoding="ascii"))["points"]


def test_what_a_run_uses_is_measured_while_it_runs(at: Path) -> None:
    launch = a_launch(at, *BUSY)
    ended = run_to_end(launch)
    assert ended.why == "exited"
    found = points(launch.folder)
    assert 2 <= len(found) <= 3
    assert 1.9 < found[0][0] < 4.0
    assert 0.5 <= found[-1][1] <= (ended.cpu_s or 0.0) + 0.02  # also of the child that has ended
    assert 100 << 20 < found[-1][2] < 200 << 20


def test_a_long_run_is_covered_whole_by_few_points(tmp_path: Path) -> None:
    curve, at_s, looks = Curve(str(tmp_path)), 0.0, 0
    while at_s < 86_400.0:
        at_s += curve.look_s
        looks += 1
        curve.add(at_s, 0.5 * at_s, 7 if looks == 4000 else 3)
    found = points(tmp_path)
    assert MOST / 2 <= len(found) < MOST
    assert found[0][0] <= 600.0
    assert found[-1] == [at_s, 0.5 * at_s, 3]
    assert [most for _, _, most in found].count(7) == 1  # no peak is lost
    assert all(used == pytest.approx(0.5 * at) for at, used, _ in found)
    assert Path(tmp_path, CURVE).stat().st_size < 16_384


def test_the_first_points_are_those_of_each_look(tmp_path: Path) -> None:
    curve = Curve(str(tmp_path))
    for at_s, used_s in ((2.0, 1.0), (4.1, 3.0), (6.2, 2.0)):  # a child took its time with it
        curve.add(at_s, used_s, 5)
    assert points(tmp_path) == [[2.0, 1.0, 5], [4.1, 3.0, 5], [6.2, 3.0, 5]]


def test_a_job_that_puts_a_folder_in_its_place_runs_to_its_end(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", f"mkdir {at}/runs/1/1/{CURVE} && sleep 5")
    assert run_to_end(launch).exit_code == 0
    errors = Path(launch.folder, "shim.err").read_text(encoding="utf-8")
    assert errors.count(f"cannot write {CURVE}: ") == 1  # and not at each look
    assert [*Path(launch.folder).glob("*.part")] == []
