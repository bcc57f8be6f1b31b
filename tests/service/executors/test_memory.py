"""Memory limits: a control group's, where there can be one; else the sum of what is resident is looked at."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from betimes.service.machines.cgroups import allow_memory, find_group
from tests.service.executors.running import (
    a_launch,
    log_of,
    python,
    run_to_end,
    shim_of,
)

TAKES = (
    "import sys, time; x = b'x' * (int(sys.argv[1]) << 20); print(len(x) >> 20, flush=True); time.sleep({})"
)
HUNGRY = python(TAKES.format(600), "600")
MODEST = python(TAKES.format(0), "600")
POLLING = "polling"
# Processes that each hold so many MiB, and the first one also what the others share with it.
SEVERAL = python(
    "import os, sys, time\n"
    "shared, each = bytearray(os.urandom(int(sys.argv[2]) << 20)), int(sys.argv[3])\n"
    "for _ in range(int(sys.argv[1])):\n"
    "    if os.fork() == 0:\n"
    "        own = bytearray(os.urandom(each << 20))\n"
    "        time.sleep(600)\n"
    "print('up', flush=True)\n"
    "time.sleep(float(sys.argv[4]))\n"
)


def test_the_processes_of_a_run_may_not_use_more_than_its_limit_together(at: Path) -> None:
    launch = a_launch(at, *SEVERAL, "3", "1", "150", "600", memory_gib=0.2)

    ended = run_to_end(launch)

    assert (ended.why, ended.exit_code, ended.signal) == ("out-of-memory", None, 9)
    assert ended.message is not None
    assert re.fullmatch(r"out of memory: used [0-9.]+ MiB, limit 205 MiB", ended.message)
    assert ended.max_rss_gib is not None
    assert ended.max_rss_gib > 0.2


def test_what_processes_share_counts_once(at: Path) -> None:
    launch = a_launch(at, *SEVERAL, "4", "100", "1", "2", memory_gib=0.3)

    ended = run_to_end(launch)

    assert (ended.why, ended.exit_code) == ("exited", 0)


def test_a_command_that_asks_for_more_than_its_limit_does_not_get_it(at: Path) -> None:
    launch = a_launch(at, *HUNGRY, memory_gib=0.25, units=2)

    ended = run_to_end(launch)

    assert ended.why == "out-of-memory"
    assert re.fullmatch(r"out of memory: used [0-9.]+ MiB, limit 512 MiB", str(ended.message))
    assert shim_of(launch)["memory_limited_by"] == POLLING


def test_what_the_kernel_kills_above_its_limit_was_out_of_memory(at: Path) -> None:
    """It is quicker than a look, where the machine itself has no memory left."""
    program = "import os, signal; x = b'x' * (300 << 20); os.kill(os.getpid(), signal.SIGKILL)"
    ended = run_to_end(a_launch(at, *python(program), memory_gib=0.125))

    assert ended.why == "out-of-memory"
    assert re.fullmatch(r"out of memory: used [0-9.]+ MiB, limit 128 MiB", str(ended.message))


def test_a_command_within_its_limit_gets_what_it_asks_for(at: Path) -> None:
    launch = a_launch(at, *MODEST, memory_gib=0.5, units=2)

    assert run_to_end(launch).exit_code == 0
    assert log_of(launch) == "600\n"


def test_what_is_only_reserved_does_not_count(at: Path) -> None:
    program = (
        "import mmap, time; x = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE); time.sleep(0.5); print(1)"
    )
    launch = a_launch(at, *python(program), memory_gib=0.5)

    run_to_end(launch)

    assert log_of(launch) == "1\n"


def test_without_a_limit_nothing_is_limited(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "ulimit -d; ulimit -v")

    run_to_end(launch)

    assert log_of(launch) == "unlimited\nunlimited\n"
    assert shim_of(launch)["memory_limited_by"] == "none"


def test_where_a_group_cannot_be_made_its_processes_are_looked_at(at: Path) -> None:
    launch = a_launch(at, *HUNGRY, memory_gib=0.25)

    assert run_to_end(launch, group=at / "no control group").why == "out-of-memory"
    assert shim_of(launch)["memory_limited_by"].startswith(f"{POLLING}, for want of a control group: ")


def a_group(folder: Path, **files: str) -> Path:
    """What looks like a control group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


def test_a_run_with_a_group_is_limited_and_accounted_for_by_it(at: Path) -> None:
    group = a_group(
        at / "group" / f"run-1-1-{a_launch(at).identity[:8]}",
        memory_max="max",
        memory_peak="1073741824",
        memory_events="oom 1\noom_kill 2\n",
    )
    for name in ("cgroup.procs", "cgroup.kill", "memory.swap.max", "memory.oom.group"):
        (group / name).touch()
    launch = a_launch(at, *MODEST, memory_gib=0.25, units=2)

    ended = run_to_end(launch, group=at / "group")

    assert shim_of(launch)["memory_limited_by"] == "cgroup v2"
    assert (group / "memory.max").read_text() == str(2**29)
    assert (group / "memory.swap.max").read_text() == "0"
    assert (group / "memory.oom.group").read_text() == "1"
    assert (group / "cgroup.procs").read_text() == str(shim_of(launch)["pgid"])
    assert (group / "cgroup.kill").read_text() == "1"
    assert log_of(launch) == "600\n"  # the resource limit is not used as well
    assert ended.max_rss_gib == 1.0
    assert ended.why == "exited"  # with 0, although something of it was killed
    assert ended.message == "one of its processes was killed: out of memory, limit 512 MiB"


def test_in_a_real_control_group(at: Path) -> None:
    group = find_group()
    if group is None:
        pytest.skip("no control group (v2) below which memory can be limited is writable here")
    launch = a_launch(at, *HUNGRY, memory_gib=0.25)

    ended = run_to_end(launch, group=group)

    assert (ended.why, ended.signal) == ("out-of-memory", 9)
    assert re.fullmatch(r"out of memory: used [0-9.]+ MiB, limit 256 MiB", str(ended.message))
    assert not list(group.glob("run-*"))


def test_memory_can_be_limited_where_the_controller_is_passed_on(tmp_path: Path) -> None:
    group = a_group(
        tmp_path, cgroup_controllers="cpu memory\n", cgroup_subtree_control="memory\n", cgroup_procs=""
    )

    assert allow_memory(group)


def test_a_process_alone_in_its_group_makes_room_for_others(tmp_path: Path) -> None:
    own = f"{os.getpid()}\n"
    group = a_group(
        tmp_path, cgroup_controllers="cpu memory\n", cgroup_subtree_control="\n", cgroup_procs=own
    )

    assert allow_memory(group)
    assert (group / "service" / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize("controllers", ["cpu\n", ""])
def test_without_the_controller_memory_cannot_be_limited(tmp_path: Path, controllers: str) -> None:
    group = a_group(tmp_path, cgroup_controllers=controllers, cgroup_subtree_control="", cgroup_procs="")

    assert not allow_memory(group)


def test_the_own_group_is_found_below_where_groups_are_mounted(tmp_path: Path) -> None:
    group = a_group(
        tmp_path / "cg" / "a.service", cgroup_controllers="memory", cgroup_subtree_control="memory"
    )
    (tmp_path / "mountinfo").write_text(f"25 30 0:23 / {tmp_path}/cg rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "cgroup").write_text("0::/a.service\n")

    assert find_group(tmp_path) is None, "systemd could not start the service there again"
    (tmp_path / "cgroup").write_text("0::/a.service/service\n")  # DelegateSubgroup=service
    assert find_group(tmp_path) == group
    (tmp_path / "mountinfo").write_text("")
    assert find_group(tmp_path) is None
