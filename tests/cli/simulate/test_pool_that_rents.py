"""A pool that rents, from the command line: jobs wider than the owned nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.test_bad_input import refused

CLUSTER = """
[[nodes]]
type = "own"
gpu = 2
cpu = 8
memory_gib = 32
[[offers]]
type = "g2"
gpu = 2
cpu = 8
memory_gib = 32
usd_per_h = 1.0
boot_s = 10
capacity = 1
"""
HEAD = "job_id,submit_s,run_s,max_units,min_units,gpu\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rents.toml").write_text(CLUSTER)
    (tmp_path / "wide.csv").write_text(f"{HEAD}0,0,100,4,4,1\n")
    (tmp_path / "wider.csv").write_text(f"{HEAD}0,0,100,5,5,1\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("verb", [("simulate", "--policy"), ("compare", "--policies")])
def test_a_wide_job_runs_on_owned_and_rented_machines(betimes: Call, verb: tuple[str, str]) -> None:
    where = ("--cluster", "rents.toml", "--engine", "pool", verb[1], "fifo:rent_within=100")
    assert "110" in betimes(verb[0], "wide.csv", *where, "--json").out
    line = refused(betimes, verb[0], "wider.csv", *where)
    assert "5 units can never be held at once" in line
    assert "4 at most, by the capacity of the offers" in line
    line = refused(
        betimes, verb[0], "wide.csv", "--cluster", "rents.toml", "--engine", "pool", verb[1], "fifo"
    )
    assert "needs 4 units and 2 fit into" in line
