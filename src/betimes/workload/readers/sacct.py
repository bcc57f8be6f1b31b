"""Slurm's accounting: the output of `sacct --parsable2` (or `--parsable`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from betimes.errors import TraceError
from betimes.units import MEMORY_UNITS
from betimes.workload.columns import (
    CANCELLED,
    COMPLETED,
    FAILED,
    MOST_S,
    MOST_UNITS,
    RESERVED_NAMES,
    Floats,
    Integers,
)
from betimes.workload.readers.delimited import DelimitedTable
from betimes.workload.readers.rows import EMPTY, Check, Number, Parsed, Rows, Tally, Text, Whole, unix_s
from betimes.workload.readers.source import Source
from betimes.workload.readers.trace_format import Assembly, FieldRule, Opening, TraceFormat
from betimes.workload.workload import Workload

ENDED = {
    "COMPLETED": COMPLETED,
    "CANCELLED": CANCELLED,
    "REVOKED": CANCELLED,
    **dict.fromkeys(
        (
            "FAILED",
            "TIMEOUT",
            "OUT_OF_MEMORY",
            "NODE_FAIL",
            "BOOT_FAIL",
            "DEADLINE",
            "PREEMPTED",
            "LAUNCH_FAILED",
        ),
        FAILED,
    ),
}
"""By state of Slurm of a job that is over: how it ended, as in the column `status` of a workload."""
_UNFINISHED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING")
_SIZES_GIB = {"": MEMORY_UNITS["m"], **{unit.upper(): gib for unit, gib in MEMORY_UNITS.items()}}
_ROUNDING_S = 60.0
_LOCAL = (
    "times are local, and the clock was put back; print Unix seconds instead (SLURM_TIME_FORMAT=%s sacct ...)"
)
# The reader's columns; of each group the first that the header has.
_IDS, _CPUS = ("JobIDRaw", "JobID"), ("AllocCPUS", "NCPUS", "ReqCPUS")
_RUN, _LIMIT = ("ElapsedRaw", "Elapsed"), ("TimelimitRaw", "Timelimit")
_TRES = ("AllocTRES", "ReqTRES")
_MAPPED = {"JobIDRaw", "Submit", "Start", "State", "User", *_RUN, *_LIMIT, "AllocCPUS", "NCPUS"}


def _read(source: Source, tally: Tally) -> Workload:
    """Read what `sacct --parsable2` printed, with its header; a unit is a CPU, and jobs are rigid.

    Needs JobIDRaw or JobID, Submit, State, ElapsedRaw or Elapsed (or Start and End), and AllocCPUS or NCPUS
    (or ReqCPUS). Submission is counted from the first Submit (local times count as UTC; UnixStartTime in the
    notes). GPUs and memory a unit come from AllocTRES, else ReqTRES. Left out and counted: job steps, jobs
    not finished, those that never ran, and all attempts of a job but the last: of one number, user and Cluster, each
    submitted at most 300 s after the end of the one before. Where several have a number, ids are made as north/101 and
    101/2. Local times that go back, as when a
    clock is put back: a run that ends before it starts is malformed, a start before the submission is an
    unknown wait, with a warning. Raises TraceError for a file without a header. Source:
    https://slurm.schedmd.com/sacct.html
    """
    lines = source.opening.decode(errors="replace").splitlines()
    if (first := next(filter(str.strip, lines), None)) and _is_row(first):
        raise TraceError(
            "the header is missing: run sacct without --noheader (-n)", source.path, 1 + lines.index(first)
        )
    table = DelimitedTable(source, tally, ("Submit", "State"), delimiter="|", quotes=False)
    for group in (_IDS, _CPUS):
        if not any(name in table.header for name in group):
            raise table.missing(group[0], f"expected a column {' or '.join(group)}")
    if not any(name in table.header for name in _RUN) and not {"Start", "End"} <= set(table.header):
        raise table.missing(_RUN[0], "expected a column ElapsedRaw or Elapsed, or both Start and End")
    further = [name for name in table.header if name and name not in _MAPPED and name not in RESERVED_NAMES]
    if "JobIDRaw" not in table.header:
        further.remove("JobID")
    assembly, backwards = Assembly(), 0
    for rows in table.chunks():
        backwards += _take(rows, further, assembly)
    if backwards:
        tally.warnings.append(
            f"{backwards} of the jobs start before they were submitted, or run longer than from Start to End; their "
            f"waits are unknown, and submissions near them may be an hour off: {_LOCAL}"
        )
    return assembly.workload(
        source, tally, SACCT.name, guess=further, dated=True, attempts_by=("Cluster", "user"), cpu=1.0
    )


def _take(rows: Rows, further: list[str], assembly: Assembly) -> int:
    """Add the jobs of these rows; returns how many have times that go back."""
    unknown = np.full(len(rows), np.nan)
    job_id = Text(is_id=True)(rows, _first(rows, _IDS))
    names, codes = np.unique(Text()(rows, "State"), return_inverse=True)
    states = [str(name).split(" ", 1)[0].rstrip("+") for name in names]
    # Steps and unfinished jobs leave much empty: they go before anything else is looked at.
    rows.leave_out(np.char.find(job_id, ".") >= 0, "job step")
    rows.leave_out(np.isin(states, _UNFINISHED)[codes], "not finished")
    rows.refuse(~np.isin(states, list(ENDED))[codes], "State", "expected a state of Slurm")
    status = np.array([ENDED.get(state, FAILED) for state in states], np.int64)[codes]
    found = rows.take(_CHECKS)
    submit_s, start_s, end_s = (found.get(name, unknown) for name in ("Submit", "Start", "End"))
    run_s = _run_s(rows, start_s, end_s)
    units = _units(rows)
    estimate_s = unknown
    if "TimelimitRaw" in rows:
        estimate_s = _MINUTES(rows, "TimelimitRaw") * 60
    elif "Timelimit" in rows:
        estimate_s = _CLOCK_LIMIT(rows, "Timelimit")
    gpus, memory_gib = _tres(rows, _gpus), _tres(rows, _memory_gib)
    rows.leave_out(((run_s <= 0) | np.isnan(run_s)) & (status == CANCELLED), "cancelled before start")
    rows.leave_out((run_s <= 0) | np.isnan(run_s), "no run time")
    rows.leave_out(units == 0, "no processors")
    # A suspended job runs for less than from Start to End, and none runs for longer.
    backwards = (start_s < submit_s) | (run_s > end_s - start_s + _ROUNDING_S)
    wait_s = np.where(backwards, np.nan, start_s - submit_s)
    assembly.add(
        rows,
        {
            "job_id": job_id,
            "submit_s": submit_s,
            "ended_s": np.where(np.isnan(end_s), start_s + run_s, end_s),
            "work_s": run_s * units,
            "min_units": units,
            "max_units": units,
            "estimate_s": np.where(estimate_s > 0, estimate_s, np.nan),
            "user": Text()(rows, "User") if "User" in rows else np.full(len(rows), -1),
            "status": status,
            "memory_gib": memory_gib / np.maximum(1, units),
            "gpu": gpus / np.maximum(1, units),
        },
        {"recorded_wait_s": wait_s, **rows.take(dict.fromkeys(further, Text()))},
    )
    return int((backwards & rows.good).sum())


def _first(rows: Rows, names: tuple[str, ...]) -> str:
    return next(name for name in names if name in rows)


def _run_s(rows: Rows, start_s: Floats, end_s: Floats) -> Floats:
    if "ElapsedRaw" in rows:
        return Number(least=0, most=MOST_S)(rows, "ElapsedRaw")
    if "Elapsed" in rows:
        return Parsed(clock_s, "expected a duration such as 1-02:03:04")(rows, "Elapsed")
    rows.refuse(end_s < start_s, "End", f"expected an end after Start; {_LOCAL}")
    return end_s - start_s


def _units(rows: Rows) -> Integers:
    """The first of the columns of CPUs that has some."""
    units = np.zeros(len(rows), np.int64)
    for counts in rows.take(dict.fromkeys(_CPUS, Whole(0, MOST_UNITS, EMPTY, instead=0))).values():
        units = np.where(units > 0, units, counts)
    return units


def _tres(rows: Rows, amount: Callable[[str], float]) -> Floats:
    """An amount of each job by AllocTRES, else by ReqTRES; NaN: unknown."""
    check = Parsed(amount, "expected resources such as cpu=8,gres/gpu=2,mem=32G", missing=EMPTY)
    amounts = np.full(len(rows), np.nan)
    for found in rows.take(dict.fromkeys(_TRES, check)).values():
        amounts = np.where(np.isnan(amounts), found, amounts)
    return amounts


def clock_s(text: str) -> float:
    """Seconds of Slurm's [days-]hours:minutes:seconds or minutes:seconds; ValueError otherwise."""
    found = re.fullmatch(
        r"(?:(?:(\d{1,7})-)?(\d{1,7}):)?(\d{1,7}):(\d{1,7}(?:\.\d{1,6})?)", text.strip(), re.ASCII
    )
    if not found:
        raise ValueError(text)
    days, hours, minutes, seconds = found.groups(default="0")
    return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _memory_gib(text: str) -> float:
    return _amounts(text).get("mem", np.nan)


def _gpus(text: str) -> float:
    """The GPUs in all, or the sum over their types where only those are given; 0 where none are."""
    amounts = _amounts(text)
    typed = sum(amount for name, amount in amounts.items() if name.startswith("gres/gpu:"))
    return amounts.get("gres/gpu", float(typed))


def _amounts(text: str) -> dict[str, float]:
    """GPUs and memory (GiB) of trackable resources by name; ValueError for anything else."""
    made: dict[str, float] = {}
    for part in text.split(","):
        name, _, amount = part.rpartition("=")
        if name != "mem" and not name.startswith("gres/gpu"):
            continue
        found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)", amount, re.ASCII)
        if not found:
            raise ValueError(text)
        made[name] = float(found[1]) * (_SIZES_GIB[found[2]] if name == "mem" else 1.0)
    return made


def _recognise(opening: Opening) -> bool:
    names = set(opening.first_line.strip().split("|"))
    return ("Submit" in names and bool({"JobID", "JobIDRaw"} & names)) or _is_row(opening.first_line)


def _is_row(line: str) -> bool:
    """Whether this is a job of `sacct --noheader`: it has a state and a date."""
    cells = line.strip().split("|")
    has_state = any(cell.split(" ", 1)[0] in (*ENDED, *_UNFINISHED) for cell in cells)
    return has_state and any(re.match(r"\d{4}-\d\d-\d\dT|\d{10}$", cell) for cell in cells)


_TIME = Parsed(unix_s, "expected a date and time or None", missing=frozenset({"", "Unknown", "None", "N/A"}))
_CHECKS: Mapping[str, Check] = {
    "Submit": Parsed(unix_s, "expected a date and time such as 2024-03-01T09:30:00"),
    "Start": _TIME,
    "End": _TIME,
}
_NO_LIMIT = frozenset({"", "UNLIMITED", "Partition_Limit", "INVALID", "None", "N/A"})
_MINUTES = Number(least=0, most=MOST_S / 60, missing=_NO_LIMIT)
_CLOCK_LIMIT = Parsed(clock_s, "expected a duration or UNLIMITED", missing=_NO_LIMIT)

SACCT = TraceFormat(
    name="sacct",
    summary="Slurm accounting: the output of sacct --parsable2",
    details=(
        "Made by: SLURM_TIME_FORMAT=%s sacct --parsable2 --allusers --allocations --starttime=... "
        "--format=JobIDRaw,User,Submit,Start,ElapsedRaw,TimelimitRaw,AllocCPUS,ReqCPUS,AllocTRES,State,Partit"
        "ion. A unit is a CPU; jobs are rigid. Submission is counted from the first Submit, which the notes "
        "keep as UnixStartTime. SLURM_TIME_FORMAT=%s prints Unix seconds; without it times are local, and wrong by an "
        "hour where a clock change lies between: those that go back are warned of or refused, others go "
        "unnoticed. Job steps, jobs not finished, those that never ran, and all attempts of a job but the last "
        "(--duplicates) are left out and counted: rows of one number, user and Cluster, each submitted at most 300 s "
        "after the end of the one before. A later one is another job, as after a reset of Slurm's numbers; its id is "
        "then 101/2. Print Cluster where a dump is of several (--allclusters), as each counts by itself; ids are then "
        "north/101."
    ),
    rules=(
        FieldRule("JobIDRaw, else JobID", "job_id"),
        FieldRule("Submit", "submit_s", "seconds since the first"),
        FieldRule("ElapsedRaw, else Elapsed, else End - Start", "work_s", "x CPUs, s"),
        FieldRule("AllocCPUS, else NCPUS, else ReqCPUS", "min_units, max_units"),
        FieldRule("TimelimitRaw (min), else Timelimit", "estimate_s", "s; UNLIMITED: unknown"),
        FieldRule("User", "user"),
        FieldRule("State", "status", "COMPLETED 1, CANCELLED 5, other ends 0"),
        FieldRule("AllocTRES, else ReqTRES", "gpu, memory_gib", "gres/gpu and mem, a CPU"),
        FieldRule("Start - Submit", "extra recorded_wait_s", "s"),
        FieldRule("", "cpu", "1 a unit"),
        FieldRule("all others", "extra under their names"),
    ),
    recognise=_recognise,
    read=_read,
)
