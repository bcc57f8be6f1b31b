"""Betimes's own columns, as they stand in its CSV and Parquet files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from betimes.errors import TraceError
from betimes.workload.columns import (
    CANONICAL,
    CANONICAL_NAMES,
    MOST_CHARACTERS,
    MOST_S,
    MOST_UNITS,
    AnyColumn,
    Floats,
)
from betimes.workload.readers.format import FieldRule
from betimes.workload.readers.rows import EMPTY, Rows
from betimes.workload.validation import DEMANDS, SOME_DEMAND, divides, needs_nothing

RULES: tuple[FieldRule, ...] = (
    *(
        FieldRule(column.name, column.name, column.meaning + (f" ({column.unit})" if column.unit else ""))
        for column in CANONICAL
        if column.name != "job_id"
    ),
    FieldRule("job_id", "job_id", "without it: the number of the row, from 0"),
    FieldRule("run_s", "work_s", "run time at max_units, s; x max_units, for files without work_s"),
    FieldRule("user_name", "user", "names of users, for files without user"),
    FieldRule(
        "gpu.FAMILY, cpu.FAMILY, memory_gib.FAMILY",
        "extra under their names",
        "what each unit needs on a family of machines; where none says anything, what gpu, cpu and memory_gib say",
    ),
    FieldRule("all others", "extra under their names"),
)


def missing_column(names: list[str]) -> str | None:
    """The column without which these cannot be a workload."""
    if "submit_s" not in names:
        return "submit_s"
    if "work_s" not in names and "run_s" not in names:
        return "work_s"
    return None if "max_units" in names else "max_units"


def take(rows: Rows, first_row: int, extra: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The canonical columns of a chunk that starts at this row, and the further ones with their types."""
    names = rows.columns
    numbers = np.arange(first_row, first_row + len(rows))
    units = rows.whole("max_units", least=1, most=MOST_UNITS)
    made: dict[str, Any] = {
        "job_id": _job_id(rows) if "job_id" in names else numbers,
        "submit_s": rows.number("submit_s", least=0, most=MOST_S),
        "work_s": rows.number("work_s", above=0)
        if "work_s" in names
        else rows.number("run_s", above=0, most=MOST_S) * units,
        "max_units": units,
    }
    if "min_units" in names:
        made["min_units"] = rows.whole("min_units", least=1, most=MOST_UNITS, missing=EMPTY, instead=1)
        rows.refuse(made["min_units"] > units, "min_units", "expected at most max_units")
    if "units_per_task" in names:
        each = rows.whole("units_per_task", least=0, most=MOST_UNITS, missing=EMPTY, instead=0)
        rows.refuse(~divides(each, units), "units_per_task", "expected a divisor of max_units")
        made["units_per_task"] = each
    if "require" in names:
        made["require"] = rows.text("require")
    if "curve" in names:
        made["curve"] = [name or "linear" for name in rows.text("curve")]
        faulty = np.array(
            [not name.isprintable() or name != name.strip() for name in made["curve"]], np.bool_
        )
        rows.refuse(faulty, "curve", "expected a printable name")
    if "estimate_s" in names:
        made["estimate_s"] = rows.number("estimate_s", above=0, missing=EMPTY)
    for name in DEMANDS:
        if name in names:
            made[name] = rows.number(name, least=0, missing=EMPTY)
    unknown = np.full(len(rows), np.nan)
    nothing = needs_nothing(*(made.get(name, unknown) for name in DEMANDS))
    for name in DEMANDS:
        if name in names:
            rows.refuse(nothing & (made[name] == 0), name, f"expected {SOME_DEMAND}")
    if "status" in names:
        made["status"] = rows.whole("status", least=-128, most=127, missing=EMPTY)
    if "qos" in names:
        made["qos"] = rows.whole("qos", least=0, most=1, missing=EMPTY, instead=0)
    if "priority" in names:
        made["priority"] = rows.whole("priority", missing=EMPTY, instead=0)
    if "grace_s" in names:
        grace_s = rows.number("grace_s", least=0, most=MOST_S, missing=EMPTY)
        made["grace_s"] = np.where(np.isnan(grace_s), 0.0, grace_s)
    if "user_name" in names:
        made["user"] = _user_names(rows, "user_name")
    elif "user" in names:
        column = rows.columns["user"]
        made["user"] = (
            rows.whole("user", least=-1) if isinstance(column, np.ndarray) else _user_names(rows, "user")
        )
    return made, {name: _further(rows, name, kind) for name, kind in extra.items()}


def metadata(text: str, path: Path, line: int | None) -> dict[str, Any]:
    """What a file written by Betimes says about itself: name, machine_units, header, extra (name to type)."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"the note about the workload is not JSON ({str(error)[:80]}): remove it", path, line
        ) from error
    made: dict[str, Any] = found if isinstance(found, dict) else {}
    header, extra, units = made.get("header", {}), made.get("extra", {}), made.get("machine_units")
    holds = (
        isinstance(found, dict)
        and isinstance(made.get("name", ""), str)
        and (units is None or (type(units) is int and 1 <= units <= MOST_UNITS))
        and isinstance(header, dict)
        and all(isinstance(value, str) for value in header.values())
        and isinstance(extra, dict)
        and all(isinstance(kind, str) and kind in ("int64", "float64", "text") for kind in extra.values())
    )
    if not holds:
        raise TraceError("the note about the workload is not one that Betimes wrote: remove it", path, line)
    return {"name": made.get("name", ""), "machine_units": units, "header": header, "extra": extra}


def further_columns(names: list[str], path: Path, line: int | None) -> list[str]:
    """The columns that are kept in `extra`."""
    further = [name for name in names if name not in {*CANONICAL_NAMES, "run_s", "user_name"}]
    for name in further:
        if not name or not name.isprintable() or len(name) > MOST_CHARACTERS:
            raise TraceError("the header has a column without a printable name", path, line, repr(name[:40]))
    return further


def _job_id(rows: Rows) -> AnyColumn | list[str]:
    column = rows.columns["job_id"]
    return rows.whole("job_id") if isinstance(column, np.ndarray) else rows.text("job_id", is_id=True)


def _user_names(rows: Rows, field: str) -> list[str]:
    names = rows.text(field)
    faulty = np.array([not name.isprintable() or name != name.strip() for name in names], np.bool_)
    rows.refuse(faulty, field, "expected a printable name")
    return names


def _further(rows: Rows, name: str, kind: str) -> AnyColumn | list[str]:
    if kind == "int64":
        return rows.whole(name)
    if kind == "float64":
        return _any_number(rows, name)
    return rows.text(name)


def _any_number(rows: Rows, name: str) -> Floats:
    """Numbers of a further column, which may be infinite or unknown."""
    cells = rows.columns[name]
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64)
    try:
        return np.fromiter((float(cell or "nan") for cell in cells), np.float64, len(rows))
    except ValueError:
        nan = float("nan")
        made = rows.parsed(name, lambda text: float(text or "nan"), nan, "expected a number")
        return np.array(made, np.float64)
