"""Scripts of several nodes: their steps on the machines of a job, here processes with the variables of their rank."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from betimes.service.spec.sbatch import RUN_NODES
from tests.docs.pages import blocks

ADDRESS = "127.0.0.1"


class Machines:
    """Two machines of a job: the first has two of its three nodes, of two cores and a GPU each."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self.folder, self.commands = folder, commands
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self, script: str) -> None:
        """Start the script's command on both, as the executors do."""
        with socket.create_server((ADDRESS, 0)) as free:
            port = free.getsockname()[1]
        for rank, devices in enumerate(("A,B", "C")):
            own = self.folder / f"rank-{rank}"
            own.mkdir(parents=True)
            env = {
                "PATH": f"{self.commands}:{os.environ['PATH']}", "HOME": str(self.folder), "BETIMES_JOB_ID": "41",
                "BETIMES_RUN_DIR": str(own), "BETIMES_ATTEMPT": "1", "BETIMES_RUN_TOKEN": "secret", "RANK": str(rank),
                "WORLD_SIZE": "2", "MASTER_ADDR": ADDRESS, "MASTER_PORT": str(port),
                "BETIMES_NODES": f"{ADDRESS},{ADDRESS}", "BETIMES_NODE_UNITS": "2,1",
                "CUDA_VISIBLE_DEVICES": devices, "SLURM_JOB_ID": "41",
                "SLURM_JOB_NODELIST": "a,a,b", "SLURM_NNODES": "3", "SLURM_NTASKS": "6", "SLURM_CPUS_ON_NODE": "2",
                "SLURMD_NODENAME": "ab"[rank],
            }  # fmt: skip
            with (self.folder / f"log-{rank}").open("wb") as log:
                process = subprocess.Popen(
                    [*RUN_NODES, "job.sh"], env=env, cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
            self.processes.append(process)
            assert process.stdin is not None
            process.stdin.write(b"#!/bin/bash\n" + script.encode())
            process.stdin.close()

    def end(self) -> tuple[list[int], str]:
        """The exit code of each machine's process, and the script's output, once it is over."""
        codes = [process.wait(60) for process in self.processes]
        return codes, (self.folder / "log-0").read_text()

    def run(self, script: str) -> list[str]:
        """The lines of a script that ends well on both."""
        self.begin(script)
        codes, said = self.end()
        assert codes == [0, 0], said
        return said.splitlines()

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.folder / name).exists()

    def those_left(self, rank: str = "") -> list[psutil.Process]:
        """The processes of the job that live, on all machines or one."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                if str(self.folder / f"rank-{rank}") in process.environ().get("BETIMES_RUN_DIR", ""):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    subprocess.run(
        [sys.executable, "-m", "betimes", "slurm", "commands", folder], check=True, capture_output=True
    )
    return folder


@pytest.fixture
def job(tmp_path: Path, commands: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path / "job", commands)
    (tmp_path / "job").mkdir()
    yield machines
    for process in machines.those_left():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    for process in machines.processes:
        process.wait()


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def test_a_step_has_tasks_on_every_node(job: Machines) -> None:
    show = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $RANK/$WORLD_SIZE"
    lines = job.run(
        f"srun -l sh -c '{show} $SLURM_STEP_TASKS_PER_NODE'; echo then; echo x | srun -n 3 cat\n"
        "WORLD_SIZE=32 srun -n 1 sh -c 'echo $RANK $WORLD_SIZE $SLURM_NNODES'"
    )
    assert sorted(lines[:6]) == [
        "0: 0 0 0 a A 0/6 2(x3)",
        "1: 1 0 1 a A 1/6 2(x3)",
        "2: 2 1 0 a B 2/6 2(x3)",
        "3: 3 1 1 a B 3/6 2(x3)",
        "4: 4 2 0 b C 4/6 2(x3)",
        "5: 5 2 1 b C 5/6 2(x3)",
    ]
    assert lines[6:] == ["then", "x", "x", "x", "0 32 1"]


def test_steps_choose_among_the_nodes(job: Machines) -> None:
    where = "sh -c 'echo $SLURMD_NODENAME $SLURM_NNODES $SLURM_NTASKS'"
    lines = job.run(
        f"for part in 1 2 3 4; do srun -n 1 sh -c 'echo $SLURMD_NODENAME; touch up-'$part'; "
        "until [ -e go ]; do sleep 0.02; done' & done\n"
        "until [ -e up-1 ] && [ -e up-2 ] && [ -e up-3 ] && [ -e up-4 ]; do sleep 0.02; done; touch go; wait; echo -\n"
        f"srun -N 1 {where}; srun -w b -n 1 {where}; srun -N 2 -n 3 {where}; srun --gpus-per-node=1 -n 2 -N 2 {where}\n"
        "srun -n 7 true; echo $?; srun -N 4 true; echo $?; srun -w c true; echo $?"
    )
    assert sorted(lines[: lines.index("-")]) == ["a"] * 4, "of two nodes of one machine, each with two cores"
    assert lines[5:8] == [*["a 1 2"] * 2, "b 1 1"]
    assert sorted(lines[8:11]) == [*["a 2 3"] * 2, "b 2 3"], "of fewer nodes as many machines as there are"
    assert sorted(lines[11:13]) == ["a 2 2", "b 2 2"]
    assert [line for line in lines[13:] if line.isdecimal()] == ["1", "1", "1"]
    assert "more processors requested than permitted: 3, and a node of the job has 2" in lines[13]


def test_launchers_of_mpi_start_a_daemon_on_every_machine(job: Machines) -> None:
    daemon = "sh -c 'echo $SLURM_NODEID $SLURMD_NODENAME'"
    lines = job.run(
        f"srun --ntasks-per-node=1 --kill-on-bad-exit --mpi=none --ntasks=2 {daemon}; echo hydra\n"
        f"srun -N 2 -n 2 --input none {daemon}"
    )
    assert sorted(lines[:2]) == ["0 a", "1 b"]
    assert sorted(lines[3:]) == ["0 a", "1 b"]


def test_the_script_of_the_page_starts_torchrun_on_every_node(job: Machines) -> None:
    """Its address and number of nodes are found, and each torchrun can say which it is."""
    page = "docs/how-to/from-slurm.md"
    (script,) = (
        each["body"] for each in blocks(page) if each["kind"] == "bash" and "torchrun" in each["body"]
    )
    torchrun = job.folder / "torchrun"
    torchrun.write_text('#!/bin/sh\necho "$SLURM_NODEID $RANK of $WORLD_SIZE on $SLURMD_NODENAME: $*"\n')
    torchrun.chmod(0o755)
    lines = job.run(f"export PATH={job.folder}:$PATH SLURM_NTASKS=3\n{script}echo $MASTER_PORT")
    asked = f"--nnodes 3 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint a:{lines.pop()} train.py"
    assert sorted(lines) == [f"{rank} {rank} of 3 on {'aab'[rank]}: {asked}" for rank in range(3)]


def test_a_step_waits_for_cores_on_another_machine(job: Machines) -> None:
    lines = job.run(
        "srun sh -c 'touch up-$SLURM_PROCID; until [ -e go ]; do sleep 0.02; done' &\n"
        "until [ -e up-5 ]; do sleep 0.02; done; srun -w b -n 1 echo after & srun --overlap -w b -n 1 echo beside\n"
        "touch go; wait"
    )
    assert sorted(lines) == ["after", "beside", "srun: step waits until others of this job are over"]
    assert lines.index("beside") < lines.index("after")


def test_the_worst_exit_code_and_what_has_failed(job: Machines) -> None:
    lines = job.run(
        "srun sh -c 'test $SLURM_PROCID != 5 || exit 7'; echo $?\n"
        "srun -K sh -c 'test $SLURM_PROCID = 5 || exec sleep 600; kill -9 $$'; echo $?; srun ./missing; echo $?"
    )
    host = socket.gethostname()
    assert lines[:2] == [f"srun: error: {host}: task 5: Exited with exit code 7", "7"]
    assert f"srun: error: {host}: task 5: Exited with exit code 137" in lines
    assert sum("Exited with exit code 143" in line for line in lines) == 5
    assert "143" in lines, "the worst"
    assert lines[-1] == "2"
    assert "./missing: No such file" in lines[-2]


def test_output_in_whole_lines_and_files(job: Machines) -> None:
    lines = job.run(
        "srun -l sh -c 'seq 1 10000'; srun -o one_%s echo to one; srun -o o_%t -e e_%t sh -c 'echo out; echo err >&2'"
    )
    assert len(lines) == 60_000
    for task in range(6):
        own = [line for line in lines if line.startswith(f"{task}: ")]
        assert own == [f"{task}: {number}" for number in range(1, 10_001)]
    assert (job.folder / "one_1").read_text() == "to one\n" * 6
    assert [(job.folder / f"{kind}_5").read_text() for kind in "oe"] == ["out\n", "err\n"]


def test_signals_are_passed_on_once(job: Machines) -> None:
    job.begin(
        'trap : USR1; srun sh -c \'trap "echo saved; exit 0" TERM; touch up-$SLURM_PROCID; '
        "while :; do sleep 0.05; done' & step=$!\n"
        "until [ $(ls up-* | wc -l) = 6 ]; do sleep 0.05; done 2>/dev/null; kill -TERM $step; wait $step; echo $?"
    )
    codes, said = job.end()
    assert codes == [0, 0]
    assert [line for line in said.splitlines() if line != "Terminated"] == [*["saved"] * 6, "0"]


def test_a_job_that_is_stopped_saves_on_every_machine_and_leaves_nothing(job: Machines) -> None:
    """The executors send SIGTERM to the first process of each machine, and the processes of its group."""
    job.begin(
        "trap 'wait; echo over; exit 0' TERM\n"
        'srun sh -c \'trap "sleep 0.2; echo saved; exit 0" TERM; touch up-$SLURM_PROCID; '
        "while :; do sleep 0.05; done' &\nwait; wait; echo over"
    )
    until(lambda: all(job.has(f"up-{task}") for task in range(6)))
    for process in reversed(job.processes):
        os.killpg(process.pid, signal.SIGTERM)
    codes, said = job.end()
    assert codes == [0, 0]
    assert said.count("saved\n") == 6
    until(lambda: not job.those_left())


def test_nothing_is_left_when_the_script_is_killed(job: Machines) -> None:
    job.begin("srun sh -c 'touch up-$SLURM_PROCID; sleep 600'")
    until(lambda: all(job.has(f"up-{task}") for task in range(6)))
    os.killpg(job.processes[0].pid, signal.SIGKILL)
    assert job.processes[1].wait(60) == 0
    until(lambda: not job.those_left())


def test_a_helper_that_is_killed_ends_the_step(job: Machines) -> None:
    job.begin("srun sh -c 'touch up-$SLURM_PROCID; exec sleep 600'; echo $?; srun -w b -n 1 true; echo $?")
    until(lambda: all(job.has(f"up-{task}") for task in range(6)))
    for process in job.those_left("1"):  # as when its machine fails
        with suppress(psutil.NoSuchProcess):
            process.kill()
    codes, said = job.end()
    assert codes == [0, -signal.SIGKILL]
    assert "srun: error: 127.0.0.1: the connection is lost, and the step is ended\n" in said
    assert "\n137\n" in said
    assert "127.0.0.1: the job's helper there does not answer" in said
    assert said.endswith("\n1\n")


def test_the_port_is_the_jobs_own_and_strangers_get_nothing(job: Machines) -> None:
    listens = "import os, socket; socket.socket().bind(('127.0.0.1', int(os.environ['MASTER_PORT'])))"
    lines = job.run(
        f'{sys.executable} -c "{listens}" && echo free\n'
        "BETIMES_RUN_TOKEN=guess srun -w b -n 1 echo taken; srun -w b -n 1 echo ours"
    )
    assert lines[0] == "free"
    assert "the job's helper there does not answer" in lines[1]
    assert lines[2:] == ["ours"]
