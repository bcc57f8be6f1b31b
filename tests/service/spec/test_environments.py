"""Commands within conda, a virtual environment or a container; the tools themselves are stand-ins on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from betimes.service.spec.environments import CONTAINERS, wrapped


def program(folder: Path, name: str, text: str = 'printf "%s\\n" "$0" "$@"') -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def run(
    tmp_path: Path,
    *command: str,
    conda: str | None = None,
    venv: str | None = None,
    image: str | None = None,
    memory_gib: float = 0.0,
    environ: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run within an environment; PATH has the programs in `bin`, and no container's."""
    return subprocess.run(
        wrapped(command, conda, venv, image, memory_gib),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        input="input",
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": f"{tmp_path}/home", **(environ or {})},
    )


def test_a_command_without_an_environment_is_as_it_was() -> None:
    assert wrapped(["a", "b c"], None, None, None, 1.0) == ("a", "b c")


def test_conda_is_activated(tmp_path: Path) -> None:
    hook = 'echo \'conda() { [ "$2" = known ] && export CONDA_PREFIX=/envs/$2 || { echo "no $2" >&2; return 1; }; }\''
    command = ("sh", "-c", 'cat; echo " $CONDA_PREFIX $1"; exit 3', "x", "a b")
    said = run(tmp_path, *command, conda="known")
    assert (said.returncode, said.stdout) == (127, "")
    assert said.stderr.startswith("betimes: --conda known: no conda is on this machine")
    program(tmp_path / "home/miniforge3/bin", "conda", hook)
    said = run(tmp_path, *command, conda="known")
    assert (said.returncode, said.stdout, said.stderr) == (3, "input /envs/known a b\n", "")
    said = run(tmp_path, *command, conda="other")
    assert (said.returncode, said.stdout, said.stderr) == (127, "", "no other\n")


def test_a_virtual_environment_comes_first(tmp_path: Path) -> None:
    program(tmp_path / "a venv/bin", "python", 'echo "$VIRTUAL_ENV $PYTHONHOME"')
    said = run(tmp_path, "python", venv=f"{tmp_path}/a venv", environ={"PYTHONHOME": "/elsewhere"})
    assert said.stdout == f"{tmp_path}/a venv \n"
    said = run(tmp_path, "python", venv="/none")
    assert (said.returncode, said.stderr) == (
        127,
        "betimes: --venv /none: there is none: bin/python is missing; make it: python3 -m venv\n",
    )


def test_functions_of_a_bash_reach_a_bash(tmp_path: Path) -> None:
    program(tmp_path / "v/bin", "python")
    function = {"BASH_FUNC_module%%": "() { echo loaded $2; }"}
    said = run(tmp_path, "bash", "-c", "module load gcc", venv=f"{tmp_path}/v", environ=function)
    assert said.stdout == "loaded gcc\n"


def test_a_container(tmp_path: Path) -> None:
    if any(shutil.which(each, path="/usr/bin:/bin") for each in CONTAINERS):
        pytest.skip("a container tool is installed here, which comes before the stand-ins")
    about = {
        "BETIMES_RUN_DIR": "/run dir",
        "BETIMES_CHECKPOINT_DIR": str(tmp_path),
        "CUDA_VISIBLE_DEVICES": "0",
    }
    home = f"{tmp_path}/home:{tmp_path}/home"
    said = run(tmp_path, "a", image="python:3", environ=about)
    assert (
        said.stderr
        == "betimes: --image python:3: none of apptainer podman docker is installed on this machine\n"
    )
    assert said.returncode == 127
    program(tmp_path / "bin", "docker")
    many = {**about, "LINES": "a\nFALSE=b", "BETIMES_CPUS": "1,2"}
    said = run(tmp_path, "a", "b c", image="docker://python:3", memory_gib=0.5, environ=many)
    words = said.stdout.splitlines()
    assert words[:8] == [
        f"{tmp_path}/bin/docker",
        *("run", "--rm", "--interactive", "--init", "--network", "host", "--workdir"),
    ]
    assert words[-3:] == ["python:3", "a", "b c"]
    text = " ".join(words)
    for part in (
        f"--user {os.getuid()}:{os.getgid()}",
        "--memory 536870912 --cpuset-cpus 1,2 --gpus all",
        "--env LINES",
        "--env BETIMES_RUN_DIR",
        f"--volume /run dir:/run dir --volume {tmp_path}:{tmp_path} --volume {home} python:3",
    ):
        assert part in text
    assert "--env PATH" not in text
    program(tmp_path / "bin", "podman")
    said = run(tmp_path, "a", image="python:3", environ=about)
    assert said.stdout.startswith(f"{tmp_path}/bin/podman\nrun\n--rm\n")
    assert "\n--device\nnvidia.com/gpu=all\n" in said.stdout
    program(tmp_path / "bin", "apptainer")
    said = run(tmp_path, "a", "b", image="python:3", environ=about)
    assert said.stdout.splitlines() == [
        *(f"{tmp_path}/bin/apptainer", "exec", "--pwd", f"{tmp_path}", "--nv", "--bind", "/run dir:/run dir"),
        *("--bind", f"{tmp_path}:{tmp_path}", "--bind", home, "docker://python:3", "a", "b"),
    ]
    (tmp_path / "x.sif").touch()
    assert run(tmp_path, "a", image=f"{tmp_path}/x.sif", environ=about).stdout.endswith(
        f"{tmp_path}/x.sif\na\n"
    )
