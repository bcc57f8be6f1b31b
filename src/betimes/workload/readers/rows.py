"""A block of rows as columns: each field is converted and checked as a whole; the careful way, cell by cell, only
finds the rows that are at fault.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.errors import TraceError
from betimes.workload.columns import AnyColumn, Floats, Integers, Texts
from betimes.workload.validation import text_fault

if TYPE_CHECKING:
    import pyarrow as pa

    Cells = pa.Array | Floats | Integers

OnBadRows = Literal["fail", "skip"]
Mask = NDArray[np.bool_]
NOTHING: frozenset[str] = frozenset()
EMPTY: frozenset[str] = frozenset({""})

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
# The blanks that float() takes off.
_BLANKS = " \t\n\r\v\f"
_EXACT = 2.0**53
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tally:
    """Counts the rows that do not enter the workload, by reason; a malformed one raises TraceError unless
    `on_bad_rows` is skip.
    """

    def __init__(self, path: Path, on_bad_rows: OnBadRows) -> None:
        self.path = path
        self.on_bad_rows = on_bad_rows
        self.skipped: Counter[str] = Counter()
        self.warnings: list[str] = []

    def malformed(self, line: int, field: str | None, reason: str, found: object = None) -> None:
        """Report a malformed row: `reason` is the expectation, `found` the text there."""
        if self.on_bad_rows == "skip":
            self.skipped[f"{field}: {reason}" if field else reason] += 1
            return
        shown = "" if found is None else f", found {_short(found)}"
        message = f"{reason}{shown} (correct the line, or leave such rows out with --on-bad-rows skip)"
        raise TraceError(message, self.path, line, field)

    def left_out(self, reason: str, count: int) -> None:
        """Count well-formed rows that are no jobs to run (never started, no processors ...)."""
        if count:
            self.skipped[reason] += count

    def reasons(self) -> str:
        """All reasons with their counts, on one line."""
        return ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())


class Rows:
    """Rows of one block: `columns` holds the cells by name, as text or as numbers; `good` the rows still in.

    The rows that cannot be used are reported to the tally once and leave `good`; what a check returns has the
    full length, with harmless values in rows that are not good.
    """

    def __init__(self, lines: Integers, columns: Mapping[str, Cells], tally: Tally) -> None:
        self.lines = lines
        self.columns = columns
        self.tally = tally
        self.good: Mask = np.ones(len(lines), np.bool_)

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, field: str) -> bool:
        return field in self.columns

    def take(self, checks: Mapping[str, Check]) -> dict[str, Any]:
        """The columns of these names that the file has, checked one after another."""
        return {field: check(self, field) for field, check in checks.items() if field in self.columns}

    def refuse(self, rows: Mask, field: str, expected: str | Callable[[Any], str]) -> None:
        """Report these rows as malformed in this field."""
        for row in np.flatnonzero(rows & self.good):
            cells = self.columns.get(field)
            found: object = None
            if cells is not None:
                cell: Any = cells[int(row)]
                found = cell.item() if isinstance(cell, np.generic) else cell.as_py()
            self.good[row] = False
            reason = expected if isinstance(expected, str) else expected(found)
            self.tally.malformed(int(self.lines[row]), field, reason, found)

    def leave_out(self, rows: Mask, reason: str) -> None:
        """Count these well-formed rows as no jobs to run."""
        chosen = rows & self.good
        self.tally.left_out(reason, int(chosen.sum()))
        self.good &= ~chosen


class Check(Protocol):
    """The rule of a field: converts a column, and refuses the rows that break the rule."""

    def __call__(self, rows: Rows, field: str, /) -> AnyColumn:
        """The column of this field, one value a row."""
        ...


@dataclass(frozen=True)
class Number:
    """Finite numbers within bounds; `instead` where the text is one of `missing`, or the number NaN."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    missing: frozenset[str] = NOTHING
    instead: float = np.nan

    def __call__(self, rows: Rows, field: str) -> Floats:
        """float64, one a row."""
        cells, absent = _present(rows.columns[field], self.missing, "nan")
        values = floats(cells)
        wrong = ~np.isfinite(values) | _beyond(values, self.least, self.above, self.most)
        if wrong.any():
            expected = "expected a number" + _bounds(self.least, self.above, self.most)
            rows.refuse(wrong & ~absent, field, expected)
            values = np.where(wrong, np.nan, values)
        return np.where(absent, self.instead, values) if self.missing else values


@dataclass(frozen=True)
class Whole:
    """Whole numbers within bounds; `instead` where the text is one of `missing`, or the number NaN."""

    least: int | None = None
    most: int | None = None
    missing: frozenset[str] = NOTHING
    instead: int = -1

    def __call__(self, rows: Rows, field: str) -> Integers:
        """int64, one a row."""
        cells, absent = _present(rows.columns[field], self.missing, str(self.instead))
        values, wrong = whole_numbers(cells)
        wrong |= _beyond(values, self.least, None, self.most)
        if wrong.any():
            expected = "expected a whole number" + _bounds(self.least, None, self.most)
            rows.refuse(wrong & ~absent, field, expected)
            values = np.where(wrong, self.instead, values)
        return np.where(absent, self.instead, values) if self.missing else values


@dataclass(frozen=True)
class Text:
    """Text of bounded length; names and ids are also printable and, unless in `missing`, not empty."""

    is_id: bool = False
    missing: frozenset[str] = NOTHING

    def __call__(self, rows: Rows, field: str) -> Texts:
        """Text, one a row."""
        distinct, codes = _distinct(rows.columns[field])
        faults = {
            text: fault
            for text in distinct
            if (fault := text_fault(text, is_id=self.is_id and text not in self.missing))
        }
        if faults:
            faulty = np.array([text in faults for text in distinct], np.bool_)
            rows.refuse(faulty[codes], field, lambda text: faults[text])
        return np.array(["" if text in faults else text for text in distinct] or [""], np.str_)[codes]


@dataclass(frozen=True)
class Parsed:
    """Numbers by a parser of one cell, which raises ValueError for a cell not as `expected`; NaN for one of
    `missing`.
    """

    parse: Callable[[str], float]
    expected: str
    missing: frozenset[str] = NOTHING

    def __call__(self, rows: Rows, field: str) -> Floats:
        """float64, one a row; 0 in rows at fault."""
        distinct, codes = _distinct(rows.columns[field])
        values = np.zeros(len(distinct))
        wrong = np.zeros(len(distinct), np.bool_)
        for place, text in enumerate(distinct):
            try:
                values[place] = np.nan if text in self.missing else self.parse(text)
            except (ValueError, OverflowError):
                wrong[place] = True
        rows.refuse(wrong[codes], field, self.expected)
        return values[codes]


def unix_s(text: str) -> float:
    """Unix seconds of an ISO date and time (UTC where it names no zone) or of Unix seconds; ValueError
    otherwise.
    """
    plain = text.strip()
    if plain.isascii() and plain.isdigit() and len(plain) <= 15:
        return float(plain)
    if not plain[:4].isascii() or len(plain) < 8 or plain.isdigit():
        raise ValueError(text)
    when = datetime.fromisoformat(plain)
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH).total_seconds()


def floats(cells: Cells) -> Floats:
    """Numbers, NaN where a cell is none."""
    import pyarrow as pa

    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64)
    try:
        return cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        texts = (cell.strip(_BLANKS) for cell in cells.to_pylist())
        return np.array([float(text) if _NUMBER.fullmatch(text) else np.nan for text in texts], np.float64)


def whole_numbers(cells: Cells) -> tuple[Integers, Mask]:
    """Whole numbers, and which cells are none (0 stands for them)."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute
    if isinstance(cells, np.ndarray):
        return _whole_of_numbers(cells)
    try:
        values = cells.cast(pa.int64()).to_numpy(zero_copy_only=False)
        # The conversion would take 0x10, too.
        if not pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
            return values, np.zeros(len(values), np.bool_)
    except pa.ArrowInvalid:
        pass
    values, wrong = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.bool_)
    for row, cell in enumerate(cells.to_pylist()):
        text = cell.strip(_BLANKS)
        number = float(text) if _NUMBER.fullmatch(text) else np.nan
        if _WHOLE.fullmatch(text) and _LOWEST <= int(text) <= _HIGHEST:
            values[row] = int(text)
        elif number.is_integer() and abs(number) <= _EXACT:
            values[row] = int(number)
        else:
            wrong[row] = True
    return values, wrong


def _whole_of_numbers(cells: Floats | Integers) -> tuple[Integers, Mask]:
    if cells.dtype.kind == "i":
        return cells.astype(np.int64), np.zeros(len(cells), np.bool_)
    wrong = ~(np.abs(cells) <= _EXACT)
    safe = np.where(wrong, 0.0, cells)
    values = safe.astype(np.int64)
    return values, wrong | (values != safe)


def _present(cells: Cells, missing: frozenset[str], instead: str) -> tuple[Cells, Mask]:
    """The cells with this text where one is missing, and which those are."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute
    if not missing:
        return cells, np.zeros(len(cells), np.bool_)
    if isinstance(cells, np.ndarray):
        return cells, np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), np.bool_)
    absent = pc.is_in(cells, value_set=pa.array(sorted(missing), pa.string()))
    return pc.if_else(absent, instead, cells), absent.to_numpy(zero_copy_only=False)


def _distinct(cells: Cells) -> tuple[list[str], Integers]:
    """The different texts of a column, and the place of each cell's among them: names and dates repeat."""
    import pyarrow as pa

    texts = pa.array(map(str, cells.tolist()), pa.string()) if isinstance(cells, np.ndarray) else cells
    coded = texts.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _beyond(values: AnyColumn, least: float | None, above: float | None, most: float | None) -> Mask:
    """A mask of the values outside these bounds (NaN is within)."""
    wrong = np.zeros(len(values), np.bool_)
    if least is not None:
        wrong |= values < least
    if above is not None:
        wrong |= values <= above
    if most is not None:
        wrong |= values > most
    return wrong


def _bounds(least: float | None, above: float | None, most: float | None) -> str:
    parts = [f"of {least:g} or more"] if least is not None else []
    parts += [f"above {above:g}"] if above is not None else []
    parts += [f"at most {most:g}"] if most is not None else []
    return " " + " and ".join(parts) if parts else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 50 else text[:46] + " ..."
