"""What several versions of Slurm print, in their shapes: all rows are understood, and mean the same.

The files of 22.05 were printed by a real Slurm (`test_jobs`, `test_machines`); those of the others are made up.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from betimes.slurm.commands import Commands
from betimes.slurm.doctor import sight
from betimes.slurm.picture import Looks
from betimes.slurm.queue import queue_of
from betimes.workload import read_trace
from betimes.workload.columns import CANCELLED, COMPLETED, FAILED
from tests.slurm.fake_slurm import FakeSlurm
from tests.slurm.recording import RECORDED

VERSIONS = {
    "20.11": {"c01": True, "c02": True, "c03": False, "c04": False},  # IDLE*: it does not respond
    "23.11": {"c01": True, "c02": True, "c03": False, "c04": False},
    "24.11": {"c01": True, "c02": True, "c03": False, "c04": False},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_prints_is_understood(version: str, tmp_path: Path) -> None:
    shown = RECORDED.parent / version
    (tmp_path / "shown").mkdir()
    for file in shown.iterdir():
        (tmp_path / "shown" / file.name).write_text(file.read_text())
    (tmp_path / "shown/reservation").write_text("No reservations in the system\n")
    slurm = FakeSlurm(tmp_path, tmp_path / "shown")
    looks = Looks(Commands(slurm.folder))
    picture = looks.look()
    machines = looks.machines(picture)
    assert (picture.not_understood, machines.not_understood) == ((), ())
    assert machines.settings["SLURM_VERSION"].startswith(version)
    assert {name: node.is_open for name, node in machines.nodes.items()} == VERSIONS[version]
    assert {node.cpus for node in machines.nodes.values()} == {16}
    assert machines.partitions["batch"].nodes == machines.nodes.keys()
    assert machines.partitions["batch"].default_s == 3600.0
    jobs = picture.jobs
    assert {number: job.state for number, job in jobs.items()} == {
        "101": "RUNNING", "102_7": "PENDING", "103": "PENDING", "99": "COMPLETED",
    }  # fmt: skip
    assert (jobs["101"].hosts, jobs["101"].cpus, jobs["101"].limit_s) == (("c01",), 16, 3600.0)
    assert jobs["102_7"].start_at == jobs["101"].end_at
    assert math.isnan(jobs["103"].start_at)
    assert jobs["99"].name == "old|bar"
    counts = looks.counts()
    assert counts is not None
    assert (counts.waiting, counts.running) == (2, 1)
    assert sight(picture, machines, counts).ok
    queue = queue_of(picture, machines)
    assert queue.unforeseen == {"103": "its time limit is longer than its partition allows"}
    assert queue.planned["99"] == 3600.0  # the partition's default
    assert slurm.nothing_was_written


@pytest.mark.parametrize("version", VERSIONS)
def test_the_accounting_of_a_version_is_read(version: str) -> None:
    history = read_trace(RECORDED.parent / version / "sacct", "sacct")
    assert history.job_id.tolist() == [90, 91, 93]
    assert history.status.tolist() == [COMPLETED, CANCELLED, FAILED]
    assert history.extra["JobName"].tolist() == ["train.py", "sweep", "train.py"]
    assert history.extra["recorded_wait_s"].tolist() == [1000.0] * 3


@pytest.mark.parametrize("mark", "*~#%!$@^")
def test_marks_of_old_versions_on_a_nodes_state_mean_that_it_takes_no_jobs(mark: str, tmp_path: Path) -> None:
    """Of `IDLE*` and the like: does not respond, powered down or up, reserved, to be rebooted."""
    shown = tmp_path / "shown"
    shown.mkdir()
    for name in ("partition", "config"):
        (shown / name).write_text((RECORDED.parent / "20.11" / name).read_text())
    (shown / "reservation").touch()
    (shown / "node").write_text(
        f"NodeName=c01 CPUTot=4 State=IDLE{mark}\nNodeName=c02 CPUTot=4 State=IDLE-\n"
    )
    machines = Looks(Commands(FakeSlurm(tmp_path, shown).folder)).machines()
    assert [node.is_open for node in machines.nodes.values()] == [False, True]
