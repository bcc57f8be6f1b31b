"""Philly job lists as used by Pollux: one rigid GPU job a line, with a date and a duration."""

from __future__ import annotations

import numpy as np

from betimes.workload.columns import MOST_S, MOST_UNITS
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.format import FieldRule, Opening, TraceFormat
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.readers.timestamps import unix_s
from betimes.workload.workload import Workload

_REQUIRED = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


def read(source: Source, tally: Tally) -> Workload:
    """Read a Philly job list: jobs are rigid, one GPU a unit; the job id is the place in the list, from 0.

    Submission is counted from the first `timestamp` (UTC; kept as UnixStartTime in the notes). Jobs without
    a duration above 0 or without GPUs are left out and counted.
    """
    table = DelimitedTable(source, tally, _REQUIRED)
    assembly = Assembly()
    for rows in table.chunks():
        submit_s = rows.parsed(
            "timestamp", unix_s, 0.0, "expected a date and time such as 2017-09-04 10:30:41"
        )
        run_s = rows.number("duration", most=MOST_S)
        units = rows.whole("num_gpus", least=0, most=MOST_UNITS)
        gpu_time_s = rows.number("gpu_time", missing=frozenset({""}))
        cluster = rows.text("cluster")
        rows.leave_out(run_s <= 0, "no run time")
        rows.leave_out(units == 0, "no GPUs")
        assembly.add(
            rows,
            {
                "job_id": rows.lines - table.header_line - 1,
                "submit_s": np.array(submit_s, np.float64),
                "work_s": run_s * units,
                "min_units": units,
                "max_units": units,
            },
            {"gpu_time_s": gpu_time_s, "cluster": cluster},
        )
    return assembly.workload(source, tally, FORMAT.name, dated=True, gpu=1.0)


def _recognise(opening: Opening) -> bool:
    return {"timestamp", "duration", "num_gpus"} <= opening.fields


FORMAT = TraceFormat(
    name="philly-jobs",
    summary="Philly GPU job lists as used by Pollux (OSDI'21): rigid jobs with dates",
    details=(
        "Submission is counted in seconds from the first timestamp (UTC), which the notes keep as "
        "UnixStartTime. Jobs without a duration above 0 or without GPUs are left out and counted. The job id "
        "is the place in the list, from 0."
    ),
    rules=(
        FieldRule("", "job_id", "place in the list, from 0"),
        FieldRule("timestamp", "submit_s", "seconds since the first"),
        FieldRule("duration", "work_s", "duration x GPUs"),
        FieldRule("num_gpus", "min_units, max_units"),
        FieldRule("gpu_time", "extra gpu_time_s", "s"),
        FieldRule("cluster", "extra cluster", "virtual cluster"),
        FieldRule("", "gpu", "1 a unit"),
    ),
    recognise=_recognise,
    read=read,
)
