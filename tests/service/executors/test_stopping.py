"""Stopping, time limits and signals: the shim's work, whether or not there is a service."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from betimes.service.executors import local
from betimes.service.executors.supervision import processes
from betimes.service.scheduling.events import RunId, Signalled
from tests.service.executors.running import (
    RUN,
    a_launch,
    alive,
    executing,
    log_of,
    play,
    python,
    run_to_end,
    shim_of,
    until,
)

WAITS = "import time, sys; print('ready', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + WAITS
SAVES = (
    "import os, signal, sys, time\n"
    "def save(number, frame):\n"
    "    time.sleep(0.3); os.write(1, b'saved\\n'); os._exit(5)\n"
    "signal.signal(signal.SIGTERM, save)\n" + WAITS
)


async def ready(log: Path) -> None:
    await until(lambda: log.exists() and "ready" in log.read_text(encoding="utf-8"))


def test_a_command_that_takes_the_hint_has_time_to_save(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(SAVES))
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.stop(RUN, 60.0)
            ended = await heard.ended()
            assert (ended.why, ended.exit_code, ended.message) == ("stopped", 5, None)
            assert log_of(launch) == "ready\nsaved\n"

    play(scenario())


def test_a_time_limit_is_changed_while_it_runs(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(WAITS), time_limit_s=600.0, grace_s=60.0)
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.limit(RUN, 700.0)
            await executor.limit(RUN, 0.01)
            ended = await heard.ended()
            assert ended.why == "time-limit"
            assert ended.message is not None
            assert "its time limit of 0.01 s" in ended.message

    play(scenario())


COUNTS = """
import os, time
for number in range(10**6):
    os.write(1, b"%d\\n" % number)
    time.sleep(0.01)
"""


def test_a_suspended_run_stands_still_with_its_limit_and_is_stopped_as_any_other(at: Path) -> None:
    async def scenario() -> None:
        async with executing(force_after_s=0.1) as (executor, heard):
            # Its program is in a group of its own, as with `set -m` in a script.
            script = f"import subprocess; subprocess.call({list(python(COUNTS))!r}, process_group=0)"
            launch = a_launch(at, *python(script), time_limit_s=600.0, grace_s=20.0)
            await executor.start(launch)
            log = Path(launch.folder, "log")
            await until(lambda: log.exists() and log.stat().st_size > 20)
            await executor.suspend(RUN)
            await executor.limit(RUN, 0.05)  # has passed
            pids = [*processes.descendants(shim_of(launch)["pid"])]
            assert len(pids) == 2
            await until(lambda: all((one := processes.status(pid)) and one.state == "T" for pid in pids))
            await asyncio.sleep(0.1)  # its last output is copied
            size = log.stat().st_size
            await asyncio.sleep(0.5)
            assert log.stat().st_size == size
            await executor.resume(RUN, 600.0)
            await until(lambda: log.stat().st_size > size)
            await executor.suspend(RUN)
            await executor.stop(RUN, 20.0)
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("stopped", signal.SIGTERM)
            assert ended.run_s is not None
            assert ended.run_s < ended.at_s - (await heard.started()).at_s - 0.4

    play(scenario())


def test_a_resumed_run_reaches_its_limit(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(WAITS), time_limit_s=600.0)
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.suspend(RUN)
            await asyncio.sleep(0.6)
            await executor.resume(RUN, 0.8)
            ended = await heard.ended()
            assert ended.why == "time-limit"
            assert ended.message is not None
            assert "s, without 1 s for which it was suspended" in ended.message

    play(scenario())


def test_a_script_that_dies_at_once_leaves_its_program_time_to_save(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            (at / "save.py").write_text(SAVES)
            launch = a_launch(at, "sh", "-c", f"{python('')[0]} save.py; echo not reached")
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.stop(RUN, 60.0)
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("stopped", signal.SIGTERM)
            assert log_of(launch) == "ready\nsaved\n"

    play(scenario())


def test_a_deaf_command_is_killed_when_its_grace_period_is_over_and_not_before(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(DEAF))
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            asked = time.monotonic()
            await executor.stop(RUN, 0.5)
            ended = await heard.ended()
            assert time.monotonic() - asked >= 0.5
            assert (ended.why, ended.exit_code, ended.signal) == ("stopped", None, signal.SIGKILL)
            assert ended.message == "it was killed, as its grace period of 0.5 s was not enough for it to end"

    play(scenario())


def test_asked_again_only_an_earlier_end_counts(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(DEAF))
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            for grace_s in (1e6, 0.1, 1e6):
                await executor.stop(RUN, grace_s)
            assert (await heard.ended()).signal == signal.SIGKILL

    play(scenario())


def test_a_stop_that_comes_right_after_the_start_is_not_lost(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(a_launch(at, "sleep", "600"))
            await executor.stop(RUN, 0.1)
            assert (await heard.ended()).why == "stopped"
            await executor.stop(RUN, 0.1)  # nothing happens
            await executor.signal(RunId(99, 1), signal.SIGTERM, "all")

    play(scenario())


def test_a_suspended_command_is_woken_up_to_be_stopped(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(SAVES))
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.signal(RUN, signal.SIGSTOP, "all")
            stat = Path(f"/proc/{shim_of(launch)['pgid']}/stat")
            await until(lambda: ") T " in stat.read_text(encoding="utf-8"))
            await executor.stop(RUN, 60.0)
            assert (await heard.ended()).exit_code == 5

    play(scenario())


def test_a_signal_reaches_all_processes_of_a_run_also_those_in_other_sessions(at: Path) -> None:
    program = "trap 'echo got $1; exit' USR2; echo ready $1; while :; do sleep 0.05; done"

    async def scenario() -> None:
        async with executing() as (executor, heard):
            (at / "one.sh").write_text(program)
            launch = a_launch(
                at, "bash", "-c", "setsid bash one.sh a & bash one.sh b & trap : USR2; wait; wait; wait"
            )
            await executor.start(launch)
            log = Path(launch.folder, "log")
            await until(lambda: log.exists() and log.read_text(encoding="utf-8").count("ready") == 2)
            await executor.signal(RUN, signal.SIGUSR2, "all")
            await heard.ended()
            assert {"got a", "got b"} <= set(log_of(launch).splitlines())

    play(scenario())


def test_what_the_command_leaves_behind_is_killed(at: Path) -> None:
    program = "sleep 601 & echo $!; setsid sleep 602 & echo $!; (setsid setsid nohup sleep 603 & echo $!) ; sleep 0.2"
    launch = a_launch(at, "bash", "-c", program)

    assert run_to_end(launch).exit_code == 0

    left = [int(pid) for pid in log_of(launch).split()]
    assert len(left) == 3
    assert not any(alive(pid) for pid in left)
    assert not [
        file
        for file in Path("/proc").glob("[0-9]*/cmdline")
        if file.exists() and b"sleep\x00603" in file.read_bytes()
    ]


@pytest.mark.parametrize("warning", ["USR1", "USR2"])
def test_the_time_limit_warns_those_who_listen_then_stops_then_kills(at: Path, warning: str) -> None:
    program = (
        "import os, signal, time\n"
        f"signal.signal(signal.SIG{warning}, lambda *_: os.write(1, b'warned\\n'))\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'asked\\n'))\n"
        "while True: time.sleep(0.1)\n"
    )
    launch = a_launch(at, *python(program), time_limit_s=2.5, warn_s=1.5, grace_s=0.5, warn_signal=warning)

    ended = run_to_end(launch)

    assert (ended.why, ended.signal) == ("time-limit", signal.SIGKILL)
    assert ended.message == (
        "it reached its time limit of 2.5 s; it was killed, as its grace period of 0.5 s was not enough for it to end"
    )
    assert log_of(launch) == "warned\nasked\n"


@pytest.mark.parametrize("is_stopped", [False, True], ids=["limit", "stop"])
def test_what_hangs_before_its_command_begins_has_its_limit_and_can_be_stopped(
    at: Path, is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_PATIENCE_S", 0.1)
    os.mkfifo(at / "nobody-reads")
    limit_s = None if is_stopped else 0.5
    launch = a_launch(at, "true", output=str(at / "nobody-reads"), time_limit_s=limit_s, warn_s=0.2)

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            if is_stopped:
                await until(Path(launch.control).exists)
                await executor.stop(RUN, 20.0)
            ended = await heard.ended()
            assert (ended.why, ended.exit_code) == ("stopped" if is_stopped else "time-limit", None)
            assert is_stopped or ended.message == (
                "it reached its time limit of 0.5 s; its command had not begun: its folder, or an output file, could "
                "not be opened in that time"
            )

    play(scenario())


def test_the_warning_does_not_end_those_who_do_not_listen(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "sleep 0.6; echo done; sleep 600", time_limit_s=1.0, warn_s=0.9)

    ended = run_to_end(launch)

    assert (ended.why, ended.signal) == ("time-limit", signal.SIGTERM)
    assert log_of(launch) == "done\n"


def test_limit_and_grace_hold_when_the_service_is_gone(at: Path) -> None:
    launch = a_launch(at, *python(DEAF), time_limit_s=1.0, warn_s=0.0, grace_s=0.5)

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
        await until(Path(launch.folder, "exit.json").exists)
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            assert (await heard.ended()).why == "time-limit"

    play(scenario())


def test_a_shim_that_is_asked_to_end_stops_its_run(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sleep", "600")
            await executor.start(launch)
            await heard.started()
            os.kill(shim_of(launch)["pid"], signal.SIGTERM)
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("stopped", signal.SIGTERM)

    play(scenario())


@pytest.mark.parametrize("rubbish", ["nonsense\n", "stop\n", "stop soon\n", "signal 4711\n", "\n\n\0\n"])
def test_rubbish_in_the_control_fifo_is_ignored(at: Path, rubbish: str) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sleep", "600")
            await executor.start(launch)
            await heard.started()
            Path(launch.control).write_text(rubbish)
            await executor.stop(RUN, 60.0)
            assert (await heard.ended()).signal == signal.SIGTERM

    play(scenario())


MARKS = r"""
import os, signal, subprocess, sys, time
def heard(number, frame):
    os.write(1, sys.argv[1].encode() + b'\n')
    if sys.argv[1] != 'first':
        os._exit(0)
signal.signal(signal.SIGUSR1, heard)
if sys.argv[1] == 'first':
    for name in sys.argv[2:]:
        subprocess.Popen([sys.executable, __file__, name], start_new_session=name == 'task')
    while len(sys.argv) > 2 and not all(os.path.exists(name) for name in sys.argv[2:]):
        time.sleep(0.01)
    print('ready', flush=True)
    while not os.path.exists('end'):
        time.sleep(0.02)
else:
    open(sys.argv[1], 'w').close()
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("to", "children", "heard"),
    [
        ("all", ("child", "task"), {"first", "child", "task"}),
        ("command", ("child", "task"), {"first"}),
        ("steps", ("child", "task"), {"task"}),
        ("steps", ("child",), {"first", "child"}),
        ("steps", (), {"first"}),
    ],
)
def test_a_signal_goes_to_steps_or_the_command_or_all_and_the_run_goes_on(
    at: Path, to: Signalled, children: tuple[str, ...], heard: set[str]
) -> None:
    program = at / "marks.py"
    program.write_text(MARKS)

    async def scenario() -> None:
        async with executing() as (executor, reports):
            launch = a_launch(at, sys.executable, str(program), "first", *children)
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.signal(RUN, signal.SIGUSR1, to)
            await until(lambda: set(log_of(launch).split()) - {"ready"} == heard)
            Path(launch.workdir, "end").touch()
            ended = await reports.ended()
            assert (ended.why, ended.exit_code) == ("exited", 0)

    play(scenario())


def test_a_signal_that_nobody_handles_kills_as_kill_does(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python(WAITS))
            await executor.start(launch)
            await ready(Path(launch.folder, "log"))
            await executor.signal(RUN, signal.SIGUSR2, "steps")
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("exited", signal.SIGUSR2)

    play(scenario())
