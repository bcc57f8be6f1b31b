"""Bad input: exit code 2, one line on standard error that says what and where, nothing on standard output."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from betimes.workload import samples
from tests.cli.conftest import Call

HEAD = "job_id,submit_s,work_s,min_units,max_units\n"
FILES = {
    "nothing.csv": b"",
    "jobless.csv": HEAD.encode(),
    "negative.csv": f"{HEAD}1,0,5,1,1\n2,-3,5,1,1\n".encode(),
    "nan.csv": f"{HEAD}1,0,nan,1,1\n".encode(),
    "no-demand.csv": f"{HEAD}1,0,5,0,0\n".encode(),
    "wide.csv": f"{HEAD}7,0,5,9,9\n8,0,5,1,1\n".encode(),
    "prose.txt": b"It was a dark and stormy night.\n",
    "short.csv.gz": gzip.compress(f"{HEAD}1,0,5,1,1\n".encode() * 50)[:-12],
    "damaged.csv.gz": gzip.compress(b"x" * 4000)[:10] + b"\xff" * 40,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a-folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_here() -> list[Path]:
    """Files and folders of the working directory, without those that other tests write meanwhile (.hypothesis)."""
    tops = [each for each in Path.cwd().iterdir() if not each.name.startswith(".")]
    found = (each for top in tops for each in (top, *top.rglob("*")))
    return sorted(each for each in found if "__pycache__" not in each.parts)


def refused(betimes: Call, *words: str) -> str:
    """Make a call that must be refused; returns its one line."""
    before = files_here()
    said = betimes(*words)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("betimes: ")
    assert said.err.count("\n") == 1
    assert files_here() == before, "something was left behind"
    return said.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("nothing.csv", ["nothing.csv", "empty"]),
        ("jobless.csv", ["jobless.csv", "no job"]),
        ("negative.csv", ["negative.csv", "line 3", "submit_s", "-3"]),
        ("nan.csv", ["nan.csv", "line 2", "work_s", "nan"]),
        ("no-demand.csv", ["no-demand.csv", "line 2", "units", "1 or more"]),
        ("wide.csv", ["job 7", "needs 9 units", "the pool has 8", "--on-wide"]),
        ("prose.txt", ["prose.txt", "not recognised", "--format"]),
        ("short.csv.gz", ["short.csv.gz", "truncated"]),
        ("damaged.csv.gz", ["damaged.csv.gz", "gzip"]),
        ("a-folder", ["a-folder", "directory"]),
        ("wyde.csv", ["no such file", "did you mean 'wide.csv'"]),
        ("nowhere/wide.csv", ["no such file", "folder nowhere"]),
        ("dmo:jobs=9", ["no such generator", "did you mean 'demo:jobs=9'"]),
        ("demo:jobbs=9", ["jobbs", "did you mean 'jobs'"]),
        ("sample:teeny", ["teeny", "tiny"]),
        ("zzz", ["no such file", "demo", "sample:tiny"]),
        ("", ["FILE is empty"]),
    ],
)
def test_file(betimes: Call, file: str, parts: list[str]) -> None:
    line = refused(betimes, "simulate", file, "--policy", "pool:fifo", "--units", "8")
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--policy", "fifoo"], ["fifoo", "did you mean 'fifo'"]),
        (["--policy", "wfq:zetamin=0.5"], ["zetamin", "did you mean 'zeta_min'"]),
        (["--policy", "wfq:zeta_min=2"], ["zeta_min", "2", "between 0 and 1"]),
        (["--policy", "wfq:thresholds=1+2,weights=1/2+1/2"], ["weights", "3 classes"]),
        (["--policy", "fifo,srsf"], ["2 policies", "compare"]),
        (["--policy", "./mine.py:best"], ["mine.py", "no such file"]),
        (["--policy", "fifo", "--sizes", "guess"], ["--sizes guess", "last-two"]),
        (["--policy", "fifo", "--sizes", "noise:2"], ["noise:2"]),
        (["--policy", "fifo", "--predict", "--interval", "1"], ["--interval 1", "below 1"]),
        (["--policy", "fifo", "--predict", "--interval", "0"], ["--interval 0", "above 0"]),
        (["--policy", "fifo", "--predict", "--interval", "0.8", "--as-trials"], ["--interval 0.8", "trials"]),
        (["--policy", "fifo", "--measure", "90%..10%"], ["90%..10%"]),
        (["--policy", "fifo", "--status", "completed"], ["does not say which jobs completed"]),
        (["--policy", "fifo", "--load", "0"], ["--load 0"]),
        (["--policy", "fifo", "--load", "nan"], ["--load nan"]),
        (["--policy", "fifo", "--restart-s", "-1"], ["--restart-s -1"]),
        (["--policy", "fifo", "--resize-interval", "-1"], ["--resize-interval -1", "seconds"]),
        (["--policy", "fifo", "--resize-gain", "--fractional"], ["--fractional", "whole units"]),
        (["--policy", "fifo", "--curves", "prose.txt"], ["prose.txt", "row"]),
        (["--policy", "fifo", "--out", "prose.txt"], ["--out prose.txt", "is a file"]),
        (["--policy", "fifo", "--out", "prose.txt/deep/er"], ["prose.txt is a file"]),
        (["--policy", "fifo", "--plots", "prose.txt"], ["--plots prose.txt", "is a file"]),
        (["--policy", "fifo", "--out", "."], ["holds files that are no result"]),
        (["--policy", "fifo", "--format", "swf"], ["tiny.csv, line 1", "18 fields"]),
        (["--policy", "fifo", "--units", "0"], ["--units", "'0' is too small; give 1 or more"]),
        (
            ["--policy", "fifo", "--units", "many"],
            ["--units", "expected a whole number, found 'many'; `betimes"],
        ),
        (["--policy", "fifo", "--status", "done"], ["'done'", "'completed'", "simulate --help"]),
        (["--policy", "fifo", "--polices", "x"], ["--polices", "--policy"]),
        (["--policy"], ["--policy"]),
        ([], ["Missing option '--policy'"]),
    ],
)
def test_options(betimes: Call, words: list[str], parts: list[str]) -> None:
    line = refused(betimes, "simulate", "sample:tiny", *words)
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["simulat"], ["simulat", "simulate"]),
        (["--jsn"], ["--jsn"]),
        (["compare", "sample:tiny", "--policies", "fifo,srsf,fifo"], ["fifo is named 2 times"]),
        (["compare", "sample:tiny", "--policies", ","], ["no policy"]),
        (["policies", "las2"], ["las2", "did you mean 'las'"]),
        (["trace", "info", "wyde.csv"], ["did you mean 'wide.csv'"]),
        (["trace", "convert", "wide.csv", "wide.xls"], ["wide.xls", ".parquet"]),
        (["trace", "convert", "wide.csv", "nowhere/wide.parquet"], ["nowhere/wide.parquet", "written"]),
        (["trace", "generate", "dmo", "out.csv"], ["did you mean 'demo'"]),
        (["trace", "generate", "demo:jobs=0", "out.csv"], ["jobs", "from 1"]),
    ],
)
def test_verbs(betimes: Call, words: list[str], parts: list[str]) -> None:
    line = refused(betimes, *words)
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.usefixtures("folder")
def test_a_traced_machine_must_be_known_or_named(betimes: Call) -> None:
    assert "--units N" in refused(betimes, "simulate", "wide.csv", "--policy", "fifo")


@pytest.mark.parametrize(("choice", "refused_jobs", "word"), [("drop", 1, "refused"), ("clip", 0, "clipped")])
def test_wide_jobs_can_be_clipped_or_dropped_with_a_note(
    betimes: Call, folder: Path, choice: str, refused_jobs: int, word: str
) -> None:
    words = ("--policy", "pool:fifo", "--units", "8", "--on-wide", choice, "--json")
    said = betimes("simulate", folder / "wide.csv", *words)
    assert said.json()["refused"] == refused_jobs
    assert said.err.startswith("betimes: note: 1 ")
    assert word in said.err


def test_bad_rows_can_be_skipped_with_a_note(betimes: Call, folder: Path) -> None:
    words = ("--policy", "fifo", "--units", "8", "--on-bad-rows", "skip", "--json")
    said = betimes("simulate", folder / "negative.csv", *words)
    assert said.json()["jobs"] == 1
    assert "rows left out" in said.err


def test_a_file_wins_over_a_generator_of_its_name(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_bytes(samples.path("tiny").read_bytes())
    assert betimes("trace", "info", "demo", "--json").json()["jobs"] == 40
    (tmp_path / "demo").unlink()
    assert betimes("trace", "info", "demo", "--json").json()["jobs"] == 2000


def test_a_trace_is_not_converted_onto_itself(folder: Path, betimes: Call) -> None:
    trace = folder / "own.csv"
    trace.write_text("submit_s,run_s,max_units\n0,5,1\n", encoding="utf-8")
    said = betimes("trace", "convert", trace, trace)
    assert said.code == 2
    assert "the trace itself" in said.err
    assert trace.read_text(encoding="utf-8").startswith("submit_s,run_s")
