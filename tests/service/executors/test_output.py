"""A run's output is kept in files of bounded size."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from betimes.service.executors.protocol import Place
from betimes.service.executors.ray.executor import members
from betimes.service.executors.supervision.command import Log
from betimes.service.scheduling.events import RunId
from tests.service.executors.running import a_launch, executing, log_of, play, python, run_to_end, until


def test_both_streams_come_in_order(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "echo one; echo two >&2; echo three")

    run_to_end(launch)

    assert log_of(launch) == "one\ntwo\nthree\n"


def test_output_can_be_read_while_the_command_runs(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sh", "-c", "echo hello; sleep 600")
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and log_of(launch) == "hello\n")
            await executor.stop(launch.run, 5.0)
            await heard.ended()

    play(scenario())


def test_a_silent_run_has_an_empty_log(at: Path) -> None:
    launch = a_launch(at, "true")

    run_to_end(launch)

    assert log_of(launch) == ""


def test_only_the_newest_output_is_kept_in_whole_lines(at: Path) -> None:
    launch = a_launch(at, *python("for n in range(10_000): print(f'line {n:05d}')"))

    ended = run_to_end(launch, log_bytes=4096, log_files=3)

    logs = [Path(launch.folder, name) for name in ("log.2", "log.1", "log")]
    assert sorted(file.name for file in Path(launch.folder).glob("log*")) == [
        "log",
        "log.1",
        "log.2",
        "log.lost",
    ]
    lines = "".join(file.read_text() for file in logs).splitlines()
    assert all(file.stat().st_size <= 4096 for file in logs)
    assert all(file.read_text().endswith("\n") for file in logs)
    assert lines == [f"line {n:05d}" for n in range(10_000 - len(lines), 10_000)]
    assert len(lines) > 2 * 4096 // len("line 00000\n") - 2
    dropped = (10_000 - len(lines)) * len("line 00000\n")
    assert ended.log_lost_bytes == dropped
    assert (
        ended.message
        == f"{dropped} bytes of its oldest output were dropped, as 3 files of 4096 bytes are kept"
    )


def test_output_for_which_there_is_no_room_does_not_harm_the_job(at: Path) -> None:
    launch = a_launch(at, *python("for n in range(1000): print('x' * 99)"))
    Path(launch.folder).mkdir(parents=True)
    Path(launch.folder, "log").symlink_to("/dev/full")

    ended = run_to_end(launch)

    assert ended.exit_code == 0
    assert ended.message == "100000 bytes of its output could not be kept: No space left on device"
    assert ended.log_lost_bytes == 100_000


def test_output_of_a_command_that_ends_at_once_is_complete(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x")

    run_to_end(launch)

    assert log_of(launch) == "x" * 300_000


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30), st.integers(1, 4))
def test_files_hold_a_suffix_of_what_was_written(
    tmp_path_factory, chunks: list[bytes], most_bytes: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    log = Log(str(path), most_bytes, count)
    for chunk in chunks:
        log.write(chunk)

    found = [path.with_name(f"log.{number}") for number in range(count - 1, 0, -1)] + [path]
    kept = [file.read_bytes() for file in found if file.exists()]
    assert b"".join(chunks).endswith(b"".join(kept))
    assert all(len(one) <= most_bytes for one in kept)
    assert log.lost_bytes == log.dropped_bytes == len(b"".join(chunks)) - len(b"".join(kept))
    if log.lost_bytes:
        assert int(path.with_name("log.lost").read_text()) == log.lost_bytes
    if len(b"".join(chunks)) <= most_bytes:
        assert b"".join(kept) == b"".join(chunks)


TALKS = ("sh", "-c", "echo out; echo err >&2")


def test_output_goes_to_the_files_of_the_job(at: Path) -> None:
    (at / "both.txt").write_text("of an earlier job\n")
    launch = a_launch(at, *TALKS, output="both.txt")
    assert run_to_end(launch).exit_code == 0
    assert (at / "both.txt").read_text() == "out\nerr\n"
    assert log_of(launch) == "betimes: output goes to both.txt\n"

    again = a_launch(at, *TALKS, run=RunId(1, 2), output="both.txt", error="err.txt")
    run_to_end(again)
    assert (at / "both.txt").read_text() == "out\nerr\nout\n"  # a later run of the job appends
    assert (at / "err.txt").read_text() == "err\n"

    errors = a_launch(at, *TALKS, run=RunId(2, 1), error=str(at / "err.txt"))
    run_to_end(errors)
    assert (at / "err.txt").read_text() == "err\n"
    assert log_of(errors) == f"betimes: output goes to {at}/err.txt\nout\n"


def test_an_output_file_that_cannot_be_written_is_named(at: Path) -> None:
    ended = run_to_end(a_launch(at, "true", output="missing/out.txt"))
    assert ended.why == "start-failed"
    assert ended.message == (
        "its output file 'missing/out.txt' cannot be written: No such file or directory; name another, or create its "
        "folder"
    )


def test_each_node_of_a_job_writes_a_file_of_its_own(at: Path) -> None:
    launch = a_launch(at, "true", places=(Place("a", 1), Place("b", 1)), output="out.txt")
    found = members(launch, lambda node: node)
    assert [(each.output, each.error) for each in found.values()] == [("out.txt", None), ("out.txt.1", None)]


def test_a_script_of_slurm_finds_the_addresses_of_its_nodes(at: Path) -> None:
    launch = a_launch(at, "true", places=(Place("a", 1), Place("b", 1)), env={"SLURM_JOB_NODELIST": "a,b"})
    found = members(launch, lambda node: f"{node}.example")
    assert [each.env["SLURM_JOB_NODELIST"] for each in found.values()] == ["a.example,b.example"] * 2
    env = {"SLURM_JOB_NODELIST": "a,a,b", "SLURM_NNODES": "3"}
    [first, _] = members(
        a_launch(at, "true", places=(Place("a", 2), Place("b", 1)), env=env), lambda node: f"{node}.e"
    ).values()
    assert [first.env[f"SLURM_{name}"] for name in ("JOB_NODELIST", "NODELIST")] == ["a.e,a.e,b.e", "a.e,b.e"]


def test_a_script_of_slurm_finds_its_process_node_and_end(at: Path) -> None:
    about = ("SLURM_TASK_PID", "SLURM_JOB_UID", "SLURM_JOB_GID", "SLURMD_NODENAME", "SLURM_JOB_START_TIME",
             "SLURM_JOB_END_TIME")  # fmt: skip
    script = f"for name in {' '.join(about)}; do eval echo \\$$name; done; echo $$"
    env = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a,b", "RANK": "1", "PATH": os.environ["PATH"]}
    before_s = int(time.time())
    launch = a_launch(at, "sh", "-c", script, env=env, time_limit_s=90.0)
    run_to_end(launch)
    pid, uid, gid, node, start, end, own = log_of(launch).split()
    assert (pid, uid, gid, node) == (own, str(os.getuid()), str(os.getgid()), "b")
    assert before_s <= int(start) <= time.time()
    assert int(end) - int(start) == 90
