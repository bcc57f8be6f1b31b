"""Slurm's `srun`: the tasks of a step within a job, and a job of its own elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.cli.conftest import Call, Said, program

Srun = Callable[..., Said]
CALL = [
    sys.executable,
    "-c",
    "import sys; from betimes.cli.slurm import main; sys.exit(main('srun', sys.argv[1:]))",
]


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of the script of job 41, which has two cores and two GPUs."""
    (tmp_path / "own").mkdir()
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("BETIMES_", "SLURM_"))
    }
    return inherited | {
        "BETIMES_JOB_ID": "41", "BETIMES_RUN_DIR": str(tmp_path / "own"), "BETIMES_ATTEMPT": "1",
        "SLURM_CPUS_ON_NODE": "2", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "here", "CUDA_VISIBLE_DEVICES": "A,B",
    }  # fmt: skip


@pytest.fixture
def srun(job: dict[str, str], tmp_path: Path) -> Srun:
    """Call it within that job."""

    def call(*words: str, stdin: str = "", **more: str) -> Said:
        done = subprocess.run(
            [*CALL, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=job | more,
            cwd=tmp_path,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return call


def test_tasks_of_a_step(srun: Srun, tmp_path: Path) -> None:
    show = "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_STEP_ID $CUDA_VISIBLE_DEVICES; exit $SLURM_PROCID"
    said = srun("-l", "--gpus-per-task=1", "sh", "-c", show)
    assert sorted(said.out.splitlines()) == ["0: 0 0 2 0 A", "1: 1 1 2 0 B"]
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.endswith("task 1: Exited with exit code 1\n")
    assert srun("-n1", "--gres=gpu:1", "--cpu-bind=q", "sh", "-c", show).out == "0 0 1 1 A\n"
    assert srun("-n1", "cat", stdin="in\n").out == "in\n"
    assert sorted(srun("cat", stdin="in\n").out.splitlines()) == ["in", "in"]
    assert srun("-lu", "-i", "none", "-n", "1", "cat", stdin="in\n").out == ""
    assert (
        srun("-n1", "--output=o_%j_%t", "--error=e_%J", "sh", "-c", "echo out; echo err >&2; exit 7").code
        == 7
    )
    assert [(tmp_path / name).read_text() for name in ("o_41_0", "e_41.5")] == ["out\n", "err\n"]
    assert srun("-o", "o_%j", "sh", "-c", "echo both", BETIMES_ATTEMPT="2").code == 0
    assert (tmp_path / "o_41").read_text() == "both\nboth\n"
    assert srun("-K", "sh", "-c", "test $SLURM_PROCID = 0 && exec sleep 600; kill -9 $$").code == 143
    for count in ("-n1", "-n2"):
        said = srun(count, "./missing")
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert "./missing: No such file" in said.err


def test_nodes_on_one_machine(srun: Srun) -> None:
    show = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $CUDA_VISIBLE_DEVICES $SLURM_TASKS_PER_NODE"
    nodes = {"SLURM_JOB_NODELIST": "here,here", "SLURM_NNODES": "2"}
    assert sorted(srun("sh", "-c", show, **nodes).out.splitlines()) == ["0 0 0 A 1(x2)", "1 1 0 B 1(x2)"]
    lines = srun("-n4", "--gpus=2", "sh", "-c", show, **nodes).out.splitlines()
    assert sorted(lines) == ["0 0 0 A 2(x2)", "1 0 1 A 2(x2)", "2 1 0 B 2(x2)", "3 1 1 B 2(x2)"]


def test_steps_at_once_share_the_cores(srun: Srun, job: dict[str, str]) -> None:
    pipes: Any = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": job,
    }
    with subprocess.Popen([*CALL, "sh", "-c", "echo up; read line"], **pipes) as both:
        assert both.stdin is not None and both.stdout is not None  # noqa: PT018
        assert [both.stdout.readline() for _ in range(2)] == ["up\n", "up\n"]
        assert srun("--overlap", "-n1", "echo", "beside").out == "beside\n"
        assert srun("-n1", "echo", "within", SLURM_STEP_ID="0").out == "within\n"
        with subprocess.Popen([*CALL, "-n1", "echo", "then"], **pipes) as waiting:
            assert waiting.stdout is not None and waiting.stderr is not None  # noqa: PT018
            assert waiting.stderr.readline() == "srun: step waits until others of this job are over\n"
            both.stdin.close()
            assert waiting.stdout.read() == "then\n"


def test_signals_are_passed_on(job: dict[str, str]) -> None:
    script = "trap 'exit 9' USR2; echo up; while :; do sleep 0.05; done"
    with subprocess.Popen([*CALL, "sh", "-c", script], stdout=subprocess.PIPE, env=job) as step:
        assert step.stdout is not None
        assert [step.stdout.readline() for _ in range(2)] == [b"up\n", b"up\n"]
        step.send_signal(signal.SIGUSR2)
        assert step.wait() == 9


def test_outside_a_job(betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    betimes("slurm", "commands", tmp_path / "bin")

    def call(*words: str) -> Said:
        done = subprocess.run(
            [tmp_path / "bin/srun", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def typed(command: str, *words: str) -> tuple[int, bytes]:
        call = [tmp_path / "bin" / command, *words]
        done = subprocess.run(call, capture_output=True, check=False, input=b"echo $((40 + 2)); exit 3\n")
        return done.returncode, done.stdout

    async def story() -> None:
        async with running(ServiceConfig(state=tmp_path / "state")):
            assert await asyncio.to_thread(call, "sh", "-c", "echo hello; exit 7") == Said(7, "hello\n", "")
            said = await asyncio.to_thread(
                call, "-l", "-n1", "-J", "name", "sh", "-c", "echo $SLURM_JOB_NAME"
            )
            assert said == Said(0, "0: name\n", "")
            said = await asyncio.to_thread(
                call, "sh", "-c", f"{tmp_path}/bin/squeue -h -o %t"
            )  # a job asks, too
            assert said == Said(0, "R\n", "")
            said = await asyncio.to_thread(call, "--test-only", "true")
            assert said.err.startswith("srun: Job 0 to start at ")
            script = "#!/bin/sh\necho $SLURM_NNODES $SLURM_CPUS_ON_NODE; srun -l sh -c 'echo $SLURM_NODEID'\n"
            (tmp_path / "job.sh").write_text(script)
            monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
            batch = [tmp_path / "bin/sbatch", "--wait", "-N2", "-osaid", "job.sh"]
            assert (await asyncio.to_thread(subprocess.run, batch, check=False)).returncode == 0
            first, *tasks = (tmp_path / "said").read_text().splitlines()
            assert (first, sorted(tasks)) == ("2 1", ["0: 0", "1: 1"]), "both on this machine"
            for words, part in (
                (["--jobid=1", "x"], "--jobid: cannot"),
                (["--pty"], "no program is given"),
            ):
                said = await asyncio.to_thread(call, *words)
                assert said.code == 1
                assert part in said.err
            for command, words in (("srun", ["--pty", "-n2", "sh"]), ("salloc", ["-n2", "-J", "shell"])):
                monkeypatch.setenv("SHELL", "/bin/sh")
                code, shown = await asyncio.to_thread(typed, command, *words)
                assert code == 3
                assert b"42\r\n" in shown
            jobs = await asyncio.to_thread(program, "jobs", "--all", "--json")
            assert [job["name"] for job in jobs.json()] == ["shell", "sh", "job.sh", "sh", "name", "sh"]

    asyncio.run(story())


def test_variables_stand_for_options(srun: Srun) -> None:
    show = "echo $SLURM_PROCID $SLURM_NTASKS $SLURM_CPUS_PER_TASK"
    said = srun(
        "sh", "-c", show, SLURM_LABELIO="1", SLURM_JOB_ID="41", SLURM_JOB_NUM_NODES="1", SLURM_GPUS="2"
    )
    assert sorted(said.out.splitlines()) == ["0: 0 2", "1: 1 2"]
    said = srun("-n1", "sh", "-c", show, SRUN_CPUS_PER_TASK="2", SLURM_NTASKS_PER_CORE="1")
    assert (said.code, said.out) == (0, "0 1 2\n")
    assert (
        srun("-n2", "true", SRUN_CPUS_PER_TASK="2", SLURM_EXIT_ERROR="7").code == 7
    )  # as the job has two cores
    for variable, part in (
        ("SLURM_TIMELIMIT", "--time: cannot be kept within a job; write timeout 10m PROGRAM"),
        ("SLURM_DEPENDENCY", "--dependency: cannot be kept within a job; unset it"),
        ("SLURM_MPI_TYPE", "--mpi=9: cannot be kept, as tasks are not joined for MPI here; write mpirun"),
    ):
        said = srun("true", **{variable: "9"})
        assert (said.code, said.err.startswith(f"srun: error: {variable} in the environment: {part}")) == (
            1,
            True,
        )


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["-n3", "true"], "more processors requested than permitted: 3, and the job has 2"),
        (["--gpus=3", "-n1", "true"], "more GPUs requested than permitted: 3"),
        (["--mpi=pmix", "true"], "--mpi=pmix: cannot be kept"),
        (["--time=1", "true"], "--time: cannot be kept within a job; write timeout"),
        (["-N2", "true"], "--nodes=2: the job has 1"),
        (["-w", "other", "true"], "--nodelist=other: the job is on here"),
        (["-nx", "true"], "--ntasks=x: is not a number"),
        (["--foo", "true"], "--foo is no option that Betimes knows"),
        (["-n1"], "no program is given"),
        (["--multi-prog", "file"], "--multi-prog: cannot be kept"),
        (["-o", "no/where", "true"], "no/where cannot be written"),
    ],
)
def test_a_step_that_cannot_be(srun: Srun, words: list[str], part: str) -> None:
    said = srun(*words)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("srun: error: ")
    assert part in said.err
