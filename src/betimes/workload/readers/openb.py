"""Alibaba's openb pod lists (cluster-trace-gpu-v2023): tasks with CPU, memory and shares of GPUs."""

from __future__ import annotations

import numpy as np

from betimes.errors import TraceError
from betimes.workload.columns import COMPLETED, FAILED, MOST_S, MOST_UNITS, UNKNOWN
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.format import FieldRule, Opening, TraceFormat
from betimes.workload.readers.rows import EMPTY, Rows
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload

_DEMAND = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
_STATUS = {"Succeeded": COMPLETED, "Failed": FAILED}


def read(source: Source, tally: Tally) -> Workload:
    """Read an openb pod list: a task is a rigid job of max(1, num_gpu) units.

    Its run time is deletion - scheduled; work is that times the units. Tasks that were never scheduled
    (Pending) and those that were deleted at once are left out and counted. Files without times (the
    `multigpu` variants) raise TraceError. Source: alibaba/clusterdata, cluster-trace-gpu-v2023.
    """
    table = DelimitedTable(source, tally, _DEMAND)
    if missing := [name for name in _TIMES if name not in table.header]:
        raise TraceError(
            f"this openb variant has no times (no column {', '.join(missing)}), so its tasks cannot be "
            "replayed: use one that has, such as openb_pod_list_default",
            source.path,
            table.header_line,
            missing[0],
        )
    assembly = Assembly()
    for rows in table.chunks():
        _take(rows, assembly)
    return assembly.workload(source, tally, FORMAT.name)


def _take(rows: Rows, assembly: Assembly) -> None:
    job_id = rows.text("name", is_id=True)
    cpu_milli = rows.number("cpu_milli", least=0)
    memory_mib = rows.number("memory_mib", least=0)
    gpus = rows.whole("num_gpu", least=0, most=MOST_UNITS)
    gpu_milli = rows.number("gpu_milli", least=0)
    created_s = rows.number("creation_time", least=0, most=MOST_S)
    scheduled_s = rows.number("scheduled_time", least=0, most=MOST_S, missing=EMPTY)
    deleted_s = rows.number("deletion_time", least=0, most=MOST_S, missing=EMPTY)
    rows.refuse(
        (cpu_milli == 0) & (memory_mib == 0) & ((gpus == 0) | (gpu_milli == 0)),
        "cpu_milli",
        "expected some demand, of CPU, memory or GPU",
    )
    labels = {name: rows.text(name) for name in ("gpu_spec", "qos", "pod_phase") if name in rows.columns}
    run_s = deleted_s - scheduled_s
    rows.leave_out(np.isnan(scheduled_s), "never scheduled")
    rows.leave_out(np.isnan(deleted_s), "not finished")
    rows.leave_out(run_s <= 0, "no run time")
    units = np.maximum(1, gpus)
    phases = labels.get("pod_phase", [""] * len(rows))
    assembly.add(
        rows,
        {
            "job_id": job_id,
            "submit_s": created_s,
            "work_s": run_s * units,
            "min_units": units,
            "max_units": units,
            "status": np.array([_STATUS.get(phase, UNKNOWN) for phase in phases], np.int64),
            "cpu": cpu_milli / 1000 / units,
            "memory_gib": memory_mib / 1024 / units,
            "gpu": np.where(gpus > 0, gpu_milli / 1000, 0.0),
        },
        {
            "recorded_wait_s": scheduled_s - created_s,
            **{_LABELS[name]: cells for name, cells in labels.items()},
        },
    )


_LABELS = {"gpu_spec": "gpu_spec", "qos": "qos_name", "pod_phase": "pod_phase"}


def _recognise(opening: Opening) -> bool:
    return set(_DEMAND) <= opening.fields


FORMAT = TraceFormat(
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
    recognise=_recognise,
    read=read,
)
