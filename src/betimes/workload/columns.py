"""The canonical columns of a workload, declared once for the code, the files and the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Texts = NDArray[np.str_]
AnyColumn = NDArray[Any]

COMPLETED, FAILED, CANCELLED, UNKNOWN = 1, 0, 5, -1
BEST_EFFORT, TRIAL = 0, 1
LINEAR = "linear"

# Text columns are fixed-width arrays, so one absurdly long value would cost its length in every row.
MOST_CHARACTERS = 256
# Beyond these a value is a mistake, and products of time and units could overflow.
MOST_S = 1e15
MOST_UNITS = 10**9


@dataclass(frozen=True, slots=True)
class Column:
    """One canonical column: `default` is what a missing value becomes, None where there must be one."""

    name: str
    dtype: str
    unit: str
    default: float | int | str | None
    meaning: str
    is_optional: bool = False  # left out of files and of the fingerprint where all jobs have the default


CANONICAL: tuple[Column, ...] = (
    Column(
        "job_id", "int64 or text", "", None, "unique name of the job; whole numbers where all of them are"
    ),
    Column("submit_s", "float64", "s", None, "time of submission, as in the trace; 0 or later"),
    Column("work_s", "float64", "s", None, "run time on one unit; above 0"),
    Column("min_units", "int64", "units", 1, "fewest units it runs on; rigid jobs: equal to max_units"),
    Column("max_units", "int64", "units", None, "most units it can use"),
    Column("curve", "int32 code", "", LINEAR, "name of its speed-up curve"),
    Column(
        "estimate_s", "float64", "s", float("nan"), "run time the user asked for, at max_units; NaN: unknown"
    ),
    Column("user", "int64", "", -1, "who submitted it; -1: unknown"),
    Column("status", "int8", "", UNKNOWN, "how it ended: 1 completed, 0 failed, 5 cancelled, -1 unknown"),
    Column("qos", "int8", "", BEST_EFFORT, "0 best-effort, 1 trial"),
    Column("priority", "int64", "", 0, "how important it is, higher first"),
    Column("grace_s", "float64", "s", 0.0, "time it needs to leave when it is preempted; 0 or more"),
    Column("cpu", "float64", "cores/unit", float("nan"), "cores each unit needs; NaN: unknown"),
    Column("memory_gib", "float64", "GiB/unit", float("nan"), "memory each unit needs; NaN: unknown"),
    Column("gpu", "float64", "GPUs/unit", float("nan"), "GPUs each unit needs; NaN: unknown"),
    Column(
        "units_per_task",
        "int64",
        "units",
        0,
        "units that stay together on a node, a divisor of max_units; 0: as many as fit on one node",
        is_optional=True,
    ),
    Column(
        "require",
        "text",
        "",
        "",
        "labels that its nodes must have, as in zone=a,gpu_kind=a100; empty: none",
        is_optional=True,
    ),
)
CANONICAL_NAMES: tuple[str, ...] = tuple(column.name for column in CANONICAL)

# Names with a meaning in files, which no further column may take.
RESERVED_NAMES = frozenset(CANONICAL_NAMES) | {"run_s", "user_name"}


def identifiers(texts: list[str]) -> AnyColumn:
    """Ids as whole numbers where every one is written as such (no sign, no leading zero), else as text."""
    if all(text.isascii() and text.isdigit() and (text[0] != "0" or text == "0") for text in texts):
        try:
            return np.fromiter(map(int, texts), np.int64, len(texts))
        except (OverflowError, ValueError):  # more digits than 64 bits hold: the text form is exact
            pass
    return np.array(texts, np.str_)


def users(names: list[str]) -> tuple[Integers, tuple[str, ...]]:
    """Users as the numbers that they are, or codes of their names; an empty name and -1 are unknown."""
    texts = np.array(names, np.str_)
    known = (texts != "") & (texts != str(UNKNOWN))
    column = np.full(len(texts), UNKNOWN, np.int64)
    numbers = identifiers(texts[known].tolist())
    if numbers.dtype.kind == "i":
        column[known] = numbers
        return column, ()
    column[known], table = coded(texts[known])
    return column, table


def coded(names: Texts | list[str]) -> tuple[Integers, tuple[str, ...]]:
    """Codes of names in the order in which they first appear, and the table of names."""
    table: dict[str, int] = {}
    codes = np.fromiter((table.setdefault(str(name), len(table)) for name in names), np.int64, len(names))
    return codes, tuple(table)


def recoded(codes: NDArray[Any], names: tuple[str, ...]) -> tuple[Integers, tuple[str, ...]]:
    """The same names in sorted order without the unused ones, and codes to match; -1 stays -1."""
    used = np.unique(codes[codes >= 0])
    kept = tuple(sorted({names[int(code)] for code in used}))
    place = {name: index for index, name in enumerate(kept)}
    lookup = np.full(len(names) + 1, -1, np.int64)
    for code in used:
        lookup[int(code)] = place[names[int(code)]]
    return lookup[np.where(codes >= 0, codes, len(names))], kept
