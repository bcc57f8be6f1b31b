"""One look at Slurm: its jobs at an instant, with the age of that picture, and its machines, asked for seldom."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from betimes.printing import printable
from betimes.slurm.commands import Commands
from betimes.slurm.jobs import SlurmJob, read_jobs
from betimes.slurm.machines import Counts, Machines, read_counts, read_machines

MACHINES_S = 600.0
"""After so long nodes, partitions and settings are asked for again."""
MOST_SKEW_S = 5.0
_LONGEST_ROW = 80


@dataclass(frozen=True)
class Picture:
    """Jobs by id, as of `at`, seconds since 1970 by this machine's clock; took_s: until Slurm had answered."""

    at: float
    jobs: Mapping[str, SlurmJob]
    took_s: float = 0.0
    not_understood: tuple[str, ...] = ()

    @property
    def waiting(self) -> list[SlurmJob]:
        """The jobs that wait."""
        return [job for job in self.jobs.values() if job.waits]

    @property
    def running(self) -> list[SlurmJob]:
        """The jobs that have nodes."""
        return [job for job in self.jobs.values() if job.runs]

    def having(self, *jobs: SlurmJob) -> Picture:
        """The same with these jobs, in place of those of their ids."""
        return replace(self, jobs={**self.jobs, **{job.id: job for job in jobs}})

    @property
    def strange(self) -> str | None:
        """Rows that are not understood, in words; null: there is none."""
        if not self.not_understood:
            return None
        rows = len(self.not_understood)
        return (
            f"{rows} row{'' if rows == 1 else 's'} of squeue {'is' if rows == 1 else 'are'} not understood, such as "
            f"{printable(self.not_understood[0])[:_LONGEST_ROW]!r}; these jobs are not shown"
        )

    def hidden(self, counts: Counts, machines: Machines) -> int:
        """The number of jobs that the controller counted and are not seen; 0: none, or its count is too old to tell."""
        if not 0.0 <= counts.now_at - counts.as_of_at < machines.kept_s:
            return 0
        at = counts.as_of_at  # by the controller's clock, as the instants of its jobs
        seen = sum(
            job.submit_at <= at + 1.0 and not (job.is_over and job.end_at < at - 1.0)
            for job in self.jobs.values()
        )
        return max(0, counts.waiting + counts.running - seen)


class Looks:
    """Looks at Slurm, one after the other. Each raises SlurmError where Slurm does not answer."""

    def __init__(self, commands: Commands, clock: Callable[[], float] = time.time) -> None:
        self.commands, self._clock = commands, clock
        self._machines: Machines | None = None
        self._asked_at = 0.0

    def look(self) -> Picture:
        """One `squeue`."""
        at = self._clock()
        text, mark = self.commands.squeue()
        jobs, strange = read_jobs(text, mark)
        return Picture(at, jobs, max(0.0, self._clock() - at), tuple(strange))

    def machines(self, picture: Picture | None = None) -> Machines:
        """Nodes, partitions and settings; asked for again after MACHINES_S, or where a job runs on an unknown node."""
        known = self._machines
        is_old = known is None or self._clock() >= self._asked_at + MACHINES_S
        if known is not None and picture is not None and not is_old:
            is_old = any(host not in known.nodes for job in picture.running for host in job.hosts)
        if known is None or is_old:
            show, self._asked_at = self.commands.show, self._clock()
            known = self._machines = read_machines(
                show("node"), show("partition"), show("config"), show("reservation")
            )
        return known

    def counts(self) -> Counts | None:
        """The controller's counts; null: they are not understood."""
        return read_counts(self.commands.sdiag())
