"""The rules that every workload keeps; the messages name job and field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.workload.columns import (
    CANONICAL_NAMES,
    MOST_CHARACTERS,
    MOST_S,
    MOST_UNITS,
    RESERVED_NAMES,
    UNKNOWN,
    AnyColumn,
    Floats,
    Integers,
)

if TYPE_CHECKING:
    from betimes.workload.workload import Workload

DEMANDS = ("gpu", "cpu", "memory_gib")
SOME_DEMAND = "some demand of gpu, cpu or memory_gib above 0 where any is known"


def validate(workload: Workload) -> None:
    """Raise InputError, naming job and field, at the first rule that the workload breaks."""
    _shapes(workload)
    _texts(workload)
    w = workload

    def demand(field: str, holds: NDArray[np.bool_], expected: str) -> None:
        if not holds.all():
            row = int(np.argmin(holds))
            found = getattr(w, field)[row]
            raise InputError(f"job {w.job_id[row]}, field {field}: expected {expected}, found {found!s}")

    demand("submit_s", (w.submit_s >= 0) & np.isfinite(w.submit_s), "a finite time of 0 s or later")
    demand("submit_s", w.submit_s <= MOST_S, f"at most {MOST_S:g} s")
    demand("work_s", (w.work_s > 0) & np.isfinite(w.work_s), "a finite number of seconds above 0")
    demand("min_units", w.min_units >= 1, "at least 1 unit")
    demand("max_units", w.max_units >= w.min_units, "at least min_units")
    demand("max_units", w.max_units <= MOST_UNITS, f"at most {MOST_UNITS} units")
    demand("units_per_task", w.units_per_task >= 0, "0 (as many as fit on one node) or more units")
    demand("units_per_task", divides(w.units_per_task, w.max_units), "a divisor of max_units")
    demand("curve", (w.curve >= 0) & (w.curve < len(w.curve_names)), "a code of curve_names")
    demand(
        "estimate_s",
        np.isnan(w.estimate_s) | ((w.estimate_s > 0) & np.isfinite(w.estimate_s)),
        "NaN or above 0",
    )
    highest_user = len(w.user_names) - 1 if w.user_names else np.iinfo(np.int64).max
    demand("user", (w.user >= -1) & (w.user <= highest_user), "-1 or a user")
    demand("qos", (w.qos == 0) | (w.qos == 1), "0 (best-effort) or 1 (trial)")
    demand("grace_s", (w.grace_s >= 0) & np.isfinite(w.grace_s), "a finite number of seconds of 0 or more")
    demand("grace_s", w.grace_s <= MOST_S, f"at most {MOST_S:g} s")
    for field in DEMANDS:
        values = getattr(w, field)
        demand(field, np.isnan(values) | ((values >= 0) & np.isfinite(values)), "NaN or at least 0")
    nothing = needs_nothing(w.gpu, w.cpu, w.memory_gib)
    for field in DEMANDS:
        demand(field, ~nothing | np.isnan(getattr(w, field)), SOME_DEMAND)
    if len(w) > 1:
        demand("submit_s", np.concatenate(([True], np.diff(w.submit_s) >= 0)), "the order of submission")
    twice = repeated(w.job_id)
    if twice is not None:
        raise InputError(f"job {w.job_id[twice]}, field job_id: used by more than one job")
    if w.machine_units is not None and w.machine_units < 1:
        raise InputError(f"field machine_units: expected at least 1, found {w.machine_units}")


def divides(units_per_task: Integers, max_units: Integers) -> NDArray[np.bool_]:
    """The rows whose tasks are equal."""
    return (units_per_task == 0) | (max_units % np.maximum(units_per_task, 1) == 0)


def needs_nothing(gpu: Floats, cpu: Floats, memory_gib: Floats) -> NDArray[np.bool_]:
    """The rows with some demand known (not NaN), and all known demands 0."""
    together = np.stack((gpu, cpu, memory_gib))
    return ((together == 0) | np.isnan(together)).all(axis=0) & (together == 0).any(axis=0)


def repeated(ids: AnyColumn) -> int | None:
    """The first row whose id stands in an earlier row already; None where all differ."""
    if len(ids) < 2 or (ids.dtype.kind == "i" and bool((np.diff(ids) > 0).all())):
        return None
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    later = order[1:][ordered[1:] == ordered[:-1]]
    return int(later.min()) if len(later) else None


def _shapes(w: Workload) -> None:
    n = len(w.job_id)
    for name, values in [*((name, getattr(w, name)) for name in CANONICAL_NAMES), *w.extra.items()]:
        if values.shape != (n,):
            raise InputError(f"field {name}: expected {n} values, as many as job ids, found {values.shape}")
    for name in w.extra:
        if name in RESERVED_NAMES or not name or not name.isprintable() or len(name) > MOST_CHARACTERS:
            raise InputError(f"field {name!r}: not a name that a further column can have")
    if not w.curve_names:
        raise InputError("field curve_names: expected at least one speed-up curve")


def _texts(w: Workload) -> None:
    for name, values in (("job_id", w.job_id), *w.extra.items()):
        if values.dtype.kind != "U":
            continue
        for row, value in enumerate(values):
            if fault := text_fault(str(value), is_id=name == "job_id"):
                raise InputError(f"job {str(w.job_id[row])[:40]!r}, field {name}: {fault}")
    for value in np.unique(w.require[w.require != ""]).tolist():
        if fault := text_fault(value, is_id=True):
            job = str(w.job_id[int(np.argmax(w.require == value))])[:40]
            raise InputError(f"job {job!r}, field require: {fault}")
    for field, names in (("curve_names", w.curve_names), ("user_names", w.user_names)):
        for name in names:
            fault = text_fault(name, is_id=True)
            if fault is None and field == "user_names" and name == str(UNKNOWN):
                fault = "expected names, and -1 means the unknown user"
            if fault:
                raise InputError(f"field {field}: {fault}: {name[:40]!r}")


def text_fault(value: str, *, is_id: bool) -> str | None:
    """The reason that forbids this text in a column (names and ids must also be printable and not empty)."""
    if len(value) > MOST_CHARACTERS:
        return f"expected at most {MOST_CHARACTERS} characters"
    if is_id and not (value and value.isprintable() and value == value.strip()):
        return "expected a printable name without blanks around it"
    # Fixed-width text arrays drop a trailing NUL, and lone surrogates have no UTF-8 form.
    if "\0" in value or (not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value)):
        return "expected text without NUL or surrogate characters"
    return None
