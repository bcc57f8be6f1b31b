"""Limits that the kernel's control groups set: both versions, containers, and machines without any."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from betimes.service.machines.cgroups import Limits, read_limits

V2 = "26 23 0:22 {root} {at} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_CPU = "32 31 0:30 {root} {at} rw shared:9 master:3 - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "35 31 0:32 {root} {at} rw - cgroup cgroup rw,memory\n"
OTHER = "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"


def limits(folder: Path, own: str, mounts: str, files: Mapping[str, str]) -> Limits:
    """What is read where the process is in `own`, and files lie below the folder."""
    process = folder / "proc"
    process.mkdir()
    (process / "cgroup").write_text(own)
    (process / "mountinfo").write_text(OTHER + mounts)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content + "\n")
    return read_limits(process)


def test_the_smallest_on_the_way_up_counts(tmp_path: Path) -> None:
    files = {
        "a/b/c/cpu.max": "max 100000",
        "a/b/c/memory.max": "3221225472",
        "a/b/cpu.max": "150000 100000",
        "a/b/memory.max": "max",
        "a/memory.max": "4294967296",
        "a/beside/cpu.max": "1000 100000",
    }
    read = limits(tmp_path, "0::/a/b/c\n", V2.format(root="/", at=tmp_path), files)
    assert read == Limits(1.5, 3 * 2**30)


def test_version_1(tmp_path: Path) -> None:
    files = {
        "cpu/a/cpu.cfs_quota_us": "250000",
        "cpu/a/cpu.cfs_period_us": "100000",
        "cpu/cpu.cfs_quota_us": "-1",
        "memory/m/memory.limit_in_bytes": "1073741824",
        "memory/memory.limit_in_bytes": "9223372036854771712",
    }
    mounts = V1_CPU.format(root="/", at=tmp_path / "cpu") + V1_MEMORY.format(root="/", at=tmp_path / "memory")
    read = limits(tmp_path, "8:memory:/m\n3:cpu,cpuacct:/a\n1:name=systemd:/x\n", mounts, files)
    assert read == Limits(2.5, 2**30)


def test_both_at_once(tmp_path: Path) -> None:
    files = {"memory/m/memory.limit_in_bytes": "1024", "unified/u/cpu.max": "50000 100000"}
    mounts = V1_MEMORY.format(root="/", at=tmp_path / "memory") + V2.format(root="/", at=tmp_path / "unified")
    assert limits(tmp_path, "4:memory:/m\n0::/u\n", mounts, files) == Limits(0.5, 1024.0)


@pytest.mark.parametrize(
    ("own", "root"),
    [
        (
            "0::/docker/abc\n",
            "/docker/abc",
        ),  # the container's part of the hierarchy is mounted, under the host's name
        ("0::/docker/abc/jobs\n", "/docker/abc"),
        ("0::/elsewhere\n", "/docker/abc"),
        ("0::/../other\n", "/"),  # outside the name space
        ("0::/\n", "/"),
    ],
)
def test_inside_a_container(tmp_path: Path, own: str, root: str) -> None:
    mounts = V2.format(root=root, at=str(tmp_path / "a mount").replace(" ", r"\040"))
    assert limits(tmp_path, own, mounts, {"a mount/cpu.max": "200000 100000"}) == Limits(2.0, math.inf)


def test_no_control_groups(tmp_path: Path) -> None:
    assert read_limits(tmp_path) == Limits(math.inf, math.inf)
    assert limits(tmp_path, "0::/a\n", V2.format(root="/", at=tmp_path), {}) == Limits(math.inf, math.inf)


@pytest.mark.parametrize("content", ["", "lots", "1 0", "100000"])
def test_an_unreadable_limit_is_none_and_is_told(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert (
            limits(tmp_path, "0::/\n", V2.format(root="/", at=tmp_path), {"cpu.max": content}).cpu == math.inf
        )
    assert "cannot be read" in caplog.text


def test_this_machine_as_it_is() -> None:
    read = read_limits()
    assert read.cpu > 0
    assert read.memory_bytes > 0
