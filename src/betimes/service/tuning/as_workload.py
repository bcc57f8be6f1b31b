"""Jobs as submitted, as a workload that the twin runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from betimes.cluster.labels import as_texts
from betimes.service.engines.speedups import Speedups
from betimes.service.scheduling.engine_job import wanted_for
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.twin.nodes.renting import RENT
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable
from betimes.workload.validation import DEMANDS

TRIAL = 1


def as_workload(
    specs: Sequence[JobSpec],
    *,
    name: str,
    job_id: Sequence[int],
    submit_s: ArrayLike,
    work_s: ArrayLike,
    estimate_s: ArrayLike,
) -> tuple[Workload, SpeedupTable | None]:
    """The same jobs for the twin, and their measured speed-up curves, if any has one.

    work_s: what each truly takes on one unit; estimate_s: what is believed of it on max_units.
    """
    names = _Names()
    workload = Workload.from_columns(
        name=name,
        job_id=job_id,
        submit_s=submit_s,
        work_s=work_s,
        min_units=[spec.min_units for spec in specs],
        max_units=[spec.max_units for spec in specs],
        units_per_task=[spec.task_choice for spec in specs],
        curve=[names.of(spec) for spec in specs],
        estimate_s=estimate_s,
        qos=[TRIAL if spec.qos == "trial" else 0 for spec in specs],
        priority=[spec.priority for spec in specs],
        grace_s=[spec.grace_s for spec in specs],
        cpu=[spec.cpu for spec in specs],
        memory_gib=[spec.memory_gib for spec in specs],
        gpu=[spec.gpu for spec in specs],
        require=[",".join(as_texts(spec.required)) for spec in specs],
        extra=_more(specs),
    )
    return workload, names.table()


def _more(specs: Sequence[JobSpec]) -> dict[str, Any]:
    """The columns that only some workloads have."""
    found = dict[str, Any]()
    if any(spec.rent != "auto" for spec in specs):
        found[RENT] = [spec.rent for spec in specs]
    for family in sorted({family for spec in specs for family in spec.demand}):
        needed = [spec.unit.on(family) if spec.demand else None for spec in specs]
        for at, name in enumerate(DEMANDS):
            found[f"{name}.{family}"] = [math.nan if each is None else each[at] for each in needed]
    return found


class _Names:
    """A name for each measured curve; formulas have theirs."""

    def __init__(self) -> None:
        self._speeds = Speedups()
        self._of: dict[tuple[float, ...], tuple[str, int]] = {}  # and its row among the speed-ups

    def of(self, spec: JobSpec) -> str:
        """The name of a job's curve."""
        if not isinstance(spec.curve, Curve):
            return spec.curve
        wanted = wanted_for(0, spec, 1.0)
        named = (f"measured-{len(self._of) + 1}", self._speeds.row_of(wanted))
        return self._of.setdefault(wanted.table, named)[0]

    def table(self) -> SpeedupTable | None:
        """All that are measured; null: none is."""
        if not self._of:
            return None
        named = list(self._of.values())
        rows = self._speeds.table[[row for _, row in named]]
        last = np.full(len(named), rows.shape[1] - 1, dtype=np.int64)
        return SpeedupTable(tuple(name for name, _ in named), np.ascontiguousarray(rows), last)
