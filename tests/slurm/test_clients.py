"""Clients of Slurm that no one here wrote, unmodified, by our commands: submitit, dask-jobqueue, parsl and Snakemake.

They are installed into an environment of their own, which is kept for the next time; where no package index can be
reached they are left out. What each of them needed is a test of the commands in `tests/cli/test_slurm.py`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.slurm.conftest import Served

pytestmark = pytest.mark.slow
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
INSTALL_S, PATIENCE_S = 600, 240
SUBMITIT = """
import os, signal, time
import submitit

class Slow(submitit.helpers.Checkpointable):
    def __call__(self):
        if "SLURM_RESTART_COUNT" in os.environ:
            return "resumed"
        os.kill(os.getpid(), signal.SIGUSR2)  # as when its time is nearly up
        time.sleep(600)

def add(one, other):
    return one + other

def tenfold(number):
    if number == 2:
        raise ValueError("no twos")
    return 10 * number

submitit.SlurmJob.watcher = type(submitit.SlurmJob.watcher)(delay_s=1)
executor = submitit.AutoExecutor(folder="logs", cluster="slurm")
executor.update_parameters(timeout_min=5, mem_gb=0.5, slurm_array_parallelism=2)
job = executor.submit(add, 1, 2)
assert job.result() == 3
assert executor.submit(Slow()).result() == "resumed"
jobs = executor.map_array(tenfold, [1, 2, 3])
assert [jobs[0].result(), jobs[2].result()] == [10, 30]
assert "no twos" in str(jobs[1].exception())
until_at = time.monotonic() + 60
while [job.state for job in jobs] != ["COMPLETED", "FAILED", "COMPLETED"]:  # a result may be there before its job's end
    assert time.monotonic() < until_at
    time.sleep(0.3)
"""
DASK = """
from dask_jobqueue import SLURMCluster
from distributed import Client

if __name__ == "__main__":
    with SLURMCluster(cores=1, processes=1, memory="1GB", walltime="00:05:00", log_directory="logs") as cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=120)
            assert client.submit(sum, [1, 2, 3]).result(timeout=60) == 6
"""
PARSL = """
import os, time
from parsl.jobs.states import JobState
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

provider = SlurmProvider(
    mem_per_node=1, cores_per_node=1, walltime="00:05:00", exclusive=False, launcher=SrunLauncher()
)
provider.script_dir = "."

def comes_to(job, state):
    until_at = time.monotonic() + 120
    while (found := provider.status([job])[0].state) != state:
        assert time.monotonic() < until_at, (found, state)
        time.sleep(0.3)

job = provider.submit("sleep 600", 1)
comes_to(job, JobState.RUNNING)
assert provider.cancel([job]) == [True]
comes_to(job, JobState.CANCELLED)
comes_to(provider.submit("true", 1), JobState.COMPLETED)
comes_to(provider.submit("false", 1), JobState.FAILED)
"""
SNAKEFILE = """
rule all:
    input: expand("{n}.txt", n=range(6))
rule one:
    output: "{n}.txt"
    retries: 1
    resources: mem_mb=1000, runtime=5
    shell: "test {wildcards.n} != 3 || test -e tried || {{ touch tried; exit 1; }}; echo {wildcards.n} > {output}"
"""
SNAKEMAKE = (
    *("-m", "snakemake", "--executor", "slurm", "--jobs", "6", "--seconds-between-status-checks", "3"),
    *("--slurm-init-seconds-before-status-checks", "3"),
    *("--default-resources", "slurm_account=me", "slurm_partition=betimes"),
)


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of an environment with the clients, which is made once for these requirements."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir(), f"betimes-slurm-clients-{key}")
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [folder / "bin/python", "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS]
        done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=INSTALL_S)
        if done.returncode:
            pytest.skip(f"the clients cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
        (folder / "complete").touch()
    return folder / "bin/python"


def _runs(python: Path, served: Served, folder: Path, *words: str) -> None:
    """Run a program of a client, which must exit with 0."""
    path = f"{python.parent}:{served.env['PATH']}"  # our commands find their own interpreter
    done = subprocess.run(
        [python, *words],
        cwd=folder,
        env=served.env | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_submitit(python: Path, served: Served, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SUBMITIT)
    _runs(python, served, tmp_path, "program.py")


def test_dask_jobqueue(python: Path, served: Served, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(DASK)
    _runs(python, served, tmp_path, "program.py")


def test_parsl(python: Path, served: Served, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PARSL)
    _runs(python, served, tmp_path, "program.py")


def test_snakemake(python: Path, served: Served, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    _runs(python, served, tmp_path, *SNAKEMAKE)
    assert sorted(path.read_text() for path in tmp_path.glob("*.txt")) == [f"{n}\n" for n in range(6)]
