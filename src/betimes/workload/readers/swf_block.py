"""Blocks of SWF lines to columns: a fast way for well-formed blocks, and a careful one that finds the fault.

The fast way cannot squeeze runs of blanks and name a faulty line at once, so it gives up on a block at the
first surprise, and the careful way reads that block alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from betimes.workload.columns import Floats, Integers
from betimes.workload.readers.rows import Rows
from betimes.workload.readers.tally import Tally

FIELDS: tuple[str, ...] = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding job",
    "think time",
)

_BLANK, _LINE_FEED = 32, 10
_EXACT = 2.0**53


def read_block(block: bytes, lines_before: int, tally: Tally, header: list[str]) -> Rows:
    """The jobs of a block of whole lines; lines that begin with `;` are appended to `header`, without it."""
    body = _without_header(block, header)
    columns = _fast(body)
    if columns is None:
        return _careful(body, lines_before, tally)
    return Rows(_line_numbers(body, lines_before, len(columns["status"])), columns, tally)


def _without_header(block: bytes, header: list[str]) -> bytes:
    """The block with its header lines emptied, so that line numbers stay."""
    if b";" not in block:
        return block
    kept: list[bytes] = []
    done = 0
    found = block.find(b";")
    while found >= 0:
        start = block.rfind(b"\n", done, found) + 1 or done
        end = block.find(b"\n", found)
        end = len(block) if end < 0 else end
        if not block[start:found].strip():
            header.append(block[found + 1 : end].decode(errors="replace").rstrip())
            kept.append(block[done:start])
            done = end
        found = block.find(b";", end)
    kept.append(block[done:])
    return b"".join(kept)


def _fast(body: bytes) -> dict[str, Floats] | None:
    """All fields as numbers; None where any line is not 18 numbers between blanks."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    if b"\t" in body or b"\r" in body:
        body = body.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    squeezed = _squeezed(body)
    if not squeezed.strip():
        return {name: np.empty(0, np.float64) for name in FIELDS}
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(squeezed),
            read_options=pa_csv.ReadOptions(
                use_threads=False, column_names=list(FIELDS), block_size=min(len(squeezed) + 1, 2**31 - 1)
            ),
            parse_options=pa_csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(FIELDS, pa.float64()), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    columns = {name: table.column(name).to_numpy() for name in FIELDS}
    # Larger whole numbers lose digits as floats.
    return columns if bool((np.abs(columns["job number"]) <= _EXACT).all()) else None


def _squeezed(body: bytes) -> bytes:
    """The text with single blanks between fields and none at the ends of lines."""
    text = np.frombuffer(body, np.uint8)
    keep: NDArray[np.bool_] = text != _BLANK
    # A blank stays where a field ends: after something that is neither a blank nor a line feed.
    keep[1:] |= (text[:-1] != _BLANK) & (text[:-1] != _LINE_FEED)
    return text[keep].tobytes().replace(b" \n", b"\n").removesuffix(b" ")


def _line_numbers(body: bytes, before: int, rows: int) -> Integers:
    """The line on which each row stands; lines without a field carry none."""
    if rows == body.count(b"\n") + (not body.endswith(b"\n")):
        return np.arange(before + 1, before + 1 + rows)
    filled = np.fromiter((bool(line.strip()) for line in body.split(b"\n")), np.bool_)
    return np.flatnonzero(filled) + before + 1


def _careful(body: bytes, before: int, tally: Tally) -> Rows:
    cells: list[list[str]] = []
    lines: list[int] = []
    for number, line in enumerate(body.split(b"\n"), before + 1):
        fields = line.decode(errors="replace").split()
        if not fields:
            continue
        if len(fields) == len(FIELDS):
            cells.append(fields)
            lines.append(number)
        else:
            tally.malformed(number, None, f"expected {len(FIELDS)} fields", len(fields))
    columns = dict(zip(FIELDS, zip(*cells, strict=True), strict=True)) if cells else dict.fromkeys(FIELDS, ())
    return Rows(np.array(lines, np.int64), columns, tally)
