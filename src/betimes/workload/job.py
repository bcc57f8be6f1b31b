"""One job, as one row of a `Workload`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """One row of a `Workload`; the units are those of the columns of the same name."""

    job_id: int | str
    submit_s: float
    work_s: float
    min_units: int
    max_units: int
    curve: str
    estimate_s: float
    user: int | str
    status: int
    qos: int
    priority: int
    grace_s: float
    cpu: float
    memory_gib: float
    gpu: float
    units_per_task: int = 0
    require: str = ""
