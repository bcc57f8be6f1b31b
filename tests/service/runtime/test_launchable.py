"""A command that is not there is refused, as the job would look for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Refused
from betimes.service.machines.machine import Machine
from betimes.service.runtime.admission import can_be_known, check_launchable
from betimes.service.scheduling.node import LOST, UP, Node
from betimes.service.spec.job_spec import JobSpec

KEPT = {"PATH": "/usr/bin:/bin"}


def program(folder: Path, name: str = "mine", mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def check(command: str, workdir: Path | str = "/", kept: dict[str, str] = KEPT, **asked: Any) -> None:
    check_launchable([JobSpec(command=[command, "an argument"], workdir=str(workdir), **asked)], kept)


def refused(*args: Any, **named: Any) -> str:
    with pytest.raises(Refused) as error:
        check(*args, **named)
    assert error.value.field == "command"
    return str(error.value)


def test_programs_of_the_path_are_found(tmp_path: Path) -> None:
    check("sh")
    said = refused("no-such-program")
    assert "'no-such-program' does not exist: it is in none of the folders of PATH;" in said
    assert KEPT["PATH"] not in said


def test_the_jobs_own_path_counts(tmp_path: Path) -> None:
    program(tmp_path / "bin")
    refused("mine")
    check("mine", env={"PATH": f"/usr/bin:{tmp_path}/bin"})
    refused("sh", env={"PATH": str(tmp_path)})
    check("mine", workdir=tmp_path, env={"PATH": "bin"})  # seen from where the job runs
    check("sh", kept={})  # the system's own path, as for a job without one


def test_paths_are_seen_from_the_working_directory(tmp_path: Path) -> None:
    file = program(tmp_path / "bin")
    check(str(file))
    check("bin/mine", workdir=tmp_path)
    check("./mine", workdir=tmp_path / "bin")
    said = refused("./mine", workdir=tmp_path)
    assert said.endswith(f"'./mine' does not exist (seen from the working directory {str(tmp_path)!r})")


@pytest.mark.skipif(os.name != "posix", reason="there are no modes")
def test_what_cannot_be_executed_is_no_command(tmp_path: Path) -> None:
    file = program(tmp_path, mode=0o644)
    assert "is not executable; make it so" in refused(str(file))
    assert "is not executable" in refused(str(tmp_path))
    assert "File name too long" in refused("/" + "x" * 300)


def refused_folder(field: str, **asked: Any) -> str:
    with pytest.raises(Refused) as error:
        check("sh", **asked)
    assert error.value.field == field
    return str(error.value)


def test_an_environment_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = refused_folder("venv", venv=str(tmp_path))
    assert said.endswith(
        "is no virtual environment, as it has no bin/python; make one with `python3 -m venv`, or name another"
    )
    program(tmp_path / "bin", "python")
    program(tmp_path / "bin", "tool")
    check("tool", venv=str(tmp_path))
    said = refused_folder("image", image="python:3", kept={"PATH": f"{tmp_path}/bin"})
    assert said.startswith(
        "image: none of apptainer, podman, docker is installed on the machine that runs the job"
    )
    program(tmp_path / "bin", "podman")
    check("only-in-the-image", image="python:3", kept={"PATH": f"{tmp_path}/bin"})
    check("only-in-conda", conda="train")
    with pytest.raises(ValueError, match="conda and image exclude each other"):
        JobSpec(command=["a"], conda="train", image="python:3")


def test_a_working_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    said = refused_folder("workdir", workdir=tmp_path / "missing")
    assert (
        said
        == f"workdir: the working directory '{tmp_path}/missing' does not exist; create it or name another"
    )
    assert "is not a folder" in refused_folder("workdir", workdir=program(tmp_path))
    assert "File name too long" in refused_folder("workdir", workdir="/" + "x" * 300)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_working_directory_that_may_not_be_entered_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o600)
    assert "may not be entered" in refused_folder("workdir", workdir=tmp_path / "closed")


def test_a_checkpoint_folder_is_made_where_it_can_be(tmp_path: Path) -> None:
    check("sh", checkpoint_dir=str(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()
    file = program(tmp_path)
    said = refused_folder("checkpoint_dir", checkpoint_dir=str(file))
    assert said == f"checkpoint_dir: '{file}' is no folder; name another"
    said = refused_folder("checkpoint_dir", checkpoint_dir=str(file / "below"))
    assert said == f"checkpoint_dir: '{file}/below' cannot be made, since '{file}' is no folder; name another"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_checkpoint_folder_below_one_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    said = refused_folder("checkpoint_dir", checkpoint_dir=str(tmp_path / "closed" / "mine"))
    assert f"'{tmp_path}/closed' may not be written" in said


def test_a_script_whose_interpreter_is_not_there_is_refused(tmp_path: Path) -> None:
    file = program(tmp_path)
    file.write_text("#! /no/such/interpreter -u\n")
    said = refused(str(file))
    assert said.endswith("cannot run: the interpreter that its first line names does not exist")
    check("sh", workdir=tmp_path)
    for line in ("#!/bin/sh\r\n", "#!/usr/bin/env bash\r\n"):
        file.write_bytes(line.encode())
        said = refused(str(file))
        assert "its first line ends with a carriage return, as on Windows" in said
        assert said.endswith(f"remove them: sed -i 's/\\r$//' {file}")
    file.write_text("#!/usr/bin/env no-such-program\n")
    check(str(file))  # what env looks for is its own affair
    file.write_bytes(b"#!")
    check(str(file))


def test_one_that_follows_another_may_be_made_by_it(tmp_path: Path) -> None:
    check("no-such-program", after=["1"])
    check("sh", workdir=tmp_path / "missing", after=["1"])


def test_of_several_jobs_every_one_is_looked_at() -> None:
    specs = [JobSpec(command=[name], workdir="/") for name in ("sh", "sh", "no-such-program")]
    with pytest.raises(Refused, match="no-such-program") as refused:
        check_launchable(specs, KEPT)
    assert refused.value.field == "jobs[2].command"


def test_it_can_be_known_of_this_machine_alone() -> None:
    here = Node(Machine("local", "local", "cpu", 2.0, 8.0, 0.0), UP)
    elsewhere = Node(Machine("v-0", "virtual", "v", 2.0, 8.0, 0.0), UP)
    assert can_be_known([here])
    assert not can_be_known([here, elsewhere])
    assert not can_be_known([])
    elsewhere.status = LOST
    assert can_be_known([here, elsewhere])
