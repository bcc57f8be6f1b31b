"""A run's use of cores and memory over its time, as its supervisor has measured it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from betimes.service.executors.supervision.curve import FIRST_S, MOST
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import CurvePoint, CurvesView

NOT_YET = f"it is measured from {FIRST_S:g} s after its start on, on a real node with Linux"
NEVER = f"nothing is kept: it ended within {FIRST_S:g} s, its node is made up, or its output was removed"
OF_SLURM = "it is a job of Slurm, which runs it: nothing is measured here"
_LEAST_S, _LONGEST_S = 0.01, 1e9  # between two points; of a run
_MOST = 1e15  # seconds of processor time, bytes


def curves_view(run: Mapping[str, Any], spec: JobSpec, units: int, written: bytes) -> CurvesView:
    """run: of the store; units: of it on the node; written: the file there, where a job could have put anything."""
    began_at = float(run["started_at"])
    marks = [(0.0, 0.0, 0.0), *_marks(written)]
    points = [
        CurvePoint(
            at=began_at + at_s,
            cores=max(0.0, used_s - before_s) / (at_s - since_s),
            memory_gib=memory_bytes / 2**30,
        )
        for (since_s, before_s, _), (at_s, used_s, memory_bytes) in pairwise(marks)
    ]
    return CurvesView(
        job_id=run["job_id"],
        run=run["number"],
        started_at=began_at,
        points=points,
        cores_asked=spec.cpu * units,
        memory_asked_gib=(spec.memory_gib or 0.0) * units,
        cores_mean=marks[-1][1] / marks[-1][0] if points else None,
        memory_most_gib=max((point.memory_gib for point in points), default=None),
        not_measured=None if points else NOT_YET if run["ended_at"] is None else NEVER,
    )


def _marks(written: bytes) -> list[tuple[float, float, float]]:
    """Of a supervisor's file: until when, processor time so far, memory; none where it holds anything else."""
    try:
        found = json.loads(written)["points"] if written else []
        marks = [(float(at_s), float(used_s), float(most)) for at_s, used_s, most in found[:MOST]]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return []
    times = [0.0, *(at_s for at_s, _, _ in marks)]
    is_sound = all(math.isfinite(each) and 0.0 <= each <= _MOST for mark in marks for each in mark)
    follow = all(one + _LEAST_S <= other <= _LONGEST_S for one, other in pairwise(times))
    return marks if is_sound and follow else []
