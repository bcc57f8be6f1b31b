"""What a real Slurm printed, and pictures made of it."""

from __future__ import annotations

from pathlib import Path

from betimes.slurm.jobs import SlurmJob, read_jobs
from betimes.slurm.machines import Machines, read_counts, read_machines
from betimes.slurm.picture import Picture

RECORDED = Path(__file__).parent / "recorded/22.05"
MARK = "MARK|"


def printed(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def machines() -> Machines:
    return read_machines(*map(printed, ("node", "partition", "config", "reservation")))


def picture() -> Picture:
    counts, (jobs, _) = read_counts(printed("sdiag")), read_jobs(printed("squeue"), MARK)
    assert counts is not None
    return Picture(counts.now_at, jobs)


def job(line: str) -> SlurmJob:
    """The job of one row of squeue."""
    found, strange = read_jobs(MARK + line, MARK)
    assert not strange
    return next(iter(found.values()))


def row(**fields: object) -> str:
    """A row of squeue: a job of one CPU that waits, but for these fields."""
    given = {
        "id": 1, "user": "ann", "state": "PENDING", "submit": 1000, "start": "N/A", "end": "N/A", "limit": "1:00:00",
        "cpus": 1, "nodes": 1, "partition": "batch", "priority": 100, "reason": "Priority", "hosts": "",
        "dependency": "(null)", "gres": "N/A", "features": "(null)", "sharing": "OK", "name": "wrap",
    }  # fmt: skip
    return "|".join(str(each) for each in (given | fields).values())
