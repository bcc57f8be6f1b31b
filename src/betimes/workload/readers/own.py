"""Betimes's own files, CSV and Parquet: the canonical columns by name, and any further columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.errors import TraceError
from betimes.workload.columns import (
    CANONICAL,
    LINEAR,
    MOST_CHARACTERS,
    MOST_S,
    MOST_UNITS,
    RESERVED_NAMES,
    AnyColumn,
    Floats,
)
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.rows import EMPTY, Check, Number, Parsed, Rows, Tally, Text, Whole
from betimes.workload.readers.source import Source
from betimes.workload.readers.trace_format import Assembly, FieldRule, Opening, TraceFormat
from betimes.workload.validation import DEMANDS, SOME_DEMAND, divides, needs_nothing
from betimes.workload.workload import Workload
from betimes.workload.writing import KEY, MARK

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
_BATCH = 1 << 16
_ESSENTIAL = ("submit_s", "work_s", "max_units")
_NAME = Text(is_id=True, missing=EMPTY)

_CHECKS: Mapping[str, Check] = {
    "max_units": Whole(least=1, most=MOST_UNITS),
    "submit_s": Number(least=0, most=MOST_S),
    "min_units": Whole(least=1, most=MOST_UNITS, missing=EMPTY, instead=1),
    "units_per_task": Whole(least=0, most=MOST_UNITS, missing=EMPTY, instead=0),
    "require": Text(),
    "curve": _NAME,
    "estimate_s": Number(above=0, missing=EMPTY),
    **dict.fromkeys(DEMANDS, Number(least=0, missing=EMPTY)),
    "status": Whole(least=-128, most=127, missing=EMPTY),
    "qos": Whole(least=0, most=1, missing=EMPTY, instead=0),
    "priority": Whole(missing=EMPTY, instead=0),
    "grace_s": Number(least=0, most=MOST_S, missing=EMPTY, instead=0.0),
}
_RUN_S, _WORK_S = Number(above=0, most=MOST_S), Number(above=0)

_RULES: tuple[FieldRule, ...] = (
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
        "what each unit needs on a family of machines; without any of them, the amounts in gpu, cpu and memory_gib",
    ),
    FieldRule(
        "speed.FAMILY",
        "extra under its name",
        "how fast the job works on a family of machines: its run time is that at speed 1; 0: it cannot run there",
    ),
    FieldRule("all others", "extra under their names"),
)


def read_csv(source: Source, tally: Tally) -> Workload:
    """Read Betimes's CSV: submit_s, max_units and work_s (or run_s) are required, others have defaults.

    An empty cell means the default. Further columns are kept in `extra`; where no note before the header gives
    their type, columns of numbers become numbers. Lines that begin with # before the header are comments.
    """
    table = DelimitedTable(source, tally)
    if missing := _missing_column(table.header):
        raise table.missing(missing)
    note = next((c.removeprefix(MARK) for c in reversed(table.comments) if c.startswith(MARK)), "{}")
    known = _note(note, source.path)
    further = _further_columns(table.header, source.path, table.header_line)
    types = {name: known["extra"].get(name, "guess") for name in further}
    assembly, place = Assembly(), 0
    for rows in table.chunks():
        assembly.add(rows, _columns(rows, place), _further(rows, types))
        place += len(rows)
    return assembly.workload(
        source,
        tally,
        CSV.name,
        name=known["name"],
        header=known["header"],
        machine_units=known["machine_units"],
        guess=[name for name, kind in types.items() if kind == "guess"],
    )


def read_parquet(source: Source, tally: Tally) -> Workload:
    """Read Betimes's Parquet: the columns of its CSV. In messages "line" is the number of the row, from 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Batches are decoded while the loop runs, so everything in it can meet damage in the file.
    try:
        file = pq.ParquetFile(pa.BufferReader(source.everything()))
        names = [str(name) for name in file.schema_arrow.names]
        known = _note(
            (file.schema_arrow.metadata or {}).get(KEY, b"{}").decode(errors="replace"), source.path
        )
        _check_names(names, source.path)
        further = _further_columns(names, source.path, None)
        assembly, place = Assembly(), 0
        for batch in file.iter_batches(_BATCH, use_threads=False):
            cells = {name: _cells(batch.column(at), name, source) for at, name in enumerate(names)}
            rows = Rows(np.arange(place + 1, place + 1 + batch.num_rows), cells, tally)
            assembly.add(
                rows, _columns(rows, place), _further(rows, {name: _kind(cells[name]) for name in further})
            )
            place += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise TraceError(f"the Parquet file is damaged or truncated ({reason})", source.path) from error
    return assembly.workload(
        source,
        tally,
        PARQUET.name,
        name=known["name"],
        header=known["header"],
        machine_units=known["machine_units"],
    )


def _columns(rows: Rows, first_row: int) -> dict[str, AnyColumn]:
    """The canonical columns of a block that starts at this row."""
    made = rows.take(_CHECKS)
    made["job_id"] = _job_id(rows, first_row)
    units = made["max_units"]
    made["work_s"] = _WORK_S(rows, "work_s") if "work_s" in rows else _RUN_S(rows, "run_s") * units
    if "min_units" in made:
        rows.refuse(made["min_units"] > units, "min_units", "expected at most max_units")
    if "units_per_task" in made:
        rows.refuse(
            ~divides(made["units_per_task"], units), "units_per_task", "expected a divisor of max_units"
        )
    if "curve" in made:
        made["curve"] = np.where(made["curve"] == "", LINEAR, made["curve"])
    unknown = np.full(len(rows), np.nan)
    nothing = needs_nothing(*(made.get(name, unknown) for name in DEMANDS))
    for name in DEMANDS:
        if name in made:
            rows.refuse(nothing & (made[name] == 0), name, f"expected {SOME_DEMAND}")
    if "user_name" in rows:
        made["user"] = _NAME(rows, "user_name")
    elif "user" in rows:
        numbers = isinstance(rows.columns["user"], np.ndarray)
        made["user"] = Whole(least=-1)(rows, "user") if numbers else _NAME(rows, "user")
    return made


def _job_id(rows: Rows, first_row: int) -> AnyColumn:
    if "job_id" not in rows:
        return np.arange(first_row, first_row + len(rows))
    numbers = isinstance(rows.columns["job_id"], np.ndarray)
    return Whole()(rows, "job_id") if numbers else Text(is_id=True)(rows, "job_id")


def _further(rows: Rows, types: Mapping[str, str]) -> dict[str, AnyColumn]:
    """The further columns, by the types that the file notes for them."""
    checks: dict[str, Check] = {"int64": Whole(), "float64": _any_number}
    return {name: checks.get(kind, Text())(rows, name) for name, kind in types.items()}


def _any_number(rows: Rows, field: str, /) -> Floats:
    """Numbers that may be infinite or unknown."""
    cells = rows.columns[field]
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64)
    return Parsed(float, "expected a number", missing=EMPTY)(rows, field)


def _missing_column(names: Sequence[str]) -> str | None:
    """The column without which these cannot be a workload."""
    alternatives = {"work_s": "run_s"}
    return next(
        (name for name in _ESSENTIAL if name not in names and alternatives.get(name) not in names), None
    )


def _further_columns(names: Sequence[str], path: Path, line: int | None) -> list[str]:
    """The columns that are kept in `extra`."""
    further = [name for name in names if name not in RESERVED_NAMES]
    for name in further:
        if not name or not name.isprintable() or len(name) > MOST_CHARACTERS:
            raise TraceError("the header has a column without a printable name", path, line, repr(name[:40]))
    return further


def _note(text: str, path: Path) -> dict[str, Any]:
    """The note in a file written by Betimes: name, machine_units, header, extra (name to type)."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"the note about the workload is not JSON ({str(error)[:80]}): remove it", path
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
        raise TraceError("the note about the workload is not one that Betimes wrote: remove it", path)
    return {"name": made.get("name", ""), "machine_units": units, "header": header, "extra": extra}


def _check_names(names: Sequence[str], path: Path) -> None:
    if missing := _missing_column(names):
        raise TraceError(f"the column is missing; the file has {', '.join(names)[:200]}", path, None, missing)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise TraceError("the column appears twice", path, None, name[:40])


def _cells(column: pa.Array, name: str, source: Source) -> pa.Array | AnyColumn:
    """Numbers as an array (null: NaN), text as text (null: empty)."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int64())
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        exact = pa.types.is_integer(kind) and not column.null_count
        return column.cast(pa.int64() if exact else pa.float64(), safe=exact).to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        column.validate(full=True)
        return column.cast(pa.string()).fill_null("")
    raise TraceError(f"expected numbers or text, found a column of type {kind}", source.path, None, name)


def _kind(cells: pa.Array | AnyColumn) -> str:
    if isinstance(cells, np.ndarray):
        return "int64" if cells.dtype.kind == "i" else "float64"
    return "text"


def _recognise_csv(opening: Opening) -> bool:
    # One of Betimes's columns is enough: the reader then reports which others are missing.
    return opening.first_bytes.startswith(MARK.encode()) or bool({*_ESSENTIAL, "run_s"} & opening.fields)


CSV = TraceFormat(
    name="csv",
    summary="Betimes's own CSV: canonical columns by name, and any others",
    details=(
        "The first line names the columns. submit_s, max_units and work_s (or run_s) are required; an absent "
        "column or an empty cell means the default. min_units is 1 by default, so a rigid job must say "
        "min_units = max_units."
    ),
    rules=_RULES,
    recognise=_recognise_csv,
    read=read_csv,
)

PARQUET = TraceFormat(
    name="parquet",
    summary="Betimes's own Parquet: canonical columns by name, and any others",
    details=(
        "The same columns as in Betimes's CSV, with the same defaults; null means the default. The fastest "
        "to read: convert a large trace once with betimes trace convert."
    ),
    rules=_RULES,
    recognise=lambda opening: opening.first_bytes.startswith(MAGIC),
    read=read_parquet,
    suffixes=(".parquet",),
)
