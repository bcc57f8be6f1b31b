"""Published traces of GPU clusters, as CSV: Philly in two forms, Alibaba's openb, and Eva's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from betimes.workload.columns import COMPLETED, FAILED, MOST_S, MOST_UNITS, RESERVED_NAMES, UNKNOWN
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.rows import EMPTY, Check, Mask, Number, Parsed, Rows, Tally, Text, Whole, unix_s
from betimes.workload.readers.source import Source
from betimes.workload.readers.trace_format import Assembly, FieldRule, Opening, TraceFormat
from betimes.workload.workload import Workload

_TIME_S = Number(least=0, most=MOST_S)
_AMOUNT = Number(least=0)
_GPUS = Whole(least=0, most=MOST_UNITS)
_SOME_DEMAND = "expected some demand, of CPU, memory or GPU"
# The size of the machine on which PCS's study runs its traces.
_PCS_UNITS = 64

_PHILLY_PCS: Mapping[str, Check] = {
    "app_id": Text(is_id=True),
    "service": Number(above=0, most=MOST_S),
    "num_jobs": Whole(least=1, most=MOST_UNITS),
    "sleep_time": _TIME_S,
    "model_name": Text(is_id=True),
    "submit_time": _TIME_S,
}
_PHILLY_JOBS: Mapping[str, Check] = {
    "timestamp": Parsed(unix_s, "expected a date and time such as 2017-09-04 10:30:41"),
    "duration": Number(most=MOST_S),
    "num_gpus": _GPUS,
    "gpu_time": Number(missing=EMPTY),
    "cluster": Text(),
}
_OPENB_DEMAND: Mapping[str, Check] = {
    "name": Text(is_id=True),
    "cpu_milli": _AMOUNT,
    "memory_mib": _AMOUNT,
    "num_gpu": _GPUS,
    "gpu_milli": _AMOUNT,
}
_OPENB_TIMES: Mapping[str, Check] = {
    "creation_time": _TIME_S,
    "scheduled_time": Number(least=0, most=MOST_S, missing=EMPTY),
    "deletion_time": Number(least=0, most=MOST_S, missing=EMPTY),
}
_OPENB_LABELS = {"gpu_spec": "gpu_spec", "qos": "qos_name", "pod_phase": "pod_phase"}
_OPENB_STATUS = {"Succeeded": COMPLETED, "Failed": FAILED}
_EVA: Mapping[str, Check] = {
    "job_id": Text(is_id=True),
    "arrival_time_s": _TIME_S,
    "duration_s": _TIME_S,
    "gpus": _GPUS,
    "cpus": _AMOUNT,
    "ram_gib": _AMOUNT,
}


def _read_philly_pcs(source: Source, tally: Tally) -> Workload:
    """Read a PCS trace: `service` is the run time on one GPU, `num_jobs` the most GPUs the job can use.

    Submission is the running sum of `sleep_time`, as in PCS's simulator, which ignores `submit_time` (kept in
    extra). Rows with a `#` are left out and counted. `machine_units` is 64. Source: abdullahfsm/PCS,
    `sim.py`.
    """
    table = DelimitedTable(source, tally, _PHILLY_PCS, skip_marked=True)
    assembly, reached_s = Assembly(), 0.0
    for rows in table.chunks():
        found = rows.take(_PHILLY_PCS)
        # A row that is skipped for another field still moves the clock for those behind it.
        gap_s = np.nan_to_num(found["sleep_time"], nan=0.0)
        submit_s = np.cumsum(np.concatenate(([reached_s], gap_s)))
        reached_s = float(submit_s[-1])
        assembly.add(
            rows,
            {
                "job_id": found["app_id"],
                "submit_s": submit_s[1:],
                "work_s": found["service"],
                "min_units": np.ones(len(rows), np.int64),
                "max_units": found["num_jobs"],
                "curve": found["model_name"],
            },
            {"recorded_submit_s": found["submit_time"]},
        )
    return assembly.workload(source, tally, PHILLY_PCS.name, machine_units=_PCS_UNITS, gpu=1.0)


def _read_philly_jobs(source: Source, tally: Tally) -> Workload:
    """Read a Philly job list: jobs are rigid, one GPU a unit; the job id is the place in the list, from 0.

    Submission is counted from the first `timestamp` (UTC; kept as UnixStartTime in the notes). Jobs without
    a duration above 0 or without GPUs are left out and counted.
    """
    table = DelimitedTable(source, tally, _PHILLY_JOBS)
    assembly = Assembly()
    for rows in table.chunks():
        found = rows.take(_PHILLY_JOBS)
        run_s, units = found["duration"], found["num_gpus"]
        rows.leave_out(run_s <= 0, "no run time")
        rows.leave_out(units == 0, "no GPUs")
        assembly.add(
            rows,
            {
                "job_id": rows.lines - table.header_line - 1,
                "submit_s": found["timestamp"],
                "work_s": run_s * units,
                "min_units": units,
                "max_units": units,
            },
            {"gpu_time_s": found["gpu_time"], "cluster": found["cluster"]},
        )
    return assembly.workload(source, tally, PHILLY_JOBS.name, dated=True, gpu=1.0)


def _read_openb(source: Source, tally: Tally) -> Workload:
    """Read an openb pod list: a task is a rigid job of max(1, num_gpu) units.

    Its run time is deletion - scheduled; work is that times the units. Tasks that were never scheduled
    (Pending) and those that were deleted at once are left out and counted. Files without times (the
    `multigpu` variants) raise TraceError. Source: alibaba/clusterdata, cluster-trace-gpu-v2023.
    """
    table = DelimitedTable(source, tally, _OPENB_DEMAND)
    if missing := [
        name for name in ("creation_time", "deletion_time", "scheduled_time") if name not in table.header
    ]:
        raise table.missing(
            missing[0],
            f"this openb variant has no times (no column {', '.join(missing)}), so its tasks cannot be "
            "replayed: use one that has, such as openb_pod_list_default",
        )
    assembly = Assembly()
    for rows in table.chunks():
        found = rows.take({**_OPENB_DEMAND, **_OPENB_TIMES})
        gpus, gpu_milli, scheduled_s = found["num_gpu"], found["gpu_milli"], found["scheduled_time"]
        gpu = np.where(gpus > 0, gpu_milli / 1000, 0.0)
        _refuse_no_demand(rows, "cpu_milli", found["cpu_milli"], found["memory_mib"], gpu)
        labels = rows.take(dict.fromkeys(_OPENB_LABELS, Text()))
        run_s = found["deletion_time"] - scheduled_s
        rows.leave_out(np.isnan(scheduled_s), "never scheduled")
        rows.leave_out(np.isnan(found["deletion_time"]), "not finished")
        rows.leave_out(run_s <= 0, "no run time")
        units = np.maximum(1, gpus)
        phases = labels.get("pod_phase", np.full(len(rows), ""))
        assembly.add(
            rows,
            {
                "job_id": found["name"],
                "submit_s": found["creation_time"],
                "work_s": run_s * units,
                "min_units": units,
                "max_units": units,
                "status": np.array([_OPENB_STATUS.get(phase, UNKNOWN) for phase in phases], np.int64),
                "cpu": found["cpu_milli"] / 1000 / units,
                "memory_gib": found["memory_mib"] / 1024 / units,
                "gpu": gpu,
            },
            {
                "recorded_wait_s": scheduled_s - found["creation_time"],
                **{_OPENB_LABELS[name]: texts for name, texts in labels.items()},
            },
        )
    return assembly.workload(source, tally, OPENB.name)


def _read_eva(source: Source, tally: Tally) -> Workload:
    """Read an Eva trace of one-task jobs: a rigid job of max(1, gpus) units with the demand of one unit each.

    Work is `duration_s` times the units. Jobs whose duration is 0 are left out and counted. A job of several
    tasks stands on several lines, which the pool of columns cannot hold: its second line is malformed.
    Source: uw-mad-dash/Eva, `src/pai_trace`.
    """
    table = DelimitedTable(source, tally, _EVA)
    further = [name for name in table.header if name and name not in _EVA and name not in RESERVED_NAMES]
    assembly = Assembly()
    for rows in table.chunks():
        found = rows.take(_EVA)
        extra = rows.take(dict.fromkeys(further, Text()))
        gpus = found["gpus"]
        _refuse_no_demand(rows, "cpus", found["cpus"], found["ram_gib"], gpus)
        rows.leave_out(found["duration_s"] == 0, "no run time")
        units = np.maximum(1, gpus)
        assembly.add(
            rows,
            {
                "job_id": found["job_id"],
                "submit_s": found["arrival_time_s"],
                "work_s": found["duration_s"] * units,
                "min_units": units,
                "max_units": units,
                "cpu": found["cpus"] / units,
                "memory_gib": found["ram_gib"] / units,
                "gpu": np.where(gpus > 0, 1.0, 0.0),
            },
            extra,
        )
    return assembly.workload(source, tally, EVA.name, guess=further)


def _refuse_no_demand(rows: Rows, field: str, *amounts: np.ndarray) -> None:
    nothing: Mask = np.logical_and.reduce([amount == 0 for amount in amounts])
    rows.refuse(nothing, field, _SOME_DEMAND)


def _has(*fields: str) -> Callable[[Opening], bool]:
    """Recognises a file by fields of its header."""
    return lambda opening: opening.fields.issuperset(fields)


PHILLY_PCS = TraceFormat(
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
    recognise=_has("app_id", "service", "num_jobs", "sleep_time"),
    read=_read_philly_pcs,
)

PHILLY_JOBS = TraceFormat(
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
    recognise=_has("timestamp", "duration", "num_gpus"),
    read=_read_philly_jobs,
)

OPENB = TraceFormat(
    name="openb",
    summary="Alibaba openb pod lists (cluster-trace-gpu-v2023): tasks with CPU, memory and GPU shares",
    details=(
        "A task is a rigid job of max(1, num_gpu) units. Tasks without a scheduled_time (Pending), without a "
        "deletion_time, or deleted at once are left out and counted. The multigpu variants have no times and "
        "cannot be read. Most tasks of the public file are created in its last month: start a simulation "
        "late."
    ),
    rules=(
        FieldRule("name", "job_id"),
        FieldRule("creation_time", "submit_s", "s"),
        FieldRule("deletion_time - scheduled_time", "work_s", "x units, s"),
        FieldRule("scheduled_time - creation_time", "extra recorded_wait_s", "s"),
        FieldRule("num_gpu", "min_units, max_units", "max(1, num_gpu)"),
        FieldRule("cpu_milli", "cpu", "cores a unit: / 1000 / units"),
        FieldRule("memory_mib", "memory_gib", "GiB a unit: / 1024 / units"),
        FieldRule("gpu_milli", "gpu", "share of a GPU a unit: / 1000; 0 without GPUs"),
        FieldRule("pod_phase", "status, extra pod_phase", "Succeeded 1, Failed 0, others unknown"),
        FieldRule("gpu_spec, qos", "extra gpu_spec, qos_name"),
    ),
    recognise=_has(*_OPENB_DEMAND),
    read=_read_openb,
)

EVA = TraceFormat(
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
    recognise=_has(*_EVA),
    read=_read_eva,
)
