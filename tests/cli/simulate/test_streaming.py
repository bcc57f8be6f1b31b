"""`betimes simulate --stream`: the figures of a run that is not streamed, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.simulate.test_size_fleet import CLUSTER

POLICY = "compound:t=15m,b=1h"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER.replace("cpu = 4", "cpu = 16"))
    return path


@pytest.mark.parametrize("file", ["year:jobs=1500", "sample:rigid"])
def test_the_same_figures(betimes: Call, cluster: Path, file: str) -> None:
    given = ("simulate", file, "--policy", POLICY, "--cluster", cluster, "--seed", "3", "--json")
    whole, streamed = betimes(*given).json(), betimes(*given, "--stream").json()
    assert streamed.pop("timing")["events"] == whole.pop("timing")["events"]
    assert streamed == {name: whole[name] for name in streamed}
    assert {"wait_mean_s", "cost_usd", "rented_frac", "slowdown_p95"} <= set(streamed)


def test_a_table_and_a_note_on_what_was_refused(betimes: Call, cluster: Path) -> None:
    cluster.write_text(CLUSTER.replace("cpu = 4", "cpu = 8").replace("cpu = 64", "cpu = 8"))
    found = betimes("simulate", "year:jobs=300", "--policy", "fifo", "--cluster", cluster, "--stream")
    assert "Jobs" in found.out
    assert "Cost" in found.out


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--predict",), "--predict: with --stream only the figures of all jobs are kept"),
        (("--seeds", "2"), "--seeds: with --stream"),
        (("--sizes", "learned"), "--sizes learned: with --stream run times are not learned"),
        (("--measure", "10%..90%"), "--measure: with --stream"),
        (("--load", "0.8"), "--load: year:jobs=300 is generated in chunks"),
        (("--jobs", "100"), "--jobs: year:jobs=300 is generated in chunks"),
        (("--sizes", "last-two"), "--sizes last-two: with jobs in chunks choose true or estimate"),
    ],
)
def test_what_needs_all_jobs_at_once_is_refused(
    betimes: Call, cluster: Path, more: tuple[str, ...], why: str
) -> None:
    given = ("simulate", "year:jobs=300", "--policy", POLICY, "--cluster", cluster, "--stream")
    refused = betimes(*given, *more)
    assert (refused.code, refused.out) == (2, "")
    assert why in refused.err


def test_a_pool_and_a_generator_without_a_cluster_are_refused(betimes: Call) -> None:
    assert "run on nodes; give --cluster" in betimes("simulate", "demo", "--policy", "fifo", "--stream").err
    alone = betimes("simulate", "year:jobs=9", "--policy", POLICY, "--stream")
    assert "--stream: year:jobs=9 does not say what it runs on" in alone.err
