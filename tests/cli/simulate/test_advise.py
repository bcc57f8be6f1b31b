"""`betimes advise` on a trace: the table, the few to have, the JSON, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call

RIGID = ("advise", "sample:rigid", "--last", "30d")


@pytest.fixture(autouse=True)
def few_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to be counted: each is a play-out of its own, under two dozen policies."""
    monkeypatch.setattr("betimes.foresight.advice.advising.PROMISES", 20)


def test_the_table_the_few_and_what_to_type(betimes: Call) -> None:
    said = betimes(*RIGID)
    assert said.code == 0, said.err
    assert "easy (in force)" in said.out
    for words in ("sjf:backfill=easy", "conservative", "Slowdown", "worst off", "Promises kept", "Left out:"):
        assert words in said.out
    assert "srsf" in said.out.partition("Left out:")[2]
    assert "portfolio = portfolio:members=" in said.out


def test_json_has_the_figures_and_the_commands(betimes: Call) -> None:
    found = betimes(*RIGID, "--policy", "nodes:fifo", "--json").json()
    first, *others = found["rows"]
    assert (first["policy"], first["in_force"], first["against"]) == ("nodes:fifo", True, {})
    assert {"easy", "sjf:backfill=easy"} <= {row["policy"] for row in others}
    assert found["jobs"] == 300
    assert found["worth"]
    for each in found["worth"]:
        assert each["better"]
        assert found["commands"][each["policy"]].startswith("betimes up --policy ")


def test_jobs_that_change_their_widths(betimes: Call) -> None:
    found = betimes("advise", "sample:elastic", "--last", "30d", "--budget", "5m", "--json").json()
    assert found["in_force"] == "pool:fifo"
    assert {"srsf", "max-min", "afs", "nodes:fifo", "easy"} <= {row["policy"] for row in found["rows"]}


def test_machines_on_offer_bring_cost_and_their_file_into_the_command(betimes: Call, tmp_path: Path) -> None:
    cluster = tmp_path / "lab.toml"
    cluster.write_text(
        '[[nodes]]\ntype = "node"\ncount = 1\ngpu = 0\ncpu = 24\nmemory_gib = 96\n'
        '[[offers]]\ntype = "big"\ngpu = 0\ncpu = 16\nmemory_gib = 64\nusd_per_h = 0.5\n'
    )
    found = betimes(
        "advise", "sample:rigid", "--last", "2h", "--cluster", cluster, "--budget", "5m", "--json"
    ).json()
    rented = next(row for row in found["rows"] if row["policy"] == "njw")
    assert rented["figures"]["cost_usd"] > 0.0
    assert found["rows"][0]["figures"]["cost_usd"] is not None
    assert all(f"--cluster {cluster}" in typed for typed in found["commands"].values())


def test_too_few_jobs_are_said_to_be_so(betimes: Call) -> None:
    said = betimes("advise", "sample:tiny", "--last", "30d")
    assert said.code == 0
    assert "40 jobs" in said.out
    assert "Wait" not in said.out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["advise", "sample:rigid", "--policy", "fastest"], ["unknown policy 'fastest'"]),
        (["advise", "sample:rigid", "--policy", "njw"], ["njw"]),
        (["advise", "sample:rigid", "--last", "soon"], ["--last", "soon"]),
        (["advise", "no-such-file"], ["no-such-file", "no such file"]),
    ],
)
def test_wrong_input_is_one_line(betimes: Call, words: list[str], parts: list[str]) -> None:
    said = betimes(*words)
    assert said.code == 2
    for part in parts:
        assert part in said.err
