"""Queues on the command line, in Betimes's words and in Slurm's, which calls them partitions."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.queues import parse_queues
from tests.cli.conftest import Call, Slurm

QUEUES = (
    {
        "name": "batch",
        "default": True,
        "require": ["tier=batch"],
        "default_time": "10m",
        "max_time": "1d",
    },
    {
        "name": "debug",
        "require": ["tier=debug"],
        "max_time": "1h",
        "users": ["ada", "bob"],
        "priority": 50,
    },
)
SERVES = {
    "machines": tuple(
        Machine(name, "virtual", "n", 4.0, 16.0, 0.0, labels=(("tier", tier),))
        for name, tier in (("a", "batch"), ("b", "batch"), ("c", "debug"))
    ),
    "settings": Settings(queues=parse_queues(QUEUES)),
    "policy": "nodes:fifo",
}


@pytest.fixture
def one_each(betimes: Call, slurm: Slurm) -> None:
    betimes("submit", "--queue", "debug", "--cpu", "4", "--", "true")
    assert slurm("sbatch", "-p", "batch", "-c", "2", "--wrap", "true").out == "Submitted batch job 2\n"
    assert slurm("sbatch", "--wrap", "true").code == 0, "to the default"


@pytest.mark.usefixtures("one_each")
def test_jobs_are_listed_by_queue(betimes: Call, slurm: Slurm) -> None:
    assert [job["job_id"] for job in json.loads(betimes("jobs", "--queue", "batch", "--json").out)] == [3, 2]
    assert (
        slurm("squeue", "-h", "-o", "%i %P %l", "-S", "i").out
        == "1 debug 1:00:00\n2 batch 10:00\n3 batch 10:00\n"
    )
    assert slurm("squeue", "-h", "-p", "debug", "-o", "%i").out == "1\n"
    shown = betimes("queues").out.splitlines()
    assert [line.split()[:8] for line in shown if "batch*" in line or "debug" in line] == [
        ["batch*", "2", "2", "0", "10", "min", "24", "h"],
        ["debug", "1", "1", "0", "60", "min", "60", "min"],
    ]
    assert "queue" in betimes("job", "1").out


@pytest.mark.usefixtures("one_each")
def test_partitions_are_shown_as_slurm_shows_them(slurm: Slurm) -> None:
    assert slurm("sinfo").out.splitlines() == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "batch*       up 1-00:00:00      1    mix a",
        "batch*       up 1-00:00:00      1   idle b",
        "debug        up    1:00:00      1  alloc c",
    ]
    assert slurm("sinfo", "-h", "-o", "%P").out == "batch*\ndebug\n", "once each, as programs read them"
    assert (
        slurm("sinfo", "-h", "-p", "debug", "-o", "%R %L %l %g %D").out == "debug 1:00:00 1:00:00 ada,bob 1\n"
    )
    assert slurm("scontrol", "show", "partition", "batch").out.splitlines()[:6] == [
        "PartitionName=batch",
        "   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        "   Default=YES DefaultTime=00:10:00 Hidden=NO",
        "   MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0",
        "   Nodes=a,b",
        "   State=UP TotalCPUs=8 TotalNodes=2",
    ]
    assert slurm("scontrol", "show", "partition", "none").err == "scontrol: error: Partition none not found\n"
    assert "Partitions=debug\n" in slurm("scontrol", "show", "node", "c").out


def test_a_refusal_names_the_option_and_the_queues(betimes: Call, slurm: Slurm) -> None:
    said = betimes("submit", "--queue", "long", "--", "true").err
    assert "--queue: there is no queue 'long'; the queues are batch, debug" in said
    assert "there is no queue 'long'" in slurm("sbatch", "-p", "long", "--wrap", "true").err
    said = betimes("submit", "--queue", "debug", "--time", "2h", "--", "true").err
    assert "--time-limit: jobs of queue debug may run for 60 min at most" in said


@pytest.mark.parametrize("live", [{"settings": Settings(queues=parse_queues(QUEUES[1:]))}], indirect=True)
def test_jobs_that_name_no_queue_are_in_one_of_all_nodes_where_none_is_the_default(slurm: Slurm) -> None:
    assert slurm("sinfo", "-h", "-o", "%P %N").out == "debug c\nbetimes* a,b,c\n"


def test_the_settings_are_shown_as_a_file_of_settings(betimes: Call, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[[queues]]\nname = "debug"\nrequire = {tier = "debug"}\n')
    shown = betimes("service", "config", "--service", str(tmp_path)).out
    assert tomllib.loads(shown)["queues"] == [{"name": "debug", "require": {"tier": "debug"}}]
