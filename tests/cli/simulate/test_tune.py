"""`betimes tune`: the table, the JSON, the files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from betimes.foresight.tuning import Front
from tests.cli.conftest import Call

WORDS = ("tune", "demo:jobs=120", "--units", "16", "--evaluations", "40", "--seed", "1")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("betimes.foresight.tuning.evaluation.cache_root", lambda: tmp_path / "cache")


def test_the_table_and_the_files(betimes: Call, tmp_path: Path) -> None:
    said = betimes(*WORDS, "--out", tmp_path / "front")
    assert said.code == 0, said.err
    for words in ("PCS-pred", "PCS-balanced", "PCS-JCT", "max-min", "JCT mean", "Prediction error mean (%)"):
        assert words in said.out
    assert {file.name for file in (tmp_path / "front").iterdir()} == {
        "front.json",
        "front.html",
        "front.svg",
        "front.png",
    }
    front = Front.read(tmp_path / "front")
    assert f"PCS-pred = {front.named('PCS-pred').policy}" in said.out
    assert front.train.jobs == 60


def test_json_is_the_front(betimes: Call, tmp_path: Path) -> None:
    printed = betimes(*WORDS, "--json", "--out", tmp_path, "--baselines", "fifo", "--jobs", "50").json()
    written = json.loads((tmp_path / "front.json").read_text())
    assert printed == written
    assert [each["policy"] for each in printed["baselines"]] == ["fifo"]
    assert printed["train"]["jobs"] == printed["test"]["jobs"] == 50


def test_objectives_load_and_options_reach_the_search(betimes: Call) -> None:
    words = ("--objective", "slowdown:p95", "--objective", "unfairness:avg", "--load", "0.5", "--fractional")
    more = ("--solver", "random", "--baselines", "none", "--no-cache", "--restart-s", "2", "--json")
    front = betimes(*WORDS, *words, *more).json()
    assert front["objectives"] == ["slowdown:p95", "unfairness:avg"]
    assert (front["solver"], front["fractional"], front["restart_s"]) == ("random", True, 2.0)
    assert front["baselines"] == []
    double = betimes(*WORDS, *words, "--load", "1", *more).json()
    assert double["train"]["load_frac"] == pytest.approx(2 * front["train"]["load_frac"])


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["sample:tiny", "--objective", "joy:avg"], ["metric 'joy'", "jct, pred_err"]),
        (["sample:tiny", "--objective", "jct:p1"], ["measure 'p1'", "avg, p50"]),
        (["demo:jobs=1"], ["needs at least two jobs"]),
        (["alike.csv", "--units", "4"], ["same size (5 s"]),
        (["sample:tiny", "--budget", "0.000001"], ["too short for one evaluation"]),
        (["sample:tiny", "--budget", "soon"], ["--budget", "duration"]),
        (["sample:tiny", "--solver", "oracle"], ["--solver oracle", "spea2, nsga2, random"]),
        (["sample:tiny", "--baselines", "fifi"], ["unknown policy 'fifi'", "fifo"]),
        (["sample:tiny", "--jobs", "1"], ["--jobs"]),
        (["nowhere.csv"], ["nowhere.csv", "no such file"]),
    ],
)
def test_bad_input(
    words: list[str], parts: list[str], betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{job},{job},5,1,1\n" for job in range(8))
    Path("alike.csv").write_text("job_id,submit_s,work_s,min_units,max_units\n" + rows)
    said = betimes("tune", *words, "--no-cache", "--out", "front")
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("betimes: ")
    assert said.err.count("\n") == 1
    assert all(part in said.err for part in parts), said.err
    assert not Path("front").exists()


def test_a_search_goes_on_where_it_ended(betimes: Call) -> None:
    first = betimes(*WORDS, "--json").json()
    again = betimes(*WORDS, "--json").json()
    assert first["simulations"] > 0
    assert again["simulations"] == 0
    assert first["points"] == again["points"]


def test_what_ended_it_early_is_noted(betimes: Call) -> None:
    said = betimes(*WORDS, "--evaluations", "1000000", "--budget", "1", "--baselines", "none")
    assert said.code == 0, said.err
    assert "the time was up after" in said.err
