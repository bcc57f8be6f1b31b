"""Whatever a crash leaves behind is sorted out, and no command is ever started twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.devices import Assigned
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.protocol import Launch
from betimes.service.executors.run_folder import Keeping, write_launch
from betimes.service.executors.supervision import files
from betimes.service.executors.supervisors import Forker
from betimes.service.scheduling.events import Ended, Report, RunId, Started
from tests.service.executors.running import (
    PATIENCE_S,
    RUN,
    Heard,
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

KEEPING = Keeping(2**20, 2, None)
# What a service does until it is killed; it tells of every report.
SERVICE = """
import asyncio, json, sys
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.protocol import Launch, Place, RunId

async def main():
    executor = LocalExecutor(lambda report: print(type(report).__name__, *report.run, flush=True), group=None)
    for given in json.load(open(sys.argv[1])):
        given.update(run=RunId(*given["run"]), command=tuple(given["command"]), places=())
        await executor.start(Launch(**given))
    print("all asked", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def a_service(at: Path, launches: list[Launch]) -> subprocess.Popen[str]:
    """A process that starts these runs, and then waits to be killed."""
    given = at / "launches.json"
    given.write_text(json.dumps([{**asdict(launch), "run": list(launch.run)} for launch in launches]))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SERVICE, str(given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def kill(service: subprocess.Popen[str]) -> list[str]:
    """SIGKILL; what it had told."""
    service.kill()
    told, _ = service.communicate()
    return told.splitlines()


def run_until_left(launch: Launch) -> None:
    """Run it to its end, and its supervisor's, which forces exit.json to the disk after the end was reported: until
    then nothing in the folder can be changed as a crash would.
    """
    run_to_end(launch)
    supervisor = shim_of(launch)["pid"]
    play(until(lambda: not alive(supervisor)))


def adopt(*launches: Launch, then_wait: bool = False) -> list[Report]:
    """What is reported when these are adopted, and with `then_wait` until all have ended."""

    async def scenario() -> list[Report]:
        async with executing() as (executor, heard):
            await executor.adopt(launches)
            if then_wait:
                for launch in launches:
                    await heard.ended(launch.run)
            return list(heard.reports)

    return play(scenario())


def counting(at: Path, seconds: float) -> tuple[str, ...]:
    """A command that leaves a line when it begins, and ends with 0 after a while."""
    return ("sh", "-c", f"echo $$ >> {at}/begun.$BETIMES_JOB_ID; sleep {seconds}")


def begun(at: Path, job: int) -> int:
    file = at / f"begun.{job}"
    return len(file.read_text(encoding="utf-8").split()) if file.exists() else 0


def a_job(at: Path, job: int, seconds: float) -> Launch:
    env = {"PATH": os.environ["PATH"], "BETIMES_JOB_ID": str(job)}
    return a_launch(at, *counting(at, seconds), run=RunId(job, 1), env=env)


def test_runs_survive_a_killed_service_and_are_adopted(at: Path) -> None:
    launches = [a_job(at, 1, 600), a_job(at, 2, 0), a_job(at, 3, 600)]
    service = a_service(at, launches)
    assert service.stdout is not None
    told: list[str] = []
    while "Ended 2 1\n" not in told or "Started 1 1\n" not in told or "Started 3 1\n" not in told:
        told.append(service.stdout.readline())
        assert told[-1], "the service ended by itself"
    kill(service)
    shims = [shim_of(launch)["pid"] for launch in launches]
    assert alive(shims[0])

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.adopt(launches)
            assert {type(report) for report in heard.reports if report.run.job == 2} == {Ended}
            # That a run has started is told before its command has done anything.
            await until(lambda: begun(at, 1) == begun(at, 3) == 1)
            for job in (1, 3):
                started = await heard.started(RunId(job, 1))
                assert started.adopted
                assert started.at_s == shim_of(launches[job - 1])["started_at_s"]
                await executor.stop(started.run, 60.0)
                assert (await heard.ended(started.run)).why == "stopped"
            await executor.adopt(launches)  # again, without doing any harm

    play(scenario())
    assert [begun(at, job) for job in (1, 2, 3)] == [1, 1, 1]
    play(until(lambda: not any(alive(pid) for pid in shims)))  # a shim writes how a run ended, and then ends


@pytest.mark.parametrize("seed", range(4))
def test_a_service_killed_at_any_moment_starts_nothing_twice_and_forgets_nothing(at: Path, seed: int) -> None:
    chance = random.Random(seed)
    launches = [a_job(at, job, 0.5) for job in range(1, 7)]
    service = a_service(at, launches)
    assert service.stdout is not None
    for _ in range(chance.randrange(8)):
        service.stdout.readline()
    threading.Event().wait(chance.random() * 0.05)
    kill(service)

    reports = adopt(*launches, then_wait=True)

    for launch in launches:
        ends = [one for one in reports if isinstance(one, Ended) and one.run == launch.run]
        assert [(end.why, end.exit_code) for end in ends] == [("exited", 0)]
        assert begun(at, launch.run.job) == 1


def test_what_was_never_written_down_is_started(at: Path) -> None:
    reports = adopt(a_job(at, 1, 0), then_wait=True)

    assert [type(one) for one in reports] == [Started, Ended]
    assert isinstance(reports[0], Started)
    assert not reports[0].adopted


def test_a_run_whose_service_crashed_before_there_was_a_shim_is_started(at: Path) -> None:
    launch = a_job(at, 1, 0)
    write_launch(launch, Assigned(), False, KEEPING)

    assert [type(one) for one in adopt(launch, then_wait=True)] == [Started, Ended]
    assert begun(at, 1) == 1


def test_a_run_whose_shim_is_just_starting_is_not_started_again(at: Path) -> None:
    launch = a_job(at, 1, 0.2)
    forker = Forker()
    _, bell = forker.spawn(launch.folder, write_launch(launch, Assigned(), False, KEEPING))

    reports = adopt(launch, then_wait=True)

    forker.close()
    assert os.read(bell, 1) in (bytes([files.RUNS]), bytes([files.BUSY]))
    os.close(bell)
    assert isinstance(reports[-1], Ended)
    assert begun(at, 1) == 1


def test_a_shim_that_has_the_lock_but_has_not_told_yet_is_waited_for(at: Path) -> None:
    launch = a_job(at, 1, 0)
    write_launch(launch, Assigned(), False, KEEPING)
    lock = files.try_lock(launch.folder)
    assert lock is not None

    async def scenario() -> None:
        async with executing() as (executor, heard):
            adopting = asyncio.ensure_future(executor.adopt([launch]))
            await asyncio.sleep(0.3)
            assert heard.reports == []
            os.close(lock)
            await adopting
            assert (await heard.ended(launch.run)).exit_code == 0

    play(scenario())
    assert begun(at, 1) == 1


def test_an_end_that_nobody_heard_of_is_told(at: Path) -> None:
    launch = a_job(at, 1, 0)
    ended = run_to_end(launch)

    assert adopt(launch) == [ended]


def test_a_killed_shim_takes_its_command_along_and_the_run_is_lost(at: Path) -> None:
    program = "sleep 611 & echo $!; setsid sleep 612 & echo $!; sleep 613 & echo $!; wait"
    launch = a_launch(at, "bash", "-c", program)

    async def scenario() -> list[int]:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and log_of(launch).count("\n") == 3)
            os.kill(shim_of(launch)["pid"], signal.SIGKILL)
            ended = await heard.ended()
            assert (ended.why, ended.exit_code, ended.signal) == ("lost", None, None)
            assert ended.message is not None
            assert "was killed from outside; " in ended.message
            return [shim_of(launch)["pgid"], *map(int, log_of(launch).split())]

    processes = play(scenario())
    assert not any(alive(pid) for pid in processes)
    assert [type(one) for one in adopt(launch)] == [Ended]  # and so it stays


def test_a_shim_killed_while_no_service_ran_leaves_nothing_behind(at: Path) -> None:
    launch = a_launch(at, "bash", "-c", "sleep 621 & echo $!; setsid sleep 622 & echo $!; wait")

    async def scenario() -> None:
        async with executing() as (executor, _):
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and log_of(launch).count("\n") == 2)

    play(scenario())
    os.kill(shim_of(launch)["pid"], signal.SIGKILL)
    play(until(lambda: not alive(shim_of(launch)["pid"])))
    left = [int(pid) for pid in log_of(launch).split()]
    assert all(alive(pid) for pid in left)

    (ended,) = adopt(launch)

    assert isinstance(ended, Ended)
    assert ended.why == "lost"
    assert not any(alive(pid) for pid in left)


def test_others_are_left_alone_when_numbers_are_used_again(at: Path) -> None:
    launch = a_launch(at, "true")
    run_until_left(launch)
    Path(launch.folder, "exit.json").unlink()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        try:
            shim = {**shim_of(launch), "pid": other.pid, "pgid": other.pid}
            Path(launch.folder, "shim.json").write_text(json.dumps(shim))

            (ended,) = adopt(launch)

            assert isinstance(ended, Ended)
            assert ended.why == "lost"
            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.parametrize("had_begun", [True, False])
def test_a_restarted_machine_loses_what_ran(at: Path, had_begun: bool) -> None:
    launch = a_job(at, 1, 0)
    run_until_left(launch)
    Path(launch.folder, "exit.json").unlink()
    record = json.loads(Path(launch.folder, "launch.json").read_text())
    Path(launch.folder, "launch.json").write_text(json.dumps({**record, "boot_id": "an earlier one"}))
    if not had_begun:  # for all that can be known: what was written last may not have reached the disk
        Path(launch.folder, "shim.json").unlink()

    (ended,) = adopt(launch)

    assert isinstance(ended, Ended)
    assert (ended.why, ended.message) == ("node-lost", "the machine restarted while it ran")
    assert begun(at, 1) == 1


@pytest.mark.parametrize("content", ["", "\0" * 300, '{"why": "exi'])
def test_an_exit_status_that_a_restart_of_the_machine_has_damaged_counts_as_missing(
    at: Path, content: str
) -> None:
    launch = a_job(at, 1, 0)
    run_until_left(launch)
    Path(launch.folder, "exit.json").write_text(content)
    record = json.loads(Path(launch.folder, "launch.json").read_text())
    Path(launch.folder, "launch.json").write_text(json.dumps({**record, "boot_id": "an earlier one"}))

    (ended,) = adopt(launch)

    assert isinstance(ended, Ended)
    assert (ended.why, ended.message) == ("node-lost", "the machine restarted while it ran")


@pytest.mark.parametrize("may_restart", [True, False])
def test_only_what_may_not_run_twice_waits_for_the_disk(
    at: Path, monkeypatch: pytest.MonkeyPatch, may_restart: bool
) -> None:
    order: list[str] = []
    spawn, sync = Forker.spawn, files.sync

    def spawned(forker: Forker, folder: str, record: dict[str, Any]) -> tuple[int, int]:
        order.append("spawn")
        return spawn(forker, folder, record)

    def synced(path: str) -> None:
        order.append(Path(path).name)
        sync(path)

    monkeypatch.setattr(Forker, "spawn", spawned)
    monkeypatch.setattr(files, "sync", synced)
    run_to_end(a_launch(at, "true", may_restart=may_restart))

    on_disk = ["launch.json", "1", "1", "runs"]
    assert order == (["spawn", *on_disk] if may_restart else [*on_disk, "spawn"])


def test_a_service_that_is_killed_before_the_command_begins_takes_nothing_with_it(at: Path) -> None:
    launch = a_job(at, 1, 0)
    record = write_launch(launch, Assigned(), False, KEEPING)
    forker = Forker()
    lock = files.try_lock(launch.folder)  # so that it has not begun yet
    assert lock is not None
    _, bell = forker.spawn(launch.folder, record)
    os.close(bell)
    os.close(lock)
    forker.close()

    play(until(Path(launch.folder, "exit.json").exists))
    assert begun(at, 1) == 1
    assert json.loads(Path(launch.folder, "exit.json").read_text())["exit_code"] == 0


def test_a_folder_removed_under_a_run_does_not_stop_the_executor(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sleep", "600")
            await executor.start(launch)
            await heard.started()
            pgid = shim_of(launch)["pgid"]
            shutil.rmtree(launch.folder)
            await executor.stop(RUN, 1.0)
            with contextlib.suppress(ProcessLookupError):  # it may have stopped already
                os.killpg(pgid, signal.SIGKILL)
            ended = await heard.ended()
            assert ended.why == "lost"
            assert ended.message == f"its folder {launch.folder} was removed while it ran"

    play(scenario())


@pytest.mark.parametrize("name", ["exit.json", "shim.json"])
def test_a_damaged_file_is_no_obstacle(at: Path, name: str) -> None:
    launch = a_launch(at, "true")
    run_until_left(launch)
    Path(launch.folder, "exit.json").unlink()
    Path(launch.folder, name).write_text('{"why": "exi')

    (ended,) = adopt(launch)

    assert isinstance(ended, Ended)
    assert ended.why == "lost"
    assert ended.message


def test_started_twice_by_one_executor_it_runs_once(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_job(at, 1, 0.2)
            for _ in range(3):
                await executor.start(launch)
            await heard.ended(launch.run)
            assert [type(one) for one in heard.reports] == [Started, Ended]
            await executor.start(launch)  # it is over: that is told again
            await until(lambda: len(heard.reports) == 3)
            assert heard.reports[1] == heard.reports[2]

    play(scenario())
    assert begun(at, 1) == 1


def test_started_by_several_executors_at_once_it_runs_once(at: Path) -> None:
    async def scenario() -> None:
        heard = [Heard() for _ in range(4)]
        executors = [LocalExecutor(one, group=None) for one in heard]
        launches = [a_job(at, job, 0.3) for job in range(1, 4)]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(executor.start(launch) for launch in launches for executor in executors))
            for launch in launches:
                ends = [await one.ended(launch.run) for one in heard]
                assert {(end.why, end.exit_code) for end in ends} == {("exited", 0)}
                started = [one for each in heard for one in each.reports if isinstance(one, Started)]
                assert sum(not one.adopted for one in started if one.run == launch.run) <= 1
        for executor in executors:
            await executor.close()

    play(scenario())
    assert [begun(at, job) for job in (1, 2, 3)] == [1, 1, 1]


def test_two_shims_for_one_run_and_one_gives_way(at: Path) -> None:
    launch = a_job(at, 1, 0.5)
    record = write_launch(launch, Assigned(), False, KEEPING)
    forker = Forker()
    bells = [forker.spawn(launch.folder, record)[1] for _ in range(4)]
    said = [os.read(bell, 1) for bell in bells]
    for bell in bells:
        os.close(bell)
    forker.close()

    assert sorted(said) == [bytes([files.RUNS]), *[bytes([files.BUSY])] * 3]
    play(until(lambda: begun(at, 1) > 0))
    assert begun(at, 1) == 1


def test_without_pidfds_processes_are_looked_at(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    launch = a_job(at, 1, 0.3)

    async def scenario() -> None:
        async with executing(look_s=0.05) as (executor, heard):
            await executor.start(launch)
            await heard.started(launch.run)
        async with executing(look_s=0.05) as (executor, heard):
            await executor.adopt([launch])
            assert (await heard.ended(launch.run)).exit_code == 0

    play(scenario())


def test_adopted_runs_keep_their_cores(at: Path) -> None:
    async def scenario() -> None:
        first = a_launch(at, "sleep", "600", cpu=1.0, run=RunId(1, 1))
        second = a_launch(at, "sleep", "600", cpu=1.0, run=RunId(2, 1))
        third = a_launch(
            at, *python("import os; print(os.environ['BETIMES_CPUS'])"), cpu=1.0, run=RunId(3, 1)
        )
        async with executing(cpus=[0, 1]) as (executor, heard):
            for launch in (first, second):
                await executor.start(launch)
                await heard.started(launch.run)
            await executor.stop(first.run, 5.0)
            await heard.ended(first.run)
        async with executing(cpus=[0, 1]) as (executor, heard):
            await executor.adopt([second, third])
            await heard.ended(third.run)
            assert log_of(third) == "0\n"
            await executor.stop(second.run, 5.0)
            await heard.ended(second.run)

    play(scenario())


@pytest.mark.parametrize("is_over", [True, False])
def test_what_a_run_of_another_log_has_left_is_set_aside_and_goes_on_there(at: Path, is_over: bool) -> None:
    gate = at / "gate"
    script = f"echo $WHOSE; until [ -e {gate} ]; do sleep 0.02; done; echo $WHOSE is done"
    own, other = (
        a_launch(at, "sh", "-c", script, identity=whose, env={"PATH": os.environ["PATH"], "WHOSE": whose})
        for whose in ("own", "other")
    )

    async def scenario() -> None:
        async with executing() as (former, heard):
            await former.start(other)
            await heard.started()
            if is_over:
                gate.touch()
                await heard.ended()
                gate.unlink()
        async with executing() as (executor, heard):
            await executor.adopt([own])
            assert not (await heard.started()).adopted
            await until(lambda: log_of(own) != "")
            await executor.stop(RUN, 60.0)
            assert (await heard.ended()).why == "stopped"

    play(scenario())
    (aside,) = Path(own.folder).parent.glob("1.of-other")
    supervisor = json.loads((aside / "shim.json").read_text())["pid"]
    assert is_over or alive(supervisor)
    gate.touch()
    play(until(lambda: not alive(supervisor)))
    assert json.loads((aside / "exit.json").read_text())["why"] == "exited"
    assert (aside / "log").read_text() == "other\nother is done\n"
    assert log_of(own) == "own\n"


def test_what_was_set_aside_is_taken_back_by_the_log_that_it_is_of(at: Path) -> None:
    own, other = a_job(at, 1, 600), a_launch(at, "true", identity="other")

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(own)
            await heard.started()
        async with executing() as (executor, heard):
            await executor.start(other)
            await heard.ended()
        async with executing() as (executor, heard):
            await executor.adopt([own])
            assert (await heard.started()).adopted
            await executor.stop(RUN, 0.0)
            await heard.ended()

    play(scenario())
    assert begun(at, 1) == 1


def test_who_ends_what_a_run_has_left_spares_the_run_that_was_set_aside_from_its_folder(at: Path) -> None:
    gate, child = at / "gate", at / "child"
    forks_late = f"until [ -e {gate} ]; do sleep 0.02; done; sleep 600 & echo $! >{child}; wait"
    own = a_launch(at, "sleep", "600", identity="own")
    other = a_launch(at, "sh", "-c", forks_late, identity="other")

    async def scenario() -> None:
        async with executing() as (former, heard):
            await former.start(other)
            await heard.started()
        async with executing() as (executor, heard):
            await executor.adopt([own])
            await heard.started()
            gate.touch()
            await until(lambda: child.exists() and child.read_text() != "")
            os.kill(shim_of(own)["pid"], signal.SIGKILL)
            assert (await heard.ended()).why == "lost"

    play(scenario())
    try:
        assert alive(int(child.read_text()))
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
