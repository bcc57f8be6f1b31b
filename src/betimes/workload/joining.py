"""Several workloads as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.workload.columns import UNKNOWN, AnyColumn, Texts
from betimes.workload.family_demands import family_of_column
from betimes.workload.notes import Notes

if TYPE_CHECKING:
    from betimes.workload.workload import Workload

_PLAIN = (
    "submit_s",
    "work_s",
    "min_units",
    "max_units",
    "estimate_s",
    "status",
    "qos",
    "priority",
    "grace_s",
    "cpu",
    "memory_gib",
    "gpu",
    "units_per_task",
    "require",
)


def concatenate(*workloads: Workload) -> Workload:
    """All jobs of these workloads on one time axis, sorted by submission; ids that collide are moved.

    Whole-number ids of a workload that collides are raised above those before it; text ids get the workload's
    number in front. A further column that a workload lacks is NaN, -1 or empty there. The machine size stays
    where all agree.
    """
    if len(workloads) == 1:
        return workloads[0]
    ids, warnings = _identifiers(workloads)
    sizes = {w.machine_units for w in workloads}
    skipped: dict[str, int] = {}
    for w in workloads:
        for reason, count in w.notes.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    formats = list(dict.fromkeys(w.notes.format for w in workloads if w.notes.format))
    keys = dict.fromkeys(key for w in workloads for key in w.notes.header)
    users, user_names = _users(workloads)
    plain: dict[str, Any] = {name: np.concatenate([getattr(w, name) for w in workloads]) for name in _PLAIN}
    return type(workloads[0]).from_columns(
        job_id=ids,
        curve=np.concatenate([np.array(w.curve_names, np.str_)[w.curve] for w in workloads]),
        user=users,
        user_names=user_names,
        **plain,
        name="+".join(w.name for w in workloads),
        machine_units=sizes.pop() if len(sizes) == 1 else None,
        extra=_extras(workloads),
        notes=Notes(
            format="+".join(formats),
            skipped=skipped,
            warnings=(*(warning for w in workloads for warning in w.notes.warnings), *warnings),
            header={
                key: "\n".join(w.notes.header[key] for w in workloads if key in w.notes.header)
                for key in keys
            },
        ),
    )


def _identifiers(workloads: Sequence[Workload]) -> tuple[AnyColumn, list[str]]:
    as_text = any(w.job_id.dtype.kind == "U" for w in workloads if len(w))
    seen: AnyColumn = np.empty(0, np.str_ if as_text else np.int64)
    warnings: list[str] = []
    for number, w in enumerate(workloads, 1):
        ids: AnyColumn = w.job_id.astype(np.str_) if as_text else w.job_id.astype(np.int64)
        if len(np.intersect1d(ids, seen)):
            if as_text:
                ids = np.array([f"{number}/{job_id}" for job_id in ids], np.str_)
                warnings.append(
                    f"job ids of workload {number} ({w.name}) collided and begin with {number}/ now"
                )
            else:
                offset = int(seen.max()) + 1 - int(ids.min())
                ids = ids + offset
                warnings.append(
                    f"job ids of workload {number} ({w.name}) collided and were raised by {offset}"
                )
        seen = np.concatenate([seen, ids])
    return seen, warnings


def _users(workloads: Sequence[Workload]) -> tuple[AnyColumn, tuple[str, ...]]:
    if not any(w.user_names for w in workloads):
        return np.concatenate([w.user for w in workloads]), ()
    table: dict[str, int] = {}
    columns: list[AnyColumn] = []
    for w in workloads:
        labels = w.user_names or tuple(str(user) for user in np.unique(w.user[w.user >= 0]))
        places = [table.setdefault(label, len(table)) for label in labels]
        lookup = np.array([*places, UNKNOWN], np.int64)
        rows = w.user if w.user_names else np.searchsorted(np.unique(w.user[w.user >= 0]), w.user)
        columns.append(lookup[np.where(w.user >= 0, rows, len(labels))])
    return np.concatenate(columns), tuple(table)


def _extras(workloads: Sequence[Workload]) -> dict[str, AnyColumn]:
    extra: dict[str, AnyColumn] = {}
    for key in dict.fromkeys(key for w in workloads for key in w.extra):
        kinds = {w.extra[key].dtype.kind for w in workloads if key in w.extra}
        if kinds == {"i"} and family_of_column(key) and not all(key in w.extra for w in workloads):
            kinds = {"f"}  # -1 is no demand
        parts = [_part(w, key, kinds) for w in workloads]
        extra[key] = np.concatenate(parts)
    return extra


def _part(w: Workload, key: str, kinds: set[str]) -> AnyColumn:
    if key not in w.extra:
        if "U" in kinds:
            return np.full(len(w), "")
        return np.full(len(w), np.nan) if "f" in kinds else np.full(len(w), UNKNOWN, np.int64)
    values = w.extra[key]
    if "U" in kinds:
        texts: Texts = values.astype(np.str_)
        return texts
    return values.astype(np.float64) if "f" in kinds else values
