"""A job can write anything into its run's folder: that is its own run's failure, and nothing else's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from betimes.service.executors.log_files import lost_bytes
from betimes.service.scheduling.events import Ended, RunId, Started, Trouble
from tests.service.executors.running import (
    RUN,
    a_launch,
    alive,
    executing,
    log_of,
    play,
    run_to_end,
    shim_of,
    until,
)

OTHER = RunId(2, 1)


def says(**changed: object) -> str:
    return json.dumps({"why": "exited", "exit_code": 0, **changed})


FORGED = {
    "max_rss_gib is 'x'": says(max_rss_gib="x"),
    "exit_code is '1000'": says(exit_code=1000),
    "why is 'great'": says(why="great"),
    "ended_at_s is '1e+300'": says(ended_at_s=1e300),
    "cpu_s is 'nan'": says(cpu_s=float("nan")),
    "signal is 'True'": says(signal=True),
    "message is 'a": says(message="a\0b"),
    "why is missing": "{}",
    "it is not a JSON object": "[1]",
    "it is not JSON": "[" * 100_000,
    "bytes, and at most": says(message="x" * 2**21),
}


def to_a_folder(file: Path) -> None:
    file.mkdir()
    (file / "in it").touch()


def to_a_fifo(file: Path) -> None:
    os.mkfifo(file)


def to_a_link(file: Path) -> None:
    file.symlink_to("/dev/zero")


def left_over(at: Path, change: Callable[[Path], object]) -> Ended:
    """What a service that comes back makes of a run whose exit.json is something else; another run goes on beside."""
    launch, other = a_launch(at, "true"), a_launch(at, "sleep", "600", run=OTHER)
    run_to_end(launch)
    play(until(lambda: not alive(shim_of(launch)["pid"])))
    file = Path(launch.folder, "exit.json")
    file.unlink()
    change(file)

    async def scenario() -> Ended:
        async with executing() as (executor, heard):
            await executor.start(other)
            await heard.started(OTHER)
        async with executing() as (executor, heard):
            await executor.adopt([launch, other])
            assert (await heard.started(OTHER)).adopted
            await executor.stop(OTHER, 60.0)
            assert (await heard.ended(OTHER)).signal == signal.SIGTERM
            return await heard.ended(RUN)

    return play(scenario())


@pytest.mark.parametrize("wrong", FORGED)
def test_a_record_that_cannot_be_true_is_the_failure_of_its_run_alone(at: Path, wrong: str) -> None:
    ended = left_over(at, lambda file: file.write_text(FORGED[wrong]))

    assert ended.why == "lost"
    assert ended.message is not None
    assert f"{at}/runs/1/1/exit.json is damaged: " in ended.message
    assert wrong in ended.message
    assert len(ended.message) < 500
    assert ended.max_rss_gib is None


@pytest.mark.parametrize("change", [to_a_folder, to_a_fifo, to_a_link])
def test_what_is_no_file_is_the_failure_of_its_run_alone(at: Path, change: Callable[[Path], object]) -> None:
    ended = left_over(at, change)

    assert ended.why == "lost"
    assert f"{at}/runs/1/1/exit.json " in str(ended.message)


def test_a_job_that_writes_its_own_end_and_goes_on_is_not_believed(at: Path) -> None:
    forges = (
        f"echo '{says()}' >$BETIMES_RUN_DIR/exit.json; echo '{says()}' >$BETIMES_RUN_DIR/../exit.json; echo 1"
    )
    launch = a_launch(at, "sh", "-c", f"{forges}; exec sleep 600")

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
            await until(lambda: log_of(launch) == "1\n")
        Path(launch.folder, "lock").unlink()  # so that only its supervisor can tell
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            assert [type(one) for one in heard.reports] == [Started]
            await executor.stop(RUN, 60.0)
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("stopped", signal.SIGTERM)

    play(scenario())


def test_a_job_that_removes_its_own_folder_only_loses_what_is_its_own(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", 'rm -rf "$BETIMES_RUN_DIR"; echo gone; exit 3')

    ended = run_to_end(launch)

    assert (ended.why, ended.exit_code) == ("exited", 3)
    assert log_of(launch) == "gone\n"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_job_that_removes_all_that_is_known_of_its_run_has_started_and_starts_once(
    at: Path, is_restarted: bool
) -> None:
    # Again where the supervisor has just put a file there.
    removes = 'until rm -rf "${BETIMES_RUN_DIR%/*}"; do sleep 0.01; done'
    begins = f"echo 1 >>{at}/begun; {removes}; while [ ! -e {at}/go ]; do sleep 0.05; done"
    launch = a_launch(at, "sh", "-c", begins)

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
            await until(lambda: not Path(launch.folder).exists())
            if not is_restarted:
                (at / "go").touch()
                assert (await heard.ended()).why == "lost"
                return
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            (at / "go").touch()
            ended = await heard.ended()
            assert (ended.why, ended.message) == (
                "lost",
                f"its folder {launch.folder} was removed while it ran",
            )
            assert any(isinstance(one, Trouble) for one in heard.reports)

    play(scenario())
    assert (at / "begun").read_text() == "1\n"


@pytest.mark.parametrize("name", ["exit.json", "exit.reserved", "log"])
def test_a_folder_in_the_way_of_a_record_does_not_keep_how_it_ended(at: Path, name: str) -> None:
    puts = f'cd "$BETIMES_RUN_DIR/.."; rm -f {name}; mkdir {name}; touch {name}/in; exit 5'

    assert run_to_end(a_launch(at, "sh", "-c", puts)).exit_code == 5


def test_a_forged_supervisor_is_neither_watched_nor_harmed(at: Path) -> None:
    launch = a_launch(at, "sleep", "600")

    async def scenario(bystander: int) -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
        file = Path(launch.folder, "shim.json")
        started_at_s = shim_of(launch)["started_at_s"]
        file.write_text(
            json.dumps(
                {"pid": bystander, "start_ticks": None, "started_at_s": started_at_s, "pgid": bystander}
            )
        )
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            await executor.stop(RUN, 60.0)
            assert (await heard.ended()).signal == signal.SIGTERM
            assert f"process {bystander} is not the run's supervisor" in str(heard.reports)

    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        try:
            play(scenario(other.pid))
            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.parametrize("change", [to_a_folder, to_a_fifo, shutil.rmtree])
def test_what_is_lost_of_a_log_is_not_waited_for(at: Path, change: Callable[[Path], object]) -> None:
    file = at / "log.lost"
    if change is shutil.rmtree:
        file.write_text("-5")
    else:
        change(file)

    assert lost_bytes(at / "log") == 0
