"""The Standard Workload Format of the Parallel Workloads Archive: batch logs, one job a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from betimes.workload.columns import CANCELLED, MOST_S, MOST_UNITS, Floats
from betimes.workload.readers.assemble import Assembly
from betimes.workload.readers.format import FieldRule, Opening, TraceFormat
from betimes.workload.readers.rows import Rows
from betimes.workload.readers.source import Source
from betimes.workload.readers.swf_block import FIELDS, read_block
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload

# Longer headers are no headers; the rest is dropped with a warning.
_MOST_HEADER_LINES = 10_000
_KIB_PER_GIB = 2.0**20
_PARTIAL = (2, 3, 4)


def read(source: Source, tally: Tally) -> Workload:
    """Read an SWF log: 18 fields a line, lines beginning with `;` are the header, -1 is unknown.

    A job is rigid: its work is run time x processors, the allocated ones or, where unknown, the requested
    ones. Not taken in, and counted: jobs without a run time above 0 ("cancelled before start" where the
    status says so, else "no run time") or without processors, and lines of status 2 to 4, the pieces of a job
    that has a line of its own. `machine_units` is MaxProcs of the header, else MaxNodes. Source:
    https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
    """
    assembly, lines = Assembly(), list[str]()
    dropped = 0
    for block in source.blocks():
        rows = read_block(block, source.line, tally, lines)
        dropped += max(0, len(lines) - _MOST_HEADER_LINES)
        del lines[_MOST_HEADER_LINES:]
        _take(rows, assembly)
    if dropped:
        tally.warnings.append(f"{dropped} header lines beyond the first {_MOST_HEADER_LINES} were dropped")
    header = _header(lines)
    return assembly.workload(
        source, tally, FORMAT.name, header=header, machine_units=_machine_units(header, tally), curve="linear"
    )


def _take(rows: Rows, assembly: Assembly) -> None:
    job_id = rows.whole("job number")
    submit_s = rows.number("submit time", least=0, most=MOST_S)
    run_s = rows.number("run time", most=MOST_S)
    allocated = rows.whole("allocated processors", most=MOST_UNITS)
    requested = rows.whole("requested processors", most=MOST_UNITS)
    asked_s = rows.number("requested time", most=MOST_S)
    status = rows.whole("status", least=-1, most=127)
    user = rows.whole("user", least=-1)
    memory_kib = rows.number("requested memory")
    extra = {
        "recorded_wait_s": _known(rows.number("wait time")),
        "allocated_units": allocated,
        "cpu_time_s": _known(rows.number("average CPU time")),
        "memory_used_kib": _known(rows.number("used memory")),
        "requested_units": requested,
        "memory_requested_kib": _known(memory_kib),
        "group": rows.whole("group"),
        "application": rows.whole("application"),
        "queue": rows.whole("queue"),
        "partition": rows.whole("partition"),
        "preceding_job": rows.whole("preceding job"),
        "think_time_s": _known(rows.number("think time")),
    }
    units = np.where(allocated > 0, allocated, requested)
    rows.leave_out(np.isin(status, _PARTIAL), "piece of a job")
    rows.leave_out((run_s <= 0) & (status == CANCELLED), "cancelled before start")
    rows.leave_out(run_s <= 0, "no run time")
    rows.leave_out(units <= 0, "no processors")
    assembly.add(
        rows,
        {
            "job_id": job_id,
            "submit_s": submit_s,
            "work_s": run_s * units,
            "min_units": units,
            "max_units": units,
            "estimate_s": np.where(asked_s > 0, asked_s, np.nan),
            "user": user,
            "status": status,
            "cpu": np.ones(len(rows)),
            "memory_gib": np.where(memory_kib > 0, memory_kib / _KIB_PER_GIB, np.nan),
        },
        extra,
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


def _recognise(opening: Opening) -> bool:
    if opening.first_bytes.lstrip().startswith(b";"):
        return True
    words = opening.first_line.split()
    return len(words) > 12 and all(re.fullmatch(r"-?\d+(\.\d+)?", word) for word in words)


FORMAT = TraceFormat(
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
    read=read,
    suffixes=(".swf",),
)
assert len(FIELDS) == 18
