"""A recording of Slurm in place of its commands, and a service in memory that watches it, look by look.

A recording is lines of JSON. The first has the `fields` of a job and, by number, the truth of the `jobs`. Then comes a
line a look at `squeue`: its instant `at`, rows that `changed`, and numbers that are `gone`. It does not say on which
nodes jobs run: these are given out here as jobs start.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.slurm_source import Names, Observation, SlurmSource, machines_of_slurm
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.startup.beside_slurm import taught
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.slurm.commands import HISTORY, Commands
from betimes.slurm.picture import Looks
from betimes.slurm.queue import POLICY
from betimes.workload import Workload

MARK = "mark|"
SETTINGS = "SLURM_VERSION = 22.05.8\nMinJobAge = 300 sec\nSelectType = select/cons_tres\n"


class RecordedSlurm(Commands):
    """Slurm's commands as they would have answered at the look that `follow` has come to.

    nodes, cpus: so many nodes, each with so many CPUs. history: what `sacct` has of jobs before the recording.
    """

    def __init__(
        self, lines: Sequence[Mapping[str, Any]], nodes: int, cpus: int = 1, history: Workload | None = None
    ) -> None:
        super().__init__()
        head, *self._looks = lines
        self.truth: Mapping[str, Mapping[str, Any]] = head["jobs"]
        self._fields: Sequence[str] = head["fields"]
        self._nodes, self._cpus, self.past = nodes, cpus, history
        self._jobs = dict[str, dict[str, Any]]()
        self._of = dict[str, list[int]]()
        self.at = float(self._looks[0]["at"])

    def follow(self) -> Iterator[float]:
        """Go from look to look; the instant of each."""
        for look in self._looks:
            self.at = float(look["at"])
            for row in look["changed"]:
                self._jobs[row[0]] = dict(zip(self._fields, row, strict=True))
            for gone in look["gone"]:
                del self._jobs[gone]
            self._give_nodes()
            yield self.at

    def _give_nodes(self) -> None:
        running = {job["id"] for job in self._jobs.values() if job["state"] in ("RUNNING", "COMPLETING")}
        free = set(range(1, self._nodes + 1)).difference(
            *(nodes for number, nodes in self._of.items() if number in running)
        )
        for number in sorted(running - self._of.keys(), key=int):
            self._of[number] = sorted(free)[: self._jobs[number]["nodes"]]
            free -= set(self._of[number])

    def squeue(self) -> tuple[str, str]:
        """The rows of the look."""
        return "".join(f"{MARK}{self._row(job)}\n" for job in self._jobs.values()), MARK

    def _row(self, job: Mapping[str, Any]) -> str:
        user = job["name"].partition("_")[0] or job["user"]
        waits = job["state"] == "PENDING"
        nodes = [] if waits else self._of.get(job["id"], list(range(1, job["nodes"] + 1)))
        cells = (
            job["id"], user, job["state"], _instant(job["submit"]), _instant(job["start"]), _instant(job["end"]),
            _clock(job["limit_s"]), job["cpus"], job["nodes"], job["partition"], job["priority"],
            job["reason"], ",".join(f"n{node}" for node in nodes), "(null)", "N/A", "(null)", "OK", job["name"],
        )  # fmt: skip
        return "|".join(map(str, cells))

    def show(self, what: str) -> str:
        """The nodes, all in partition `batch`."""
        names = [f"n{number}" for number in range(1, self._nodes + 1)]
        if what == "node":
            return "".join(
                f"NodeName={name} CPUTot={self._cpus} RealMemory=1000 State=IDLE Partitions=batch\n"
                for name in names
            )
        if what == "partition":
            return f"PartitionName=batch Nodes={','.join(names)} State=UP MaxTime=UNLIMITED PriorityTier=1\n"
        return SETTINGS if what == "config" else ""

    def sdiag(self) -> str:
        """The counts of the look."""
        waiting = sum(job["state"] == "PENDING" for job in self._jobs.values())
        running = sum(job["state"] == "RUNNING" for job in self._jobs.values())
        at = int(self.at)
        text = f"sdiag output at x ({at})\nJob states ts:  x ({at})\n"
        return f"{text}Jobs pending: {waiting}\nJobs running: {running}\n"

    def ends(self, jobs: Sequence[str]) -> str:
        """The ends of jobs by the truth."""
        return "".join(
            f"{number}|{truth['state']}|{_instant(truth['start'])}|{_instant(truth['end'])}\n"
            for number in jobs
            if (truth := self.truth.get(number)) is not None
        )

    def history(self, since_at: float) -> str:
        """The jobs that had finished before, as `sacct` prints them."""
        past = self.past
        assert past is not None, "it is asked for where there is one"
        run_s = past.work_s / past.max_units
        start_s = past.submit_s + past.extra["recorded_wait_s"]
        names = [f"u{user}" for user in past.user.tolist()]
        rows = zip(
            past.job_id.tolist(), names, past.submit_s.tolist(), start_s.tolist(), run_s.tolist(),
            past.estimate_s.tolist(), past.max_units.tolist(), strict=True,
        )  # fmt: skip
        lines = [
            f"{number}|{user}|{submit:.0f}|{start:.0f}|{run:.0f}|{math.ceil(limit / 60)}|{units}|{units}|COMPLETED"
            f"|batch|{user}_-1"
            for number, user, submit, start, run, limit, units in rows
        ]
        return "\n".join([HISTORY.replace(",", "|"), *lines, ""])


def _instant(at: float | None) -> str:
    return "N/A" if at is None else f"{at:.0f}"


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "UNLIMITED"
    days, left = divmod(int(seconds), 86400)
    return f"{days}-{left // 3600:02}:{left // 60 % 60:02}:{left % 60:02}"


def read_recording(path: Path) -> list[dict[str, Any]]:
    """The lines of a recording."""
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


class Watching:
    """A service that watches a recording."""

    def __init__(self, service: Assembly, source: SlurmSource, slurm: RecordedSlurm) -> None:
        self.service, self.source, self._slurm = service, source, slurm

    async def look(self) -> None:
        """Look at what the recording has come to, and have all promises made."""
        await self.service.advance_to(self._slurm.at)
        await self.source.look()
        await self.service.settle()
        assert self.source.trouble is None, self.source.trouble


@asynccontextmanager
async def watching(slurm: RecordedSlurm, folder: Path) -> AsyncIterator[Watching]:
    """A service that has learned from what `sacct` has, and not looked yet, while this is entered."""
    looks, observation, names = Looks(slurm, lambda: slurm.at), Observation(), Names()
    machines, clock = machines_of_slurm(looks.machines()), VirtualClock(slurm.at, 0.0)
    settings = Settings(observation=observation)
    async with assembled(machines, POLICY, folder, clock=clock, settings=settings) as service:
        await service.settle()
        if slurm.past is not None:
            learned = taught(looks, math.inf, settings.level, names)
            await service.controller.ask("history", lambda scheduler: scheduler.observed.learned(*learned))
            while service.backend.promises.fitting:
                await asyncio.sleep(0.01)
        source = SlurmSource(service.controller, service.backend.promises, looks, observation, 60.0)
        yield Watching(service, source, slurm)
