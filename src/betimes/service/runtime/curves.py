"""A run's use of cores, memory and GPUs over its time, as its supervisor has measured it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from betimes.service.executors.supervision.curve import FIRST_S, MOST
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import CurvePoint, CurvesView

NOT_YET = f"it is measured from {FIRST_S:g} s after its start on, on a real node with Linux"
NEVER = f"nothing is kept: it ended within {FIRST_S:g} s, its node is made up, or its output was removed"
OF_SLURM = "it is a job of Slurm, which runs it: nothing is measured here"
_LEAST_S, _LONGEST_S = 0.01, 1e9  # between two points; of a run
_FIELDS = (3, 5)  # of a point: without GPUs, and with them
_MOST = 1e15  # seconds of processor time, bytes


def curves_view(run: Mapping[str, Any], spec: JobSpec, units: int, written: bytes) -> CurvesView:
    """run: of the store; units: of it on the node; written: the file there, where a job could have put anything."""
    began_at = float(run["started_at"])
    marks, gpu_memory_bytes = _read(written)
    points, busy_s, measured_s, before = list[CurvePoint](), 0.0, 0.0, _Mark(0.0, 0.0, 0.0)
    gpu_s = 0.0
    for mark in marks:
        took_s = mark.at_s - before.at_s
        point = CurvePoint(
            at=began_at + mark.at_s,
            cores=max(0.0, mark.used_s - before.used_s) / took_s,
            memory_gib=mark.memory_bytes / 2**30,
        )
        if mark.gpu_s is not None:
            new_s = max(0.0, mark.gpu_s - gpu_s)
            point = point.model_copy(
                update={"gpus": new_s / took_s, "gpu_memory_gib": mark.gpu_memory_bytes / 2**30}
            )
            gpu_s, busy_s, measured_s = mark.gpu_s, busy_s + new_s, measured_s + took_s
        points.append(point)
        before = mark
    return CurvesView(
        job_id=run["job_id"],
        run=run["number"],
        started_at=began_at,
        points=points,
        cores_asked=spec.cpu * units,
        memory_asked_gib=(spec.memory_gib or 0.0) * units,
        cores_mean=marks[-1].used_s / marks[-1].at_s if marks else None,
        memory_most_gib=max((point.memory_gib for point in points), default=None),
        gpus_asked=spec.gpu * units,
        gpus_mean=busy_s / measured_s if measured_s else None,
        gpu_memory_most_gib=max(
            (point.gpu_memory_gib for point in points if point.gpu_memory_gib is not None), default=None
        ),
        gpu_memory_has_gib=gpu_memory_bytes / 2**30 if measured_s and gpu_memory_bytes else None,
        not_measured=None if points else NOT_YET if run["ended_at"] is None else NEVER,
    )


class _Mark(NamedTuple):
    """Until when, s since the start; processor time so far, s; memory, bytes; and the same of GPUs, null: unknown."""

    at_s: float
    used_s: float
    memory_bytes: float
    gpu_s: float | None = None
    gpu_memory_bytes: float = 0.0


def _read(written: bytes) -> tuple[list[_Mark], float]:
    """A supervisor's file: its points, and bytes of memory of the GPUs; none where it holds anything else."""
    try:
        found: dict[str, Any] = json.loads(written) if written else {"points": []}
        marks = [_Mark(*map(float, each)) for each in found["points"][:MOST] if len(each) in _FIELDS]
        gpu_memory_bytes = float(found.get("gpu_memory_bytes", 0.0))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return [], 0.0
    times = [0.0, *(mark.at_s for mark in marks)]
    amounts = [each for mark in marks for each in mark if each is not None]
    is_sound = all(math.isfinite(each) and 0.0 <= each <= _MOST for each in (*amounts, gpu_memory_bytes))
    follow = all(one + _LEAST_S <= other <= _LONGEST_S for one, other in pairwise(times))
    return (marks, gpu_memory_bytes) if is_sound and follow else ([], 0.0)
