"""The chaos scripts, for some seconds: nothing is lost, doubled or falsely ended, and what is wrong is found."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.reliability.starting import SOURCES
from tests.service.unix_users import as_root, two_users

SCRIPTS = SOURCES / "benchmarks"
NOTHING = ["lost               0", "doubled            0", "falsely ended      0"]


def chaos(*arguments: str, script: str = "chaos.py") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES / "src"), "NUMBA_DISABLE_JIT": "1"},
    )


@pytest.mark.slow
def test_nothing_is_lost_doubled_or_falsely_ended() -> None:
    said = chaos("--seconds", "8", "--seed", "3")
    assert said.stdout.splitlines()[-3:] == NOTHING, said.stdout + said.stderr
    assert said.returncode == 0


@as_root
@pytest.mark.slow
def test_nor_where_the_jobs_are_those_of_two_unix_users() -> None:
    with two_users() as (ann, ben):
        said = chaos("--seconds", "5", "--seed", "2", "--owners", f"{ann.name},{ben.name}")
    assert said.stdout.splitlines()[-3:] == NOTHING, said.stdout + said.stderr
    assert said.returncode == 0


@pytest.mark.slow
def test_nor_while_the_database_restarts(
    tmp_path: Path, postgres_url: str, restart_postgres: list[str]
) -> None:
    restart = shlex.join(restart_postgres)
    options = (
        "--service",
        str(tmp_path / "state"),
        "--restart-database",
        restart,
        "--",
        "--database",
        postgres_url,
    )
    said = chaos("--seconds", "5", "--seed", "1", *options)
    assert said.stdout.splitlines()[-3:] == NOTHING, said.stdout + said.stderr
    assert "databases restarted" in said.stdout


@pytest.mark.slow
def test_nor_on_rented_machines_which_all_go_back_and_are_paid_for_as_long_as_they_were_there() -> None:
    said = chaos("--fleet", "local", "--kills", "5", "--jobs", "15", "--seed", "3", script="chaos_rented.py")
    assert said.stdout.splitlines()[-3:] == NOTHING, said.stdout + said.stderr
    assert said.returncode == 0
    assert "services killed" in said.stdout
    assert "machines killed" in said.stdout
