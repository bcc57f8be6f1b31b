"""A user's folder with a policy in it, and processes that run the policy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from betimes.kernels import cache_root

POLICY = """
from betimes.policies import allocation, priority
from preferences import preference, width


@priority(summary="By a number that somebody else works out.")
def preferred(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = preference(view.jobs[chosen[k]].size_s)


@allocation(summary="One job at a time, as wide as somebody else says.")
def one_by_one(view, now, grants, again):
    grants[0].job = view.order[0, view.groups[0].head]
    grants[0].units = width()
    return 1
"""
HELPER = """
from betimes.policies import kernel


@kernel
def preference(size_s):
    return size_s


@kernel
def width():
    return 2.0
"""
PROGRAM = """
import sys
from multiprocessing import get_context

import betimes
from betimes.workload import Workload


def finishes(policy, predict=True):
    jobs = Workload.from_columns(submit_s=[0, 0], work_s=[8, 4], max_units=4)
    return betimes.simulate(jobs, policy, units=4, predict=predict).jobs.finish_s.tolist()


if __name__ == "__main__":
    policies = sys.argv[2:]
    if sys.argv[1] == "spawned":
        with get_context("spawn").Pool(1) as pool:
            print(pool.map(finishes, policies))
    else:
        print([finishes(policy, sys.argv[1] != "unforeseen") for policy in policies])
"""


def copy_compiled(folder: Path) -> None:
    """Copy the kernels that are compiled on this machine into a new folder; old ones may go meanwhile."""
    folder.mkdir(parents=True)
    compiled = cache_root() / "kernels"
    for file in compiled.iterdir() if compiled.exists() else ():
        with suppress(FileNotFoundError):
            shutil.copy2(file, folder)


class Folder:
    """A user's folder with a policy, a file it imports, and a cache; and processes that use them."""

    def __init__(self, folder: Path) -> None:
        self.policy, self.helper = folder / "mine.py", folder / "preferences.py"
        self.program, self.cache = folder / "sub" / "program.py", folder / "cache"
        self.policy.write_text(POLICY)
        self.helper.write_text(HELPER)
        self.program.parent.mkdir()
        self.program.write_text(PROGRAM)
        self.names = [f"{self.policy}:preferred", f"{self.policy}:one_by_one"]

    def finishes(
        self, start: str = "plain", site: Path | None = None, policies: list[str] | None = None
    ) -> str:
        environment = os.environ | {"BETIMES_CACHE_DIR": str(self.cache), "PYTHONPATH": str(site or "")}
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(
            [sys.executable, str(self.program), start, *(policies or self.names)],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def compiled(self) -> dict[Path, int]:
        """The compiled files there are, and when they were written."""
        return {file: file.stat().st_mtime_ns for file in self.cache.rglob("*.kernel")}
