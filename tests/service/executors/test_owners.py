"""A run of another Unix user: its processes and files are that user's, and no link that it makes leads root astray."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from betimes.service.access.unix_users import Account
from betimes.service.executors.protocol import Place
from betimes.service.executors.run_folder import Assigned, assigned
from betimes.service.scheduling.events import Ended, RunId
from betimes.service.uploads.archive import pack
from tests.service.executors.running import (
    RUN,
    a_launch,
    clear_up,
    executing,
    log_of,
    play,
    run_to_end,
    until,
)
from tests.service.unix_users import PYTHON, as_root, open_folder, two_users

pytestmark = as_root


@pytest.fixture(scope="module")
def users() -> Iterator[tuple[Account, Account]]:
    with two_users() as both:
        yield both


@pytest.fixture
def state() -> Iterator[Path]:
    with open_folder() as folder:
        state = folder / "state"
        state.mkdir(mode=0o700)
        (state / "betimes.db").touch(0o644)
        yield state
        clear_up(state)


_jobs = count(1)


def ended(state: Path, user: Account, *command: str, **changes: object) -> Ended:
    """How a run of another job of this user has ended."""
    given = {"user": user.name, "workdir": "/", "env": {}, "run": RunId(next(_jobs), 1), **changes}
    return run_to_end(a_launch(state, *command, **given))


def test_its_process_has_all_of_its_owner_and_nothing_of_root(
    state: Path, users: tuple[Account, Account]
) -> None:
    ann = users[0]
    shows = (
        "import json, os, sys; print(json.dumps([os.getresuid(), os.getresgid(), sorted(os.getgroups()), "
        "os.environ['HOME'], os.environ['USER'], os.environ['LOGNAME'], os.environ.get('LANG'), os.umask(0), "
        "[line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm'))], "
        "open('/dev/stdin').read()]), flush=True); open('/dev/stdout', 'w').write('by name')"
    )
    launch = a_launch(
        state, PYTHON, "-c", shows, user=ann.name, workdir="/", stdin="typed", env={"LANG": "C"}
    )

    assert run_to_end(launch).exit_code == 0, log_of(launch)

    said, by_name = log_of(launch).split("\n")
    none, typed = "0" * 16, "typed"
    assert json.loads(said) == [
        [ann.uid] * 3, [ann.gid] * 3, sorted(ann.groups), ann.home, ann.name, ann.name, "C", 0o022, [none, none], typed,
    ]  # fmt: skip
    assert len(ann.groups) == 2
    assert by_name == "by name"


def test_what_it_writes_is_its_owners_and_what_the_service_writes_is_closed(
    state: Path, users: tuple[Account, Account], tmp_path: Path
) -> None:
    ann, ben = users
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "data").write_text("sent along\n")
    (tmp_path / "sent" / "link").symlink_to("data")
    with (state / "a.zip").open("w+b") as archive:
        pack(tmp_path / "sent", archive, 1 << 20)
    writes = 'cat link; touch here "$BETIMES_RUN_DIR/x" "$BETIMES_CHECKPOINT_DIR/y"'
    launch = a_launch(
        state, "sh", "-c", writes, user=ann.name, archive=str(state / "a.zip"),
        env={"BETIMES_CHECKPOINT_DIR": str(state / "checkpoints" / "1")},
    )  # fmt: skip

    assert run_to_end(launch).exit_code == 0, log_of(launch)

    run = Path(launch.folder)
    theirs = [run / "log", run / "job", run / "job" / "x", run / "upload", *(run / "upload").iterdir()]
    theirs += [state / "checkpoints" / "1", state / "checkpoints" / "1" / "y"]
    assert {path.lstat().st_uid for path in theirs} == {ann.uid}
    assert len(list((run / "upload").iterdir())) == 3
    everything = {path for path in state.rglob("*") if not path.is_symlink()} - set(theirs)
    assert {path.stat().st_uid for path in everything} == {0}
    assert [path for path in everything if path.stat().st_mode & 0o066] == []
    # Another user, who knows all names, gets in nowhere.
    tries = (
        f"for each in {state} {state}/betimes.db {run} {run}/log {run}/launch.json {run}/job {run}/upload "
        f"{state}/checkpoints/1 {state}/control; do ls $each/ || cat $each && echo open: $each; done"
    )
    other = a_launch(state, "sh", "-c", tries, user=ben.name, workdir="/", run=RUN._replace(job=2))
    run_to_end(other)
    assert "open:" not in log_of(other)
    assert "Permission denied" in log_of(other)


def test_what_a_job_names_is_opened_as_its_owner(state: Path, users: tuple[Account, Account]) -> None:
    ann = users[0]
    secret = state / "secret"  # root's, in a folder that ann can pass through
    secret.write_text("root's own\n")
    secret.chmod(0o600)
    closed = state / "closed"
    closed.mkdir(mode=0o700)
    (closed / "script").write_bytes(b"#!/bin/sh\r\n")
    (closed / "script").chmod(0o755)

    written = ended(state, ann, "echo", "overwritten", output=str(secret))
    entered = ended(state, ann, "true", workdir=str(closed))
    asked = ended(state, ann, str(closed / "script"))
    made = ended(state, ann, "true", checkpoint_dir=str(state / "mine"), keeps_checkpoints=False)

    assert written.why == entered.why == asked.why == made.why == "start-failed"
    assert secret.read_text() == "root's own\n"
    assert "cannot be written: Permission denied" in str(written.message)
    assert "may not be entered" in str(entered.message)
    assert "carriage return" not in str(asked.message)  # nothing is learnt of what only root may read
    assert "cannot be made: Permission denied" in str(made.message)
    own = ended(state, ann, "true", checkpoint_dir=f"{ann.home}/a/b", keeps_checkpoints=False)
    assert own.exit_code == 0
    assert Path(ann.home, "a", "b").stat().st_uid == ann.uid


def test_links_in_its_folder_lead_root_nowhere(state: Path, users: tuple[Account, Account]) -> None:
    ann = users[0]
    target = state / "target"
    target.write_text("untouched")
    # The folder of the run is root's: nothing in it can be replaced. In the job's own a link waits for each name that
    # a service may use in a moment, and a false record takes all cores.
    resizes = (
        "import json, os, signal, sys, time; import ctypes\n"
        "where = os.environ['BETIMES_RUN_DIR']; os.chdir(where)\n"
        "for name in ('log', 'exit.json', 'job', 'x'):\n"
        "    try: os.symlink(sys.argv[1], '../' + name + '.new'); os.rename('../' + name + '.new', '../' + name)\n"
        "    except PermissionError: print('refused', flush=True)\n"
        "resized = lambda *_: print('resized', open('units.json').read(), flush=True)\n"
        "os.mkdir('handlers'); signal.signal(signal.SIGUSR2, resized)\n"
        "began = int(open('/proc/self/stat').read().rpartition(')')[2].split()[19])\n"
        "open(f'handlers/{os.getpid()}', 'w').write(json.dumps({'start_ticks': began}))\n"
        "for thread in os.listdir(f'/proc/{sys.argv[2]}/task'):\n"
        "    os.symlink(sys.argv[1], f'units.json.{sys.argv[2]}-{thread}.part')\n"
        "os.symlink(sys.argv[1], 'units.json'); print('ready', flush=True); time.sleep(600)"
    )
    launch = a_launch(
        state, PYTHON, "-c", resizes, str(target), str(os.getpid()), user=ann.name, workdir="/", units=2
    )

    async def scenario() -> None:
        async with executing(cpus=(0, 1)) as (executor, heard):
            await executor.start(launch)
            await heard.started()
            await until(lambda: "ready" in log_of(launch))
            assert await executor.resize(RUN, 1, (Place("here", 1),))
            await until(lambda: "resized" in log_of(launch))
            assert '"units": 1' in log_of(launch)
            units = Path(launch.folder, "job", "units.json")
            units.unlink()
            units.write_text('{"units": 1, "cpus": [0, 1]}')
            os.chown(units, ann.uid, ann.gid)
            assert assigned(launch.folder, launch.identity) == Assigned(
                (0,)
            )  # not what its owner has written
            await executor.stop(RUN, 0.0)
            await heard.ended()

    play(scenario())
    assert log_of(launch).count("refused") == 4
    assert target.read_text() == "untouched"
    assert target.stat().st_uid == 0


def test_a_job_cannot_end_its_supervisor_or_forge_its_end(
    state: Path, users: tuple[Account, Account]
) -> None:
    forges = 'kill -9 $PPID; echo {} >"$BETIMES_RUN_DIR/../exit.json"; rm -rf "$BETIMES_RUN_DIR/.."; exit 3'

    over = ended(state, users[0], "sh", "-c", forges)

    assert (over.why, over.exit_code) == ("exited", 3)


def test_a_user_that_is_no_more_is_the_failure_of_the_run(state: Path) -> None:
    over = run_to_end(a_launch(state, "true", user="nobody-has-this-name"))

    assert over.why == "start-failed"
    assert "no Unix user 'nobody-has-this-name'" in str(over.message)
