"""`betimes demo`: a replay to its end, and what cannot be. Its real jobs are run with the tutorial (tests/docs)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call, program


def test_what_is_for_a_replay_needs_one(betimes: Call) -> None:
    said = betimes("demo", "--units", "4")
    assert said.code == 2
    assert said.err == "betimes: --units, --jobs and --promises are for a replay; give --trace FILE as well\n"


@pytest.mark.slow
def test_a_replay_runs_to_its_end_and_leaves_nothing(tmp_path: Path) -> None:
    said = program("demo", "--trace", "sample:tiny", "--speed", "max", "--json", TMPDIR=str(tmp_path))
    assert said.code == 0, said.err
    figures = json.loads(said.out)
    assert figures["finished"] == figures["jobs"] > 0
    assert figures["jct_mean_s"] >= figures["wait_mean_s"] >= 0
    assert figures["promises"] == figures["jobs"]
    assert figures["pred_err_p99_frac"] >= figures["pred_err_p90_frac"] >= 0
    assert figures["pred_err_mean_frac"] >= abs(figures["pred_bias_mean_frac"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_replay_may_promise_to_some_jobs_alone(tmp_path: Path) -> None:
    words = ("demo", "--trace", "sample:tiny", "--speed", "max", "--promises", "4", "--json")
    said = program(*words, TMPDIR=str(tmp_path))
    assert json.loads(said.out)["promises"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--trace", "nothing.swf"], 2, "nothing.swf: there is no such file"),
        (["--policy", "fofi"], 2, "unknown policy 'fofi'"),
    ],
)
def test_a_service_that_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    said = program("demo", *words, TMPDIR=str(tmp_path))
    assert said.code == code
    assert text in said.err
    assert list(tmp_path.iterdir()) == []
