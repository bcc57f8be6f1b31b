"""The trace of Eva's artifact (EuroSys'25): a demand vector, a workload and its delays a task."""

from __future__ import annotations

import numpy as np

from betimes.workload.columns import MOST_S, MOST_UNITS, RESERVED_NAMES
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.format import FieldRule, Opening, TraceFormat
from betimes.workload.readers.rows import Rows
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload

_MAPPED = ("job_id", "arrival_time_s", "duration_s", "gpus", "cpus", "ram_gib")


def read(source: Source, tally: Tally) -> Workload:
    """Read an Eva trace of one-task jobs: a rigid job of max(1, gpus) units with the demand of one unit each.

    Work is `duration_s` times the units. Jobs whose duration is 0 are left out and counted. A job of several
    tasks stands on several lines, which the pool of columns cannot hold: its second line is malformed.
    Source: uw-mad-dash/Eva, `src/pai_trace`.
    """
    table = DelimitedTable(source, tally, _MAPPED)
    further = [name for name in table.header if name not in _MAPPED and name not in RESERVED_NAMES and name]
    assembly = Assembly()
    for rows in table.chunks():
        _take(rows, further, assembly)
    return assembly.workload(source, tally, FORMAT.name, guess=further)


def _take(rows: Rows, further: list[str], assembly: Assembly) -> None:
    job_id = rows.text("job_id", is_id=True)
    submit_s = rows.number("arrival_time_s", least=0, most=MOST_S)
    run_s = rows.number("duration_s", least=0, most=MOST_S)
    gpus = rows.whole("gpus", least=0, most=MOST_UNITS)
    cpus = rows.number("cpus", least=0)
    ram_gib = rows.number("ram_gib", least=0)
    extra = {name: rows.text(name) for name in further}
    rows.refuse(
        (gpus == 0) & (cpus == 0) & (ram_gib == 0), "cpus", "expected some demand, of CPU, memory or GPU"
    )
    rows.leave_out(run_s == 0, "no run time")
    units = np.maximum(1, gpus)
    assembly.add(
        rows,
        {
            "job_id": job_id,
            "submit_s": submit_s,
            "work_s": run_s * units,
            "min_units": units,
            "max_units": units,
            "cpu": cpus / units,
            "memory_gib": ram_gib / units,
            "gpu": np.where(gpus > 0, 1.0, 0.0),
        },
        extra,
    )


def _recognise(opening: Opening) -> bool:
    return set(_MAPPED) <= opening.fields


FORMAT = TraceFormat(
    name="eva",
    summary="Eva's trace (EuroSys'25): one-task jobs with a demand vector and migration delays",
    details=(
        "A job is rigid, of max(1, gpus) units. Jobs of several tasks are not supported. Jobs whose duration "
        "is 0 are left out and counted. Every further column is kept under its own name."
    ),
    rules=(
        FieldRule("job_id", "job_id"),
        FieldRule("arrival_time_s", "submit_s", "s"),
        FieldRule("duration_s", "work_s", "x units, s"),
        FieldRule("gpus", "min_units, max_units, gpu", "max(1, gpus) units; 1 GPU a unit, 0 without GPUs"),
        FieldRule("cpus", "cpu", "cores a unit: / units"),
        FieldRule("ram_gib", "memory_gib", "GiB a unit: / units"),
        FieldRule("all others", "extra under their names", "workload_variant, the delays in s, ..."),
    ),
    recognise=_recognise,
    read=read,
)
