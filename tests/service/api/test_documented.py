"""What the reference pages list is all that there is."""

from __future__ import annotations

from pathlib import Path

from betimes.service.access.unix_users import Owners
from betimes.service.runtime.launches import KEPT, VARIABLES, Launches
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import Job, Run
from betimes.service.spec.job_spec import JobSpec


def test_a_job_finds_what_is_described_and_what_it_asked_for(tmp_path: Path) -> None:
    spec = JobSpec(command=["true"], workdir="/", env={"MINE": "1", "LANG": "C"})
    job = Job(7, spec, "ada", 0.0, 1.0, "default", array_id=7, array_index=3)
    job.run = Run(2, 1, [("here", 1)], 0.0)
    environ = {"PATH": "/bin", "LANG": "de_DE", "SECRET": "x"}
    launch = Launches(tmp_path, "log", lambda *_: "sealed", environ).of(job, {})
    assert launch.run == RunId(7, 2)
    assert launch.env["PATH"] == "/bin"
    assert launch.env["LANG"] == "C"
    assert "SECRET" not in launch.env
    by_executor = {"BETIMES_CPUS", "BETIMES_RUN_DIR", "BETIMES_RUN_ID", "CUDA_VISIBLE_DEVICES"}
    assert set(launch.env) - {*KEPT, "MINE"} == set(VARIABLES) - by_executor - {"BETIMES_SOCKET"}
    assert launch.user is None


def test_a_job_of_another_unix_user_finds_the_socket_and_nothing_of_the_services_user(tmp_path: Path) -> None:
    job = Job(7, JobSpec(command=["true"], env={"HOME": "/asked"}), "ada", 0.0, 1.0, "default")
    job.run = Run(2, 1, [("here", 1)], 0.0)
    environ = {"PATH": "/its/bin", "HOME": "/its", "USER": "root", "TMPDIR": "/its/tmp", "TZ": "UTC"}
    launches = Launches(tmp_path, "log", lambda *_: "sealed", environ)
    launches.owners, launches.socket = Owners(tmp_path, frozenset({"root"})), tmp_path / "socket"

    launch = launches.of(job, {})

    assert launch.user == "ada"
    assert {name: text for name, text in launch.env.items() if name in KEPT} == {
        "TZ": "UTC",
        "HOME": "/asked",
    }
    assert launch.env["BETIMES_SOCKET"] == str(tmp_path / "socket")


def test_a_batch_script_finds_what_slurm_sets_and_its_files_have_its_numbers(tmp_path: Path) -> None:
    spec = JobSpec(
        command=["true"],
        name="a/b",
        cpu=2.5,
        env={"SLURM_SUBMIT_DIR": "/u/ada"},
        output="%x-%A_%3a.out",
        error="%j.%u.%N.%%.%q",
    )
    job = Job(9, spec, "ada", 0.0, 1.0, "default", array_id=7, array_index=2)
    job.run = Run(2, 1, [("here", 1)], 0.0)
    launch = Launches(tmp_path, "log", lambda *_: "sealed", {}).of(job, {})
    assert (launch.output, launch.error) == ("a_b-7_002.out", "9.ada.here.%.%q")
    found = {name.removeprefix("SLURM_"): value for name, value in launch.env.items() if "SLURM_" in name}
    assert found == {
        "SUBMIT_DIR": "/u/ada",
        **dict.fromkeys(("JOB_ID", "JOBID"), "9"),
        **dict.fromkeys(("JOB_NODELIST", "NODELIST"), "here"),
        **dict.fromkeys(("JOB_NUM_NODES", "NNODES"), "1"),
        **dict.fromkeys(("JOB_CPUS_PER_NODE", "CPUS_ON_NODE"), "2"),
        **dict.fromkeys(("PROCID", "LOCALID", "NODEID", "GTIDS"), "0"),
        "JOB_NAME": "a/b",
        "JOB_USER": "ada",
        "ARRAY_JOB_ID": "7",
        "ARRAY_TASK_ID": "2",
        "RESTART_COUNT": "1",
    }


def test_launchers_of_mpi_read_a_machine_once(tmp_path: Path) -> None:
    env = {"SLURM_SUBMIT_DIR": "/u/ada", "SLURM_NNODES": "3", "SLURM_NTASKS": "7"}
    spec = JobSpec(command=["sh"], cpu=3, min_units=3, max_units=3, env=env)
    job = Job(9, spec, "ada", 0.0, 1.0, "default")
    job.run = Run(1, 3, [("a", 2), ("b", 1)], 0.0)
    found = Launches(tmp_path, "log", lambda *_: "sealed", {}).of(job, {}).env
    assert [found[f"SLURM_{name}"] for name in ("JOB_NODELIST", "JOB_NUM_NODES")] == ["a,a,b", "3"]
    for_mpi = [found[f"SLURM_{name}"] for name in ("NODELIST", "TASKS_PER_NODE", "JOB_CPUS_PER_NODE")]
    assert for_mpi == ["a,b", "5,2", "6,3"]
