"""Slurm's accounting under other policies: its jobs on the nodes of their partitions, and what is said without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.cluster import read_cluster
from betimes.slurm.commands import Commands
from betimes.slurm.history import as_toml, placed, read_history
from betimes.slurm.picture import Looks
from tests.cli.conftest import Call
from tests.slurm.fake_slurm import FakeSlurm
from tests.slurm.test_source import Slurm, ago

HEAD = "JobIDRaw|User|Submit|Start|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State|Partition|JobName"


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    """Eight nodes of four CPUs, the first two of which are of `short` too; three jobs were submitted at once."""
    made, at = Slurm(tmp_path), ago(90_000.0)
    lines = [
        f"1|ann|{at}|{at}|3600|60|8|8|COMPLETED|short|a",
        f"2|bob|{at}|{at + 3600}|3600|60|8|8|COMPLETED|short|b",
        f"3|bob|{at}|{at + 1800}|600|60|24|24|COMPLETED|batch|b",
        f"4|eve|{at}|{at + 1800}|600|60|1|1|COMPLETED|gone|c",
    ]
    (made.shown / "sacct").write_text("\n".join([HEAD, *lines, ""]))
    return made


def test_jobs_stay_in_their_partitions(slurm: Slurm, tmp_path: Path) -> None:
    commands = Commands(slurm.fake.folder)
    workload, cluster = placed(read_history(commands, ago(1e6)), Looks(commands).machines())
    assert workload.require.tolist() == ["short=yes", "short=yes", "batch=yes", ""]
    groups = [(group.count, group.cpu, group.labels) for group in cluster.groups]
    both = (("batch", "yes"), ("short", "yes"))
    assert groups == [(2, 4.0, both), (6, 4.0, (("batch", "yes"),))]
    (tmp_path / "slurm.toml").write_text(as_toml(cluster))
    assert read_cluster(tmp_path / "slurm.toml").groups == cluster.groups


def test_the_recorded_jobs_under_other_policies(slurm: Slurm, betimes: Call) -> None:
    words = ("--slurm-history", "30d", "--slurm-bin", slurm.fake.folder)
    said = betimes("compare", *words, "--policies", "easy,nodes:fifo", "--json")
    assert "in Slurm its 4 jobs waited for 30 min in the mean, and were done after 65 min" in said.err
    rows = said.json()
    assert [row["policy"] for row in rows] == ["easy", "nodes:fifo"]
    # The second of `short` waits an hour for the first, though batch has room; the last waits for the third, and under
    # fifo both wait for the second, too.
    waits_s = [(3600.0 + 600.0) / 4.0, (3600.0 + 3600.0 + 4200.0) / 4.0]
    assert [row["wait_mean_s"] for row in rows] == pytest.approx(waits_s)
    assert slurm.fake.nothing_was_written


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [(["demo", "--slurm-history", "30d"], 2, "--slurm-history: demo is given as well"),
     (["--slurm-history", "soon"], 2, "--slurm-history: 'soon' is not a duration"),
     (["demo", "--slurm-bin", "/x"], 2, "--slurm-bin is about an existing Slurm; add --slurm-history"),
     ([], 2, "FILE is empty; name a trace")],
)  # fmt: skip
def test_bad_input(betimes: Call, words: list[str], code: int, error: str) -> None:
    said = betimes("compare", *words, "--policies", "easy")
    assert said.code == code
    assert error in said.err


def test_without_accounting_it_says_what_to_do(betimes: Call, tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path, instead={"sacct": "echo 'Slurm accounting storage is disabled' >&2; exit 1"})
    said = betimes("compare", "--slurm-history", "1d", "--slurm-bin", fake.folder, "--policies", "easy")
    assert said.code == 1
    assert said.err.splitlines()[-1] == (
        "betimes: sacct failed: Slurm accounting storage is disabled; where accounting cannot be read, compare a "
        "trace: betimes compare FILE"
    )


def test_a_period_without_jobs(slurm: Slurm, betimes: Call) -> None:
    (slurm.shown / "sacct").write_text(HEAD + "\n")
    words = ("--slurm-history", "1d", "--slurm-bin", slurm.fake.folder)
    said = betimes("compare", *words, "--policies", "easy")
    assert said.code == 2
    assert "there is no job" in said.err
