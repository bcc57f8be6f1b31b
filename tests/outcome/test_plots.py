"""Pictures: the same bytes for the same result, and errors where there is nothing to draw."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from betimes.errors import InputError
from betimes.outcome import (
    JobState,
    ResourceUse,
    Result,
    SegmentColumns,
    plot_allocations,
    plot_cdf,
    plot_timeline,
    plots,
)
from betimes.outcome.figure import drawing
from betimes.outcome.plots import METRICS, plot_jobs
from betimes.outcome.summary import JOB_METRICS
from tests.outcome.cases import columns, four_jobs, on_nodes, random_results, result

Draw = Callable[[Path], None]
PICTURES: dict[str, Draw] = {
    "cdf": lambda path: plot_cdf([four_jobs(p) for p in ("fifo", "srsf", "themis")], "jct_s", path),
    "timeline": lambda path: plot_timeline(four_jobs("themis"), path),
    "allocations": lambda path: plot_allocations(four_jobs("themis"), path),
    "timeline on nodes": lambda path: plot_timeline(on_nodes(), path),
}


@pytest.mark.parametrize("suffix", [".svg", ".png"])
@pytest.mark.parametrize("name", PICTURES)
def test_equal_results_give_equal_pictures(tmp_path: Path, name: str, suffix: str) -> None:
    for folder in ("a", "b"):
        PICTURES[name](tmp_path / folder / f"picture{suffix}")
    a, b = ((tmp_path / folder / f"picture{suffix}").read_bytes() for folder in ("a", "b"))
    assert a == b
    assert a.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert not re.search(rb"<dc:date>|tIME", a)
    assert len(list(tmp_path.rglob("*"))) == 4  # two folders, two files, nothing half-made


def test_another_process_and_its_settings_change_nothing(tmp_path: Path) -> None:
    PICTURES["cdf"](tmp_path / "here.svg")
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.grid: False\nsvg.hashsalt: other\n")
    code = (
        "import pathlib, sys; from tests.outcome.test_plots import PICTURES; "
        "PICTURES['cdf'](pathlib.Path(sys.argv[1]))"
    )
    there = tmp_path / "there.svg"
    environment = {"MATPLOTLIBRC": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(there)], check=True, cwd=root, env=environment)
    assert there.read_bytes() == (tmp_path / "here.svg").read_bytes()


def test_every_measure_has_an_axis() -> None:
    assert METRICS.keys() == JOB_METRICS.keys()


@pytest.mark.parametrize("metric", METRICS)
def test_every_measure_can_be_drawn(tmp_path: Path, metric: str) -> None:
    plot_cdf([four_jobs("fifo"), four_jobs("srsf")], metric, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "finish_s", [[1.0] * 3, [1.0, 1.0, 1e7], [1e-3, 2.0, 300.0], [0.0, 0.5, 40.0], [0.0, 0.0, 0.0]]
)
@pytest.mark.parametrize("metric", ["jct_s", "slowdown", "prediction_error_frac"])
def test_any_spread_of_values_can_be_drawn(tmp_path: Path, finish_s: list[float], metric: str) -> None:
    jobs = columns(3, finish_s=finish_s, predicted_finish_s=np.ones(3))
    plot_cdf([result(jobs)], metric, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 8_000


def test_a_large_result_gives_a_small_file(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    n = 50_000
    submit_s = np.cumsum(random.exponential(10.0, n))
    finish_s = submit_s + random.lognormal(5.0, 2.0, n)
    jobs = columns(n, submit_s=submit_s, start_s=submit_s, finish_s=finish_s)
    segments = SegmentColumns(np.arange(n), submit_s, finish_s, np.ones(n))
    case = result(jobs, segments=segments, units=500)
    plot_cdf([case], "jct_s", tmp_path / "cdf.svg")
    plot_timeline(case, tmp_path / "timeline.svg")
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 500_000


@settings(max_examples=5)
@given(case=random_results())
def test_any_small_run_can_be_drawn(case: Result, tmp_path_factory: pytest.TempPathFactory) -> None:
    if case.segments is None or not len(case.segments):
        return
    folder = tmp_path_factory.mktemp("picture")
    plot_allocations(case, folder / "allocations.png")
    plot_timeline(case, folder / "timeline.png")
    assert len(list(folder.iterdir())) == 2


def test_a_picture_is_svg_or_png(tmp_path: Path) -> None:
    for name in ("one.pdf", "one"):
        with pytest.raises(InputError, match=r"written as \.svg or \.png"):
            PICTURES["cdf"](tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unwritable_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot write the picture"):
        PICTURES["cdf"](tmp_path / "file" / "one.svg")


def test_a_failed_drawing_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), drawing(tmp_path / "one.svg", 1, 1):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "one.svg"
    with pytest.raises(InputError, match="expected one of jct_s"):
        plot_cdf([four_jobs("fifo")], "speed", path)
    with pytest.raises(InputError, match="srsf: no job has a value of prediction_error_frac"):
        plot_cdf([four_jobs("fifo"), result(columns(2), policy="srsf")], "prediction_error_frac", path)
    with pytest.raises(InputError, match="simulate with a timeline"):
        plot_timeline(result(columns(2)), path)
    many = np.arange(61)
    wide = result(columns(61), segments=SegmentColumns(many, many, many + 1.0, np.ones(61)))
    with pytest.raises(InputError, match="61 jobs are too many"):
        plot_allocations(wide, path)
    assert not path.exists()


def test_jobs_that_never_run_wait_to_the_end(tmp_path: Path) -> None:
    nan = float("nan")
    jobs = columns(
        3,
        submit_s=[0.0, 1.0, 9.0],
        start_s=[0.0, nan, nan],
        finish_s=[5.0, nan, nan],
        state=[JobState.FINISHED, JobState.REFUSED, JobState.UNFINISHED],
    )
    case = result(jobs, segments=SegmentColumns(np.zeros(1), np.zeros(1), np.full(1, 5.0), np.ones(1)))
    plot_allocations(case, tmp_path / "allocations.svg")
    plot_timeline(case, tmp_path / "timeline.svg")
    assert len(list(tmp_path.iterdir())) == 2


def test_units_are_only_held_against_the_machine_where_they_are_its_own(tmp_path: Path) -> None:
    def words(case: Result) -> str:
        plot_timeline(case, tmp_path / "timeline.svg")
        return (tmp_path / "timeline.svg").read_text(encoding="utf-8")

    held_s = float(on_nodes().jobs.units_s.sum())
    texts = [words(on_nodes()), words(on_nodes(resources=(ResourceUse("cpu", 8.0, held_s),)))]
    assert ["<!-- Units of running jobs -->" in text for text in texts] == [True, False]
    assert ["<!-- Units in use (of 8) -->" in text for text in texts] == [False, True]
    assert ["5 jobs, 8 GPUs -->" in text for text in texts] == [True, False]


def test_a_killed_job_leaves_when_it_is_killed(tmp_path: Path) -> None:
    from betimes.outcome import plots

    drawn: list[np.ndarray] = []
    real = plots.jobs_waiting

    def waiting(
        submit_s: np.ndarray, leave_s: np.ndarray, *held: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        drawn.append(leave_s)
        return real(submit_s, leave_s, *held)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "jobs_waiting", waiting)
        plot_timeline(on_nodes(), tmp_path / "timeline.svg")
    assert drawn[0].tolist() == [76.0, 18.0, 28.0, 80.0]
    plot_allocations(on_nodes(), tmp_path / "allocations.svg")


def test_jobs_of_more_than_a_week_are_those_of_its_busiest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of a minute a day over 30 days; on days 12 and 13 twenty more, of six hours as all that begin there."""
    day = 86_400.0
    submit_s = np.sort([*(day * n for n in range(31)), *(day * (12 + n % 2) + n for n in range(20))])
    run_s = np.where((submit_s >= 12 * day) & (submit_s < 14 * day), day / 4, 60.0)
    finish_s, n = submit_s + run_s, len(submit_s)
    jobs = columns(n, submit_s=submit_s, start_s=submit_s, finish_s=finish_s)
    found = result(jobs, segments=SegmentColumns(np.arange(n), submit_s, finish_s, np.ones(n)))
    drawn = list[tuple[float, ...]]()
    monkeypatch.setattr(plots, "_image", lambda *given: drawn.append((len(given[1]), *given[2])))
    plot_jobs(found, tmp_path / "jobs.svg")
    rows, from_s, to_s = drawn[0]
    assert to_s - from_s == 7 * day
    assert from_s <= 12 * day <= 14 * day <= to_s
    assert rows == 8 + 20  # one a day, those of both ends among them
