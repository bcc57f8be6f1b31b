"""Betimes's own CSV: a header line with the names of the canonical columns, and any further columns."""

from __future__ import annotations

from typing import Any

from betimes.errors import TraceError
from betimes.workload.own_files import MARK
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.canonical import RULES, further_columns, metadata, missing_column, take
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.format import Opening, TraceFormat
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload

_OWN = frozenset({"submit_s", "work_s", "run_s", "max_units"})
# Before the header of a file that Betimes wrote: name, machine size, origin, types of further columns.


def read(source: Source, tally: Tally) -> Workload:
    """Read Betimes's CSV: submit_s, max_units and work_s (or run_s) are required, others have defaults.

    An empty cell means the default. Further columns are kept in `extra`; where no note before the header says
    their type, columns of numbers become numbers. Lines that begin with # before the header are comments.
    """
    table = DelimitedTable(source, tally, ())
    if missing := missing_column(table.header):
        found = ", ".join(table.header)[:200]
        raise TraceError(
            f"the column is missing; the header has {found}", source.path, table.header_line, missing
        )
    known: dict[str, Any] = {"name": "", "machine_units": None, "header": {}, "extra": {}}
    for comment in table.comments:
        if comment.startswith(MARK):
            known = metadata(comment.removeprefix(MARK), source.path, None)
    further = further_columns(table.header, source.path, table.header_line)
    types = {name: known["extra"].get(name, "guess") for name in further}
    assembly, place = Assembly(), 0
    for rows in table.chunks():
        columns, extra = take(rows, place, types)
        assembly.add(rows, columns, extra)
        place += len(rows)
    return assembly.workload(
        source,
        tally,
        FORMAT.name,
        name=known["name"],
        header=known["header"],
        machine_units=known["machine_units"],
        guess=[name for name, kind in types.items() if kind == "guess"],
    )


def _recognise(opening: Opening) -> bool:
    # One column of its own is enough: the reader then says which others are missing.
    return opening.first_bytes.startswith(MARK.encode()) or bool(_OWN & opening.fields)


FORMAT = TraceFormat(
    name="csv",
    summary="Betimes's own CSV: canonical columns by name, and any others",
    details=(
        "The first line names the columns. submit_s, max_units and work_s (or run_s) are required; an absent "
        "column or an empty cell means the default. min_units is 1 by default, so a rigid job must say "
        "min_units = max_units."
    ),
    rules=RULES,
    recognise=_recognise,
    read=read,
)
