"""`betimes fleet size` from file to figures."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call

CLUSTER = """
name = "mixed"

[[nodes]]
type = "own"
count = 2
cpu = 4
gpu = 0
memory_gib = 16
usd_per_h = 0.2
reserved_discount_frac = 0.6

[[offers]]
type = "cloud"
cpu = 64
gpu = 0
memory_gib = 256
usd_per_h = 3.2
"""


def test_the_number_that_costs_least(betimes: Call, tmp_path: Path) -> None:
    cluster, out = tmp_path / "cluster.toml", tmp_path / "out"
    cluster.write_text(CLUSTER)
    given = (
        *("fleet", "size"),
        "sample:rigid",
        "--policy",
        "compound:t=1m,b=1h",
        "--cluster",
        cluster,
        "--to",
        "6",
    )
    found = betimes(*given, "--out", out, "--json").json()
    assert [row["machines"] for row in found["fleets"]] == [1, 2, 3, 4, 5, 6]
    least = min(found["fleets"], key=lambda row: row["cost_usd"])
    assert found["best"]["machines"] == least["machines"]
    assert json.loads((out / "sizing.json").read_text()) == found
    assert (out / "fleet.svg").stat().st_size > 0
    text = betimes(*given).out
    assert f"* {least['machines']}" in text
    assert "cost least" in text


def test_a_policy_that_does_not_wait_or_rent_is_refused(betimes: Call, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    refused = betimes("fleet", "size", "sample:rigid", "--policy", "fifo", "--cluster", cluster)
    assert refused.code == 2
    assert "policy fifo" in refused.err
