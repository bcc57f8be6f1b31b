"""How Slurm's commands are called, and what comes of one that is missing, fails, hangs or prints oddly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from betimes.errors import SlurmError
from betimes.slurm.commands import Commands
from betimes.slurm.jobs import read_jobs
from betimes.slurm.picture import MACHINES_S, Looks
from tests.slurm.fake_slurm import FakeSlurm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_a_look_is_one_squeue_and_machines_are_asked_for_seldom(folder: Path) -> None:
    slurm, now_at = FakeSlurm(folder), [1000.0]
    looks = Looks(Commands(slurm.folder), lambda: now_at[0])
    first = looks.look()
    assert len(first.jobs) == 15
    assert first.not_understood == ()
    assert slurm.calls.read_text().count("\n") == 1
    known = looks.machines(first)
    assert looks.machines(first) is known
    now_at[0] += MACHINES_S
    assert looks.machines(first) is not known
    assert slurm.nothing_was_written


def test_a_new_node_is_asked_for(folder: Path) -> None:
    slurm = FakeSlurm(folder)
    looks = Looks(Commands(slurm.folder))
    first = looks.look()
    asked = looks.machines(first)
    assert asked is looks.machines(first)
    moved = replace(first.jobs["2"], hosts=("m1",))
    other = replace(first, jobs={"2": moved})
    assert looks.machines(other) is not asked


def test_a_users_own_settings_of_the_commands_do_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_FORMAT", "SQUEUE_USERS", "SACCT_FORMAT", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("SLURM_CONF", "kept")
    slurm = FakeSlurm(folder, instead={"sdiag": "env"})
    env = Commands(slurm.folder).sdiag().splitlines()
    assert [line for line in env if "mine" in line] == []
    assert {"SLURM_CONF=kept", "SLURM_TIME_FORMAT=%s", "LC_ALL=C"} <= {*env}


def test_a_name_in_no_encoding_is_read(folder: Path) -> None:
    row = "1|ann|PENDING|1|N/A|N/A|5:00|1|1|batch|1|None||(null)|N/A|(null)|OK"
    slurm = FakeSlurm(
        folder, instead={"squeue": f"""for last; do :; done; printf '%s|{row}|\\377\\n' "${{last%%|*}}" """}
    )
    jobs, strange = read_jobs(*Commands(slurm.folder).squeue())
    assert (jobs["1"].name, strange) == ("\ufffd", [])


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("printf 'slurm_load_jobs error: Unable to contact\\n\\033[31mslurm controller\\n' >&2; exit 1",
         r"squeue failed: slurm_load_jobs error: Unable to contact \\x1b\[31mslurm controller$"),
        ("exit 7", "squeue failed: exit code 7"),
        ("exec sleep 30", "squeue has not answered within 0.2 s; slurmctld is away or slow"),
    ],
)  # fmt: skip
def test_a_command_that_fails_or_hangs(folder: Path, script: str, why: str) -> None:
    slurm = FakeSlurm(folder, instead={"squeue": script})
    with pytest.raises(SlurmError, match=why):
        Commands(slurm.folder, 0.2 if "sleep" in script else 20.0).squeue()


def test_commands_that_are_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SlurmError, match=r"there is no squeue in .*--slurm-bin"):
        Commands(folder).squeue()
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(SlurmError, match="no sdiag in PATH"):
        Commands().sdiag()


def test_a_command_that_cannot_be_run(folder: Path) -> None:
    (folder / "sdiag").write_text("no script\n")
    (folder / "sdiag").chmod(0o755)
    with pytest.raises(SlurmError, match="cannot be run: Exec format error"):
        Commands(folder).sdiag()
