"""Eva's trace with more jobs that need several GPUs, or several tasks; and its synthetic jobs of four tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from betimes_papers.eva.runs import trace

if TYPE_CHECKING:
    from betimes.workload import Workload

_SEED = 3
_P3_CPU, _P3_GIB = 8.0, 61.0  # of a GPU of the types that have some
_GPUS, _GPU_ODDS = (2, 4, 8), (0.5, 0.4, 0.1)
_TASKS = (2, 4)
_TASKS_OF_A_JOB = 4
_MEAN_GAP_S = 1200.0
# Those of the published benchmark, in its order; two_node_Resnet18 has the demand of resnet18.
KINDS = ("a3c", "cyclegan", "gcn", "gpt2", "openfoam", "sage", "seq", "resnet18", "vit", "resnet18")


def several_gpus(data: Path, jobs: int, share: float) -> Workload:
    """The trace with `share` of all jobs on 2, 4 or 8 GPUs (5:4:1), and as many jobs without GPUs as before.

    A job of one GPU becomes one of several, with its cores and memory multiplied, at most to those that come with the
    GPUs.
    """
    workload = trace(data, jobs)
    draw = np.random.default_rng(_SEED)
    width = np.asarray(workload.max_units).copy()
    one = np.flatnonzero((width == 1) & (workload.gpu > 0))
    wanted = max(0, round(share * len(workload)) - int(np.count_nonzero(width > 1)))
    grown = np.sort(draw.permutation(one)[:wanted])
    times = draw.choice(_GPUS, size=len(grown), p=_GPU_ODDS)
    width[grown] = times
    cpu, memory_gib, work_s = (
        np.asarray(each).copy() for each in (workload.cpu, workload.memory_gib, workload.work_s)
    )
    work_s[grown] *= times
    cpu[grown] = np.minimum(cpu[grown], _P3_CPU)
    memory_gib[grown] = np.minimum(memory_gib[grown], _P3_GIB)
    kinds = [str(kind) for kind in workload.extra["workload_variant"].tolist()]
    for row, count in zip(grown.tolist(), times.tolist(), strict=True):
        # Each demand is a separate kind, as in the trace.
        name, _, number = kinds[row].rpartition("[")
        kinds[row] = f"{name}[{count}{int(number[:-1]):03d}]"
    return replace(
        workload,
        min_units=width,
        max_units=width,
        work_s=work_s,
        cpu=cpu,
        memory_gib=memory_gib,
        extra={**workload.extra, "workload_variant": np.array(kinds)},
    )


def several_tasks(data: Path, jobs: int, share: float) -> Workload:
    """The trace with `share` of all jobs in 2 or 4 tasks (1:1), each with the demand of the original task."""
    workload = trace(data, jobs)
    draw = np.random.default_rng(_SEED)
    width = np.asarray(workload.max_units)
    times = np.ones(len(workload), np.int64)
    grown = np.sort(draw.permutation(len(workload))[: round(share * len(workload))])
    times[grown] = draw.choice(_TASKS, size=len(grown))
    return replace(
        workload,
        min_units=width * times,
        max_units=width * times,
        units_per_task=width.copy(),
        work_s=np.asarray(workload.work_s) * times,
    )


def jobs_of_four_tasks(jobs: int, seed: int) -> Workload:
    """Jobs of four equal tasks, each job of a uniformly drawn workload, for half an hour to 16 hours."""
    from betimes.workload import Workload
    from betimes.workload.family_demands import family_columns
    from betimes_papers.workloads.profiles import read_profiles

    draw = np.random.default_rng(seed)
    profiles = read_profiles()
    kinds = [KINDS[k] for k in draw.integers(len(KINDS), size=jobs)]
    chosen = [profiles[kind] for kind in kinds]
    width = np.array([max(1, *(gpus for gpus, _, _ in each.demand.values())) for each in chosen], np.int64)
    demand = family_columns([each.demand for each in chosen], width)
    lasts_s = (60.0 * 10 ** draw.uniform(1.5, 3.0, jobs)).astype(np.int64)
    return Workload.from_columns(
        submit_s=draw.exponential(_MEAN_GAP_S, jobs).cumsum().astype(np.int64),
        work_s=lasts_s * width * _TASKS_OF_A_JOB,
        min_units=width * _TASKS_OF_A_JOB,
        max_units=width * _TASKS_OF_A_JOB,
        units_per_task=width,
        gpu=demand.pop("gpu"),
        cpu=demand.pop("cpu"),
        memory_gib=demand.pop("memory_gib"),
        name="eva, jobs of four tasks",
        machine_units=1,
        extra={
            "workload_variant": kinds,
            "init_delay_s": [each.init_s for each in chosen],
            "fetch_delay_s": [each.fetch_s for each in chosen],
            "build_image_delay_s": [each.build_s for each in chosen],
            "kill_delay_s": [each.kill_s for each in chosen],
            "upload_delay_s": [each.upload_s for each in chosen],
            **demand,
        },
    )
