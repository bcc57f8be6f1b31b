"""The Standard Workload Format of the Parallel Workloads Archive: batch logs, one job a line.

Well-formed blocks of lines are parsed fast. That way cannot squeeze runs of blanks and name a faulty line at once,
so it gives up on a block at the first surprise, and the careful way reads that block alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from betimes.workload.columns import CANCELLED, MOST_S, MOST_UNITS, Floats, Integers
from betimes.workload.readers.rows import Check, Number, Rows, Tally, Whole
from betimes.workload.readers.source import Source
from betimes.workload.readers.trace_format import Assembly, FieldRule, Opening, TraceFormat
from betimes.workload.workload import Workload

FIELDS: Mapping[str, Check] = {
    "job number": Whole(),
    "submit time": Number(least=0, most=MOST_S),
    "wait time": Number(),
    "run time": Number(most=MOST_S),
    "allocated processors": Whole(most=MOST_UNITS),
    "average CPU time": Number(),
    "used memory": Number(),
    "requested processors": Whole(most=MOST_UNITS),
    "requested time": Number(most=MOST_S),
    "requested memory": Number(),
    "status": Whole(least=-1, most=127),
    "user": Whole(least=-1),
    "group": Whole(),
    "application": Whole(),
    "queue": Whole(),
    "partition": Whole(),
    "preceding job": Whole(),
    "think time": Number(),
}

# Longer headers are no headers; the rest is dropped with a warning.
_MOST_HEADER_LINES = 10_000
_KIB_PER_GIB = 2.0**20
_PARTIAL = (2, 3, 4)
_BLANK, _LINE_FEED = 32, 10
_EXACT = 2.0**53


def _read(source: Source, tally: Tally) -> Workload:
    """Read an SWF log: 18 fields a line, lines beginning with `;` are the header, -1 is unknown.

    A job is rigid: its work is run time x processors, the allocated ones or, where unknown, the requested
    ones. Not taken in, and counted: jobs without a run time above 0 ("cancelled before start" by their
    status, else "no run time") or without processors, and lines of status 2 to 4, the pieces of a job
    that has a separate line. `machine_units` is MaxProcs of the header, else MaxNodes. Source:
    https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
    """
    assembly, lines = Assembly(), list[str]()
    dropped = 0
    for block in source.blocks():
        rows = _read_block(block, source.line, tally, lines)
        dropped += max(0, len(lines) - _MOST_HEADER_LINES)
        del lines[_MOST_HEADER_LINES:]
        _take(rows, assembly)
    if dropped:
        tally.warnings.append(f"{dropped} header lines beyond the first {_MOST_HEADER_LINES} were dropped")
    header = _header(lines)
    return assembly.workload(
        source, tally, SWF.name, header=header, machine_units=_machine_units(header, tally), curve="linear"
    )


def _take(rows: Rows, assembly: Assembly) -> None:
    found = rows.take(FIELDS)
    run_s, status, asked_s, memory_kib = (
        found[field] for field in ("run time", "status", "requested time", "requested memory")
    )
    allocated, requested = found["allocated processors"], found["requested processors"]
    units = np.where(allocated > 0, allocated, requested)
    rows.leave_out(np.isin(status, _PARTIAL), "piece of a job")
    rows.leave_out((run_s <= 0) & (status == CANCELLED), "cancelled before start")
    rows.leave_out(run_s <= 0, "no run time")
    rows.leave_out(units <= 0, "no processors")
    assembly.add(
        rows,
        {
            "job_id": found["job number"],
            "submit_s": found["submit time"],
            "work_s": run_s * units,
            "min_units": units,
            "max_units": units,
            "estimate_s": np.where(asked_s > 0, asked_s, np.nan),
            "user": found["user"],
            "status": status,
            "cpu": np.ones(len(rows)),
            "memory_gib": np.where(memory_kib > 0, memory_kib / _KIB_PER_GIB, np.nan),
        },
        {
            "recorded_wait_s": _known(found["wait time"]),
            "allocated_units": allocated,
            "cpu_time_s": _known(found["average CPU time"]),
            "memory_used_kib": _known(found["used memory"]),
            "requested_units": requested,
            "memory_requested_kib": _known(memory_kib),
            "group": found["group"],
            "application": found["application"],
            "queue": found["queue"],
            "partition": found["partition"],
            "preceding_job": found["preceding job"],
            "think_time_s": _known(found["think time"]),
        },
    )


def _known(values: Floats) -> Floats:
    return np.where(values < 0, np.nan, values)


def _header(lines: Sequence[str]) -> dict[str, str]:
    """`Key: value` lines by key, lines that continue one under it, and all lines before the first key under
    ``""``.
    """
    header: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        found = re.match(r"\s*([A-Z][A-Za-z]*):\s*(.*)", line)
        key, text = found.groups() if found else (key, line.strip())
        if text or found:
            header.setdefault(key, []).append(text)
    return {key: "\n".join(texts) for key, texts in header.items()}


def _machine_units(header: dict[str, str], tally: Tally) -> int | None:
    for key in ("MaxProcs", "MaxNodes"):
        if key not in header:
            continue
        number = re.match(r"(\d{1,3}(,\d{3}){1,2}|\d{1,9})(?!,?\d)", header[key], re.ASCII)  # 1,024 is 1024
        if number and (units := int(number[0].replace(",", ""))):
            return units
        tally.warnings.append(f"header {key}: expected a whole number, found {header[key][:40]!r}")
    return None


def _read_block(block: bytes, lines_before: int, tally: Tally, header: list[str]) -> Rows:
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
    """The block line by line, as text; lines without 18 fields are reported."""
    import pyarrow as pa

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
    by_field = list(zip(*cells, strict=True)) or [()] * len(FIELDS)
    columns = {name: pa.array(texts, pa.string()) for name, texts in zip(FIELDS, by_field, strict=True)}
    return Rows(np.array(lines, np.int64), columns, tally)


def _recognise(opening: Opening) -> bool:
    if opening.first_bytes.lstrip().startswith(b";"):
        return True
    words = opening.first_line.split()
    return len(words) > 12 and all(re.fullmatch(r"-?\d+(\.\d+)?", word) for word in words)


SWF = TraceFormat(
    name="swf",
    summary="Standard Workload Format: batch logs of the Parallel Workloads Archive",
    details=(
        "18 fields a line between blanks; lines that begin with ; are the header; -1 is unknown. Jobs are "
        "rigid. Jobs without a run time above 0 or without processors, and lines of status 2 to 4 (pieces of "
        "a job), are left out and counted. The machine's size is MaxProcs of the header, else MaxNodes."
    ),
    rules=(
        FieldRule("1 job number", "job_id"),
        FieldRule("2 submit time", "submit_s", "seconds from the start of the log"),
        FieldRule("3 wait time", "extra recorded_wait_s", "s; NaN: unknown"),
        FieldRule("4 run time", "work_s", "run time x processors"),
        FieldRule("5 allocated, else 8 requested processors", "min_units, max_units"),
        FieldRule("5 allocated processors", "extra allocated_units", "-1: unknown"),
        FieldRule("6 average CPU time", "extra cpu_time_s", "s; NaN: unknown"),
        FieldRule("7 used memory", "extra memory_used_kib", "KiB a processor; NaN: unknown"),
        FieldRule("8 requested processors", "extra requested_units", "-1: unknown"),
        FieldRule("9 requested time", "estimate_s", "s; NaN where it is not above 0"),
        FieldRule("10 requested memory", "memory_gib, extra memory_requested_kib", "KiB a processor"),
        FieldRule("11 status", "status", "1 completed, 0 failed, 5 cancelled"),
        FieldRule("12 user", "user", "-1: unknown"),
        FieldRule(
            "13 group, 14 application, 15 queue, 16 partition", "extra under these names", "-1: unknown"
        ),
        FieldRule(
            "17 preceding job, 18 think time", "extra preceding_job, think_time_s", "-1 and NaN: unknown"
        ),
        FieldRule("", "cpu", "1 a unit"),
    ),
    recognise=_recognise,
    read=_read,
    suffixes=(".swf",),
)
