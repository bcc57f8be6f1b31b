"""Betimes's own Parquet: the canonical columns by name, and any further columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.errors import TraceError
from betimes.workload.own_files import KEY
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.canonical import RULES, further_columns, metadata, missing_column, take
from betimes.workload.readers.format import Opening, TraceFormat
from betimes.workload.readers.rows import Cells, Rows
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
# The key of the file's metadata under which Betimes notes name, machine size, origin and types.
_BATCH = 1 << 16


def read(source: Source, tally: Tally) -> Workload:
    """Read Betimes's Parquet: the columns of its CSV. In messages "line" is the number of the row, from 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Batches are decoded while the loop runs, so everything in it can meet damage in the file.
    try:
        file = pq.ParquetFile(pa.BufferReader(source.everything()))
        names = [str(name) for name in file.schema_arrow.names]
        known = _metadata(file.schema_arrow.metadata or {}, source)
        _check(names, source)
        further = further_columns(names, source.path, None)
        assembly, place = Assembly(), 0
        for batch in file.iter_batches(_BATCH, use_threads=False):
            cells = {name: _cells(batch.column(at), name, source) for at, name in enumerate(names)}
            rows = Rows(np.arange(place + 1, place + 1 + batch.num_rows), cells, tally)
            columns, extra = take(rows, place, {name: _kind(cells[name]) for name in further})
            assembly.add(rows, columns, extra)
            place += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise TraceError(
            f"the Parquet file is damaged or truncated ({_first_line(error)})", source.path
        ) from error
    return assembly.workload(
        source,
        tally,
        FORMAT.name,
        name=known["name"],
        header=known["header"],
        machine_units=known["machine_units"],
    )


def _metadata(noted: dict[bytes, bytes], source: Source) -> dict[str, Any]:
    return metadata(noted.get(KEY, b"{}").decode(errors="replace"), source.path, None)


def _check(names: list[str], source: Source) -> None:
    if missing := missing_column(names):
        raise TraceError(
            f"the column is missing; the file has {', '.join(names)[:200]}", source.path, None, missing
        )
    for place, name in enumerate(names):
        if name in names[:place]:
            raise TraceError("the column appears twice", source.path, None, name[:40])


def _cells(column: pa.Array, name: str, source: Source) -> Cells:
    """Numbers as an array (null: NaN), text as a list (null: empty)."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.int64()), pa.int64()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        exact = pa.types.is_integer(kind) and not column.null_count
        return column.cast(pa.int64() if exact else pa.float64(), safe=exact).to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        column.validate(full=True)
        return [value or "" for value in column.to_pylist()]
    raise TraceError(f"expected numbers or text, found a column of type {kind}", source.path, None, name)


def _kind(cells: Cells) -> str:
    if isinstance(cells, np.ndarray):
        return "int64" if cells.dtype.kind == "i" else "float64"
    return "text"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _recognise(opening: Opening) -> bool:
    return opening.first_bytes.startswith(MAGIC)


FORMAT = TraceFormat(
    name="parquet",
    summary="Betimes's own Parquet: canonical columns by name, and any others",
    details=(
        "The same columns as in Betimes's CSV, with the same defaults; null means the default. The fastest "
        "to read: convert a large trace once with betimes trace convert."
    ),
    rules=RULES,
    recognise=_recognise,
    read=read,
    suffixes=(".parquet",),
)
