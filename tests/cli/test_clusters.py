"""Clusters from the command line: catalogues by name, and one file for nodes and offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.test_bad_input import refused

OFFER = '[[offers]]\ntype = "rented"\ncpu = 2\nmemory_gib = 4\nusd_per_h = 1\n'
NODES = '[[nodes]]\ntype = "own"\ncpu = 8\nmemory_gib = 64\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "both.toml").write_text(NODES + OFFER)
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "offers.toml").write_text(OFFER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["simulate", "sample:rigid", "--cluster", "m5", "--policy", "fifo"],
            "cluster m5: it has offers to rent and no",
        ),
        (
            ["simulate", "sample:rigid", "--cluster", "m5", "--engine", "pool", "--policy", "fifo"],
            "cluster m5: it has offers to rent and no owned nodes",
        ),
        (
            ["compare", "sample:rigid", "--cluster", "offers.toml", "--policies", "fifo"],
            "cluster offers: it has offers",
        ),
        (
            ["trace", "generate", "fitgpp", "--cluster", "m5", "out.parquet"],
            "cluster m5: it has offers to rent and no",
        ),
        (
            ["simulate", "sample:rigid", "--cluster", "m6", "--policy", "fifo"],
            "no catalogue 'm6'; catalogues are",
        ),
        (["up", "--nodes", "offers.toml"], "cluster offers: it has offers to rent and no owned nodes"),
        (["up", "--cloud", "nodes.toml"], "nodes.toml, field offers: there is nothing to rent"),
        (["up", "--cluster", "both.toml", "--cloud", "m5"], "--cluster: --cloud is given too"),
        (
            ["up", "--cluster", "both.toml", "--nodes", "nodes.toml"],
            "--cluster: --nodes is given too",
        ),
        (["up", "--cluster", "ec2-2022"], "no catalogue 'ec2-2022' (did you mean 'ec2-2023'"),
    ],
)
def test_what_is_refused(betimes: Call, arguments: list[str], message: str) -> None:
    assert message in refused(betimes, *arguments)


def test_offers_beside_nodes_change_no_schedule(betimes: Call, folder: Path) -> None:
    said = [
        betimes(
            "simulate", "sample:rigid", "--cluster", file, "--policy", "easy", "--jobs", "50", "--json"
        ).json()
        for file in ("nodes.toml", "both.toml")
    ]
    for each in said:
        del each["timing"]
    assert said[0] == said[1]
