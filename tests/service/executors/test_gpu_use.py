"""The use of a run's GPUs, as its supervisor asks a stand-in for NVIDIA's library for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from betimes.service.executors import supervisors
from betimes.service.executors.supervision.curve import MOST, Curve
from betimes.service.executors.supervision.files import CURVE
from betimes.service.executors.supervision.gpus import Gpus
from tests.service.executors.running import a_launch, run_to_end
from tests.service.machines.nvml_library import COMPILER, Library, built

PATIENCE_S = 60.0
GIB = 1 << 30


@pytest.fixture
def library(tmp_path: Path) -> Library:
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    return built(tmp_path)


def used(gpus: Gpus) -> tuple[float, int, int] | None:
    """The answer, once there is one."""
    until_s = time.monotonic() + PATIENCE_S
    while (found := gpus.use()) is None and time.monotonic() < until_s:
        time.sleep(0.01)
    return found


def test_the_use_of_some_boards_is_their_sum(library: Library) -> None:
    gpus = Gpus(["GPU-1", "GPU-3", "GPU-4"], str(library.path))
    assert used(gpus) == (1.5, 30 * GIB, 240 * GIB)


def test_boards_that_do_not_answer_now_are_asked_again(library: Library) -> None:
    gpus = Gpus(["GPU-1"], str(library.path))
    assert used(gpus) == (0.5, 10 * GIB, 80 * GIB)
    library.fault.write_text("lost")
    assert gpus.use() is None
    library.fault.unlink()
    assert used(gpus) == (0.5, 10 * GIB, 80 * GIB)


def test_a_driver_that_hangs_holds_up_nothing(library: Library) -> None:
    library.fault.write_text("hang")
    gpus, began = Gpus(["GPU-1"], str(library.path)), time.monotonic()
    assert [gpus.use() for _ in range(1000)] == [None] * 1000
    assert time.monotonic() - began < 10.0  # it waited once, and not each time
    library.fault.unlink()
    assert used(gpus) == (0.5, 10 * GIB, 80 * GIB)


@pytest.mark.parametrize("names", [[], ["3"], ["MIG-1"], ["GPU-9"], ["GPU-1", "x"], ["\u00e4"]])
def test_of_what_is_no_board_nothing_is_known(library: Library, names: list[str]) -> None:
    gpus = Gpus(names, str(library.path))
    for _ in range(20):
        assert gpus.use() is None
        time.sleep(0.01)


def test_without_a_driver_nothing_is_known(tmp_path: Path, library: Library) -> None:
    other = tmp_path / "other.so"
    other.write_text("no library")
    for path in (tmp_path / "none.so", other):
        gpus = Gpus(["GPU-1"], str(path))
        for _ in range(20):
            assert gpus.use() is None
            time.sleep(0.01)
        assert gpus.names == ()  # and nobody is asked again


def test_a_run_on_gpus_is_measured_and_one_without_has_no_figure(
    at: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(supervisors._ENVIRON, "LD_LIBRARY_PATH", str(library.path.parent))  # pyright: ignore[reportPrivateUsage]
    launch = a_launch(at, "sleep", "5", gpu=2.0)
    run_to_end(launch, gpus=["GPU-0", "GPU-1"])
    found = json.loads(Path(launch.folder, CURVE).read_text())
    at_s, _, _, busy_s, most = found["points"][-1]
    assert busy_s == pytest.approx(at_s, rel=0.01)  # two boards, each half of the time
    assert (most, found["gpu_memory_bytes"]) == (20 * GIB, 160 * GIB)
    alone = a_launch(at / "alone", "sleep", "5")
    run_to_end(alone, gpus=["GPU-0", "GPU-1"])
    found = json.loads(Path(alone.folder, CURVE).read_text())
    assert ({len(point) for point in found["points"]}, "gpu_memory_bytes" in found) == ({3}, False)


def test_a_long_run_keeps_the_time_that_its_gpus_were_busy_and_their_peak(tmp_path: Path) -> None:
    curve, at_s, busy_s = Curve(str(tmp_path)), 0.0, 0.0
    for look in range(2000):
        took_s = curve.look_s
        at_s += took_s
        busy = 0.25 * (look % 5)
        busy_s += busy * took_s
        curve.add(at_s, at_s, 1, (busy, 9 if look == 701 else 3, 10) if look % 50 else None)
        busy_s -= 0.0 if look % 50 else busy * took_s
    points = json.loads((tmp_path / CURVE).read_text())["points"]
    assert len(points) <= MOST
    assert points[-1][3] == pytest.approx(busy_s, abs=0.01)
    assert [point[4] for point in points if point[3:]].count(9) == 1
