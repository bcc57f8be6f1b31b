"""A Slurm script of several nodes on a real Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.service.executors.ray.served import ServiceOnRay, until

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings


def test_a_script_of_three_nodes_on_two_machines(service: ServiceOnRay, tmp_path: Path) -> None:
    def call(*words: object) -> str:
        env = os.environ | {"BETIMES_STATE": str(service.state), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run(
            [*map(str, words)], check=True, capture_output=True, text=True, env=env, cwd=tmp_path
        ).stdout

    def submitted(script: str) -> int:
        path = tmp_path / "job.sh"
        path.write_text("#!/bin/bash\n" + script)
        return int(
            call(tmp_path / "sbatch", "--parsable", "-N3", "--ntasks-per-node=1", "--output=said_%j", path)
        )

    call(sys.executable, "-m", "betimes", "slurm", "commands", tmp_path)
    show = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_NNODES $BETIMES_RUN_DIR"
    well = submitted(f"echo $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_NNODES; srun -l sh -c '{show}'")
    service.until(well, "finished")
    first, *tasks = (tmp_path / f"said_{well}").read_text().splitlines()
    assert first in ("3 2,1 3", "3 1,2 3"), "of the machines, as launchers of MPI read it"
    assert [line.rpartition(" ")[0] for line in sorted(tasks)] == ["0: 0 0 0 3", "1: 1 1 0 3", "2: 2 2 0 3"]
    assert len({line.rpartition(" ")[2] for line in tasks}) == 2, "on both machines"
    assert sorted(each.name for each in tmp_path.glob("said_*")) == [f"said_{well}"]
    fails = submitted("srun sh -c 'test $SLURM_PROCID != 2 || exit 7'")
    service.until(fails, "failed")
    assert service.runs(fails) == [("exited", 7)]
    waits = submitted(f"srun sh -c 'touch {tmp_path}/up-$SLURM_PROCID; exec sleep 54321'")
    until(lambda: len([*tmp_path.glob("up-*")]) == 3)
    service.client.cancel(waits)
    service.until(waits, "cancelled")
    assert not [
        each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "54321"]
    ]
