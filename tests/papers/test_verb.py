"""`betimes reproduce`, which this package adds by an entry point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from betimes_papers import EXPERIMENTS
from betimes_papers.verb import reproduce

from betimes import plugins
from tests.cli.conftest import Call


def test_betimes_finds_the_verb() -> None:
    entry = plugins.added(plugins.VERBS)["reproduce"]
    assert (plugins.package_of(entry), plugins.load(entry)) == (plugins.PAPERS, reproduce)
    assert plugins.OF_PAPERS[plugins.VERBS] == ("reproduce",)


def test_reproduce_prints_published_next_to_ours(betimes: Call, tmp_path: Path) -> None:
    listed = betimes("reproduce", "--list", "--json").json()
    assert [each["name"] for each in listed] == [*EXPERIMENTS]
    lines = betimes("reproduce", "--list").out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("   ")] == [*EXPERIMENTS]
    out = tmp_path / "out"
    said = betimes("reproduce", "pcs-fig1", "--out", out, "--json").json()
    assert tuple(said) == ("name", "rows")
    assert tuple(said["rows"][0]) == ("case", "metric", "published", "ours", "unit", "note")
    assert json.loads((out / "rows.json").read_text()) == said
    text = betimes("reproduce", "pcs-fig1").out
    assert "Published" in text
    assert "11.25" in text


def test_reproduce_needs_its_data(betimes: Call, tmp_path: Path) -> None:
    said = betimes("reproduce", "pcs-fig7", "--data", tmp_path, "--out", tmp_path / "out")
    assert said.code == 2
    assert "--data DIR" in said.err
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reproduce"], ["--list"]),
        (["reproduce", "pcs-fig0"], ["pcs-fig0", "pcs-fig1"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(betimes: Call, words: list[str], told: list[str]) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert all(word in said.err for word in told)
