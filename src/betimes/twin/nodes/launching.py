"""The delays of a trace's jobs to launch, initialise and stop, their workloads' speeds on each offer, and their
interference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Cluster
from betimes.cluster.interference import Interference, workload_of
from betimes.errors import ClusterError, InputError
from betimes.workload import Workload

PARTS = {
    "launch_s": ("fetch_delay_s", "build_image_delay_s"),
    "init_s": ("init_delay_s",),
    "stop_s": ("kill_delay_s", "upload_delay_s"),
}
"""The columns of a trace that add up to each delay, those of Eva's artifact (spec/eva.md 2.3)."""

KIND = "workload_variant"
"""The column that names the kind of a job: a workload, or that and a number in brackets."""


def kinds_of(jobs: Workload) -> list[str]:
    """The kind of each job; by its units' demand where the trace has none."""
    if KIND in jobs.extra:
        return [str(kind) for kind in jobs.extra[KIND].tolist()]
    columns = (jobs.max_units, jobs.gpu, jobs.cpu, jobs.memory_gib)
    return [
        f"{units} x {gpu:g} GPU, {cpu:g} cores, {memory:g} GiB"
        for units, gpu, cpu, memory in zip(*(column.tolist() for column in columns), strict=True)
    ]


def table_of(interference: Interference | None) -> NDArray[np.float64]:
    """(workloads, workloads) the speed of the row's next to one of the column's; empty: nothing slows anything."""
    if interference is None:
        return np.zeros((0, 0))
    return np.array(
        [
            [interference.pair(one, other) for other in interference.workloads]
            for one in interference.workloads
        ]
    )


def hardware_of(cluster: Cluster) -> NDArray[np.float64]:
    """(workloads, offers) the speed of each workload on machines of each offer; empty: 1 everywhere."""
    speeds = [dict(offer.speeds) for offer in cluster.offers]
    if not any(speeds):
        return np.zeros((0, 0))
    return np.array([[of.get(workload, 1.0) for of in speeds] for workload in cluster.workloads])


def launching(jobs: Workload, cluster: Cluster) -> dict[str, NDArray[Any]]:
    """The delays of each job, s, and its workload's row of the tables: 0 s and -1 where the trace has none.

    Raises InputError for a delay that is no number of 0 or more, and for a workload that the table does not have.
    """
    found: dict[str, NDArray[Any]] = {"workload": np.full(len(jobs), -1)}
    if cluster.workloads and KIND in jobs.extra:
        found["workload"] = _rows_of(jobs, cluster)
    for delay, columns in PARTS.items():
        found[delay] = np.zeros(len(jobs))
        for name in columns:
            if name in jobs.extra:
                found[delay] = found[delay] + _seconds(jobs, name)
    return found


def _rows_of(jobs: Workload, cluster: Cluster) -> NDArray[np.int64]:
    rows = {"": -1}  # of a job without a workload in the trace
    places = {workload: row for row, workload in enumerate(cluster.workloads)}
    for number, kind in enumerate(kinds_of(jobs)):
        if kind not in rows:
            if cluster.interference is None:
                rows[kind] = places.get(workload_of(kind), -1)
                continue
            try:
                rows[kind] = cluster.interference.row(kind)
            except ClusterError as error:
                raise InputError(f"{jobs.name}: job {jobs.job_id[number]}, field {KIND}: {error}") from None
    return np.array([rows[kind] for kind in kinds_of(jobs)], np.int64)


def _seconds(jobs: Workload, name: str) -> NDArray[np.float64]:
    values = np.nan_to_num(np.asarray(jobs.extra[name], dtype=np.float64), nan=0.0)
    if bad := np.flatnonzero(~((values >= 0) & np.isfinite(values))).tolist():
        raise InputError(
            f"{jobs.name}: job {jobs.job_id[bad[0]]}, field {name}: expected 0 s or more, found {values[bad[0]]:g}"
        )
    return values
