"""`--out` and `--plots`: what is written, that it is whole, and that equal runs write equal bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from betimes.cli import folders
from betimes.errors import InputError
from betimes.outcome import load
from tests.cli.conftest import Call, program


def summary_without_timing(path: Path) -> dict[str, Any]:
    summary = json.loads(path.read_text())
    del summary["timing"]
    return summary


def contents(folder: Path) -> dict[str, Any]:
    """Every file of results below, by its path: bytes, or a summary but for its timing; without the comparison."""
    return {
        str(path.relative_to(folder)): (
            summary_without_timing(path) if path.name == folders.SUMMARY else path.read_bytes()
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != folders.COMPARISON
    }


def test_simulate_writes_a_result_that_can_be_loaded(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "er"
    printed = betimes(
        "simulate", "sample:tiny", "--policy", "srsf", "--predict", "--out", out, "--json"
    ).json()
    assert sorted(path.name for path in out.iterdir()) == ["jobs.parquet", "summary.json", "timeline.parquet"]
    written = json.loads((out / "summary.json").read_text())
    assert printed.pop("engine") == "pool"
    assert {key: written[key] for key in printed} == printed
    result = load(out)
    assert len(result.jobs) == 40
    assert result.segments is not None
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def test_a_later_result_replaces_the_earlier(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for policy in ("srsf", "fifo"):
        assert betimes("simulate", "sample:tiny", "--policy", policy, "--out", out).code == 0
    assert load(out).policy == "fifo"
    for policies in ("srsf,fifo", "srsf,las"):
        said = betimes("compare", "sample:tiny", "--policies", policies, "--out", tmp_path / "several")
        assert said.code == 0, said.err
    comparison = json.loads((tmp_path / "several" / "comparison.json").read_text())
    assert comparison["folders"] == ["srsf", "las"]


@pytest.mark.slow
@pytest.mark.parametrize("seeded", [False, True])
def test_equal_runs_write_equal_bytes_on_one_process_or_several(tmp_path: Path, seeded: bool) -> None:
    seeds = ["--seeds", "2"] if seeded else ["--predict-sample", "50", "--sizes", "noise:0.3"]
    made: list[dict[str, Any]] = []
    printed: list[Any] = []
    for number in (1, 2):
        out = tmp_path / f"out-{number}"
        words = ("compare", "demo:jobs=120", "--policies", "srsf,wfq", "--units", "16", "--seed", "3", *seeds)
        said = program(*words, "--processes", str(number), "--out", out, "--json")
        assert said.err == ""
        printed.append([{**row, "timing": None} for row in said.json()])
        made.append(contents(out))
    assert all(each == printed[0] for each in printed)
    assert all(each == made[0] for each in made)
    assert len(made[0]) == (12 if seeded else 6)


def test_simulate_and_compare_write_the_same(betimes: Call, tmp_path: Path) -> None:
    assert betimes("simulate", "sample:tiny", "--policy", "srsf", "--out", tmp_path / "one").code == 0
    words = ("compare", "sample:tiny", "--policies", "fifo,srsf", "--out", tmp_path / "two")
    assert betimes(*words).code == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two" / "srsf")


def test_policies_of_one_name_get_folders_of_their_own(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = betimes("compare", "sample:tiny", "--policies", "wfq:T=2,wfq:T=9,fifo", "--out", out)
    assert said.code == 0
    assert sorted(path.name for path in out.iterdir()) == ["comparison.json", "fifo", "wfq-1", "wfq-2"]


def test_pictures(betimes: Call, tmp_path: Path) -> None:
    plots = tmp_path / "plots"
    words = ("compare", "sample:tiny", "--policies", "fifo,srsf", "--predict", "--plots", plots)
    assert betimes(*words).code == 0
    names = sorted(path.name for path in plots.iterdir())
    assert names == [
        *("allocations-fifo.svg", "allocations-srsf.svg", "jct-cdf.svg", "prediction-error-cdf.svg"),
        *("slowdown-cdf.svg", "timeline-fifo.svg", "timeline-srsf.svg", "unfairness-cdf.svg"),
    ]
    assert all(ET.parse(plots / name).getroot().tag.endswith("svg") for name in names)


@pytest.mark.usefixtures("undrawn")
def test_results_and_pictures_fit_into_one_directory(betimes: Call, tmp_path: Path) -> None:
    both = tmp_path / "both"
    words = ("simulate", "sample:tiny", "--policy", "fifo", "--out", both, "--plots", both)
    assert betimes(*words).code == 0
    names = {path.name for path in both.iterdir()}
    assert {"summary.json", "jobs.parquet", "jct-cdf.svg", "timeline-fifo.svg"} <= names


@pytest.mark.slow
def test_nothing_is_left_when_a_run_fails_half_way(betimes: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from betimes.policies import priority\n"
        "@priority(summary='not a rank')\n"
        "def bad(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = float('nan')\n"
    )
    for processes in ("1", "2"):
        policies = f"fifo,{tmp_path / 'bad.py'}:bad"
        words = ("compare", "sample:tiny", "--policies", policies, "--processes", processes)
        said = betimes(*words, "--out", tmp_path / "out", "--plots", tmp_path / "plots")
        assert said.code == 1
        assert "not a number" in said.err
        assert said.err.count("\n") == 1
        assert {path.name for path in tmp_path.iterdir()} <= {"bad.py", "__pycache__"}


def test_a_full_disk_or_a_forbidden_folder_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def fill() -> None:
        with folders.staged(str(tmp_path / "out")) as stage:
            (stage / "file").write_text("x")
            monkeypatch.setattr(Path, "rename", full)

    with pytest.raises(InputError, match=r"out: cannot be written \(No space left on device\)"):
        fill()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(InputError, match="no permission to write"):
        folders.check("--out", str(tmp_path / "out"))


def test_a_result_leaves_nothing_of_an_earlier_one(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "notes.txt").parent.mkdir()
    betimes("simulate", "sample:rigid", "--policy", "fitgpp", "--trial", "random:0.3", "--out", out)
    (out / "notes.txt").write_text("mine")
    assert (out / "absences.parquet").is_file()
    betimes("simulate", "sample:rigid", "--policy", "fifo", "--engine", "nodes", "--out", out)
    assert not (out / "absences.parquet").exists()
    assert (out / "notes.txt").read_text() == "mine"
    assert load(out).absences is None
