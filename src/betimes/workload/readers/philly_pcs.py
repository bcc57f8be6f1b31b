"""The Philly traces as used by PCS (OSDI'24): elastic jobs with a model's speed-up curve each."""

from __future__ import annotations

import numpy as np

from betimes.workload.columns import MOST_S, MOST_UNITS
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.format import FieldRule, Opening, TraceFormat
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload

_REQUIRED = ("app_id", "submit_time", "service", "num_jobs", "sleep_time", "model_name")
# The size of the machine on which the study runs these traces.
_MACHINE_UNITS = 64


def read(source: Source, tally: Tally) -> Workload:
    """Read a PCS trace: `service` is the run time on one GPU, `num_jobs` the most GPUs the job can use.

    Submission is the running sum of `sleep_time`, as in PCS's simulator, which ignores `submit_time` (kept in
    extra). Rows with a `#` are left out and counted. `machine_units` is 64. Source: abdullahfsm/PCS,
    `sim.py`.
    """
    table = DelimitedTable(source, tally, _REQUIRED, skip_marked=True)
    assembly, reached_s = Assembly(), 0.0
    for rows in table.chunks():
        gap_s = rows.number("sleep_time", least=0, most=MOST_S)
        # A row that is skipped for another field still moves the clock for those behind it.
        submit_s = np.cumsum(np.concatenate(([reached_s], np.nan_to_num(gap_s, nan=0.0))))[1:]
        reached_s = float(submit_s[-1])
        assembly.add(
            rows,
            {
                "job_id": rows.text("app_id", is_id=True),
                "submit_s": submit_s,
                "work_s": rows.number("service", above=0, most=MOST_S),
                "min_units": np.ones(len(rows), np.int64),
                "max_units": rows.whole("num_jobs", least=1, most=MOST_UNITS),
                "curve": rows.text("model_name", is_id=True),
            },
            {"recorded_submit_s": rows.number("submit_time", least=0, most=MOST_S)},
        )
    return assembly.workload(source, tally, FORMAT.name, machine_units=_MACHINE_UNITS, gpu=1.0)


def _recognise(opening: Opening) -> bool:
    return {"app_id", "service", "num_jobs", "sleep_time"} <= opening.fields


FORMAT = TraceFormat(
    name="philly-pcs",
    summary="Philly GPU traces as used by PCS (OSDI'24): elastic jobs with speed-up curves",
    details=(
        "Submission is the running sum of sleep_time. Rows with a # are left out and counted. The machine "
        "has 64 GPUs."
    ),
    rules=(
        FieldRule("app_id", "job_id"),
        FieldRule("sleep_time", "submit_s", "running sum, s"),
        FieldRule("submit_time", "extra recorded_submit_s", "s"),
        FieldRule("service", "work_s", "s on one GPU"),
        FieldRule("num_jobs", "max_units", "GPUs; min_units is 1"),
        FieldRule("model_name", "curve"),
        FieldRule("", "gpu", "1 a unit"),
    ),
    recognise=_recognise,
    read=read,
)
