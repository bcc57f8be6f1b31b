"""A chunk of rows as columns: the parsing and range checks that all readers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from betimes.workload.columns import AnyColumn, Floats, Integers
from betimes.workload.readers.tally import Tally
from betimes.workload.validation import text_fault

Cells = Sequence[str] | Floats | Integers
_T = TypeVar("_T")
Mask = NDArray[np.bool_]
NOTHING: frozenset[str] = frozenset()
EMPTY: frozenset[str] = frozenset({""})

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
# The blanks that float() takes off.
_BLANKS = " \t\n\r\v\f"
_EXACT = 2.0**53
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Rows:
    """Rows of one chunk: `columns` holds the cells by name, as text or as numbers; `good` the rows still in.

    Every method reports the rows it cannot use to the tally once and takes them out of `good`; what it
    returns has the full length, with harmless values in rows that are not good.
    """

    def __init__(self, lines: Integers, columns: Mapping[str, Cells], tally: Tally) -> None:
        self.lines = lines
        self.columns = columns
        self.tally = tally
        self.good: Mask = np.ones(len(lines), np.bool_)

    def __len__(self) -> int:
        return len(self.lines)

    def refuse(self, rows: Mask, field: str, expected: str) -> None:
        """Report these rows as malformed in this field."""
        for row in np.flatnonzero(rows & self.good):
            cells = self.columns.get(field)
            found = None if cells is None else cells[int(row)]
            self.good[row] = False
            self.tally.malformed(
                int(self.lines[row]),
                field,
                expected,
                found.item() if isinstance(found, np.generic) else found,
            )

    def leave_out(self, rows: Mask, reason: str) -> None:
        """Count these well-formed rows as no jobs to run."""
        chosen = rows & self.good
        self.tally.left_out(reason, int(chosen.sum()))
        self.good &= ~chosen

    def number(
        self,
        field: str,
        *,
        least: float | None = None,
        above: float | None = None,
        most: float | None = None,
        missing: frozenset[str] = NOTHING,
    ) -> Floats:
        """A column of finite numbers within bounds; NaN where the text is one of `missing`."""
        expected = "expected a number" + _bounds(least, above, most)
        cells = self.columns[field]
        absent = np.zeros(len(self), np.bool_)
        if isinstance(cells, np.ndarray):
            values = cells.astype(np.float64)
            if missing and cells.dtype.kind == "f":
                absent = np.isnan(values)
        else:
            if missing and not missing.isdisjoint(cells):
                absent = np.fromiter((cell in missing for cell in cells), np.bool_, len(self))
                cells = ["nan" if gone else cell for cell, gone in zip(cells, absent, strict=True)]
            values = _floats(cells)
        wrong = ~np.isfinite(values)
        with np.errstate(invalid="ignore"):
            if least is not None:
                wrong |= values < least
            if above is not None:
                wrong |= values <= above
            if most is not None:
                wrong |= values > most
        self.refuse(wrong & ~absent, field, expected)
        return np.where(wrong, np.nan, values)

    def whole(
        self,
        field: str,
        *,
        least: int = _LOWEST,
        most: int = _HIGHEST,
        missing: frozenset[str] = NOTHING,
        instead: int = -1,
    ) -> Integers:
        """A column of whole numbers within bounds; `instead` where the text is one of `missing`."""
        lower, upper = (least if least > _LOWEST else None), (most if most < _HIGHEST else None)
        expected = "expected a whole number" + _bounds(lower, None, upper)
        cells = self.columns[field]
        if isinstance(cells, np.ndarray):
            values, wrong = _whole_numbers(cells)
            absent = np.isnan(cells) if missing and cells.dtype.kind == "f" else np.zeros(len(self), np.bool_)
        else:
            absent = np.zeros(len(self), np.bool_)
            if missing and not missing.isdisjoint(cells):
                absent = np.fromiter((cell in missing for cell in cells), np.bool_, len(self))
                cells = [str(instead) if gone else cell for cell, gone in zip(cells, absent, strict=True)]
            values, wrong = _whole_texts(cells)
        wrong |= (values < least) | (values > most)
        self.refuse(wrong & ~absent, field, expected)
        return np.where(wrong | absent, instead, values)

    def text(self, field: str, *, is_id: bool = False) -> list[str]:
        """A column of text (names and ids: printable and not empty), of bounded length."""
        cells = self.columns[field]
        if isinstance(cells, np.ndarray):
            return [str(cell) for cell in cells.tolist()]
        # Names repeat, so most chunks have few different cells to look at.
        faults = {cell: fault for cell in set(cells) if (fault := text_fault(cell, is_id=is_id))}
        if not faults:
            return list(cells)
        for row, cell in enumerate(cells):
            if cell in faults and self.good[row]:
                self.good[row] = False
                self.tally.malformed(int(self.lines[row]), field, faults[cell], cell)
        return ["" if cell in faults else cell for cell in cells]

    def parsed(self, field: str, parse: Callable[[str], _T], instead: _T, expected: str) -> list[_T]:
        """A column by a parser of one cell, which raises ValueError for what is not as `expected`."""
        made: list[_T] = []
        for row, cell in enumerate(self.columns[field]):
            try:
                made.append(parse(str(cell)))
            except (ValueError, OverflowError):
                made.append(instead)
                if self.good[row]:
                    self.good[row] = False
                    self.tally.malformed(int(self.lines[row]), field, expected, cell)
        return made


def numeric(texts: AnyColumn) -> AnyColumn:
    """A text column as whole numbers or numbers (empty: NaN) where every cell is one, else as it is."""
    cells: list[str] = texts.tolist()
    values, wrong = _whole_texts(cells)
    if not wrong.any():
        return values
    filled = np.array([cell != "" for cell in cells], np.bool_)
    numbers = _floats([cell or "nan" for cell in cells])
    return numbers if filled.any() and bool(np.isfinite(numbers[filled]).all()) else texts


def _bounds(least: float | None, above: float | None, most: float | None) -> str:
    parts = [f"of {least:g} or more"] if least is not None else []
    parts += [f"above {above:g}"] if above is not None else []
    parts += [f"at most {most:g}"] if most is not None else []
    return " " + " and ".join(parts) if parts else ""


def _plain(cells: Sequence[str]) -> bool:
    """Whether Python's own conversions accept no more than a trace may hold (they take 1_000 and other
    scripts' digits).
    """
    joined = "".join(cells)
    return "_" not in joined and joined.isascii()


def _floats(cells: Sequence[str]) -> Floats:
    """Numbers, NaN where a cell is none."""
    if _plain(cells):
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            pass
    made = (float(cell) if _NUMBER.fullmatch(cell.strip(_BLANKS)) else np.nan for cell in cells)
    return np.fromiter(made, np.float64, len(cells))


def _whole_texts(cells: Sequence[str]) -> tuple[Integers, Mask]:
    if _plain(cells):
        try:
            return np.fromiter(map(int, cells), np.int64, len(cells)), np.zeros(len(cells), np.bool_)
        except (ValueError, OverflowError):
            pass
    values = np.zeros(len(cells), np.int64)
    wrong = np.zeros(len(cells), np.bool_)
    for row, cell in enumerate(cells):
        text = cell.strip(_BLANKS)
        number = float(text) if _NUMBER.fullmatch(text) else np.nan
        if _WHOLE.fullmatch(text) and _LOWEST <= int(text) <= _HIGHEST:
            values[row] = int(text)
        elif number.is_integer() and abs(number) <= _EXACT:
            values[row] = int(number)
        else:
            wrong[row] = True
    return values, wrong


def _whole_numbers(cells: Floats | Integers) -> tuple[Integers, Mask]:
    if cells.dtype.kind == "i":
        return cells.astype(np.int64), np.zeros(len(cells), np.bool_)
    wrong = ~(np.abs(cells) <= _EXACT)
    safe = np.where(wrong, 0.0, cells)
    values = safe.astype(np.int64)
    return values, wrong | (values != safe)
