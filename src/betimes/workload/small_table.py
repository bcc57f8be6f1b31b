"""Small CSV tables that a user hands over (speed-up curves, distributions), read whole with line numbers.

Not for traces: those are streamed by their own readers.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from betimes.errors import TraceError
from betimes.text_file import read_text


@dataclass(frozen=True)
class Row:
    """One line of a table: its number in the file (from 1) and its cells by lower-case column name."""

    line: int
    cells: dict[str, str]


class SmallTable:
    """A CSV file with one header line; plain or gzip (by content), UTF-8, `#` lines are comments.

    Every error is raised as `error`, the class of the kind of table that is read.
    """

    def __init__(self, path: str | Path, error: type[TraceError]) -> None:
        self.path = Path(path)
        self.error = error
        self.columns: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self._parse(read_text(self.path, self.fail, "a table of curves or distributions"))

    def fail(self, message: str, line: int | None = None, field: str | None = None) -> TraceError:
        """The error to raise about this file."""
        return self.error(message, path=self.path, line=line, field=field)

    def number(self, row: Row, field: str) -> float:
        """A finite number in a cell; raises with file, line and field otherwise."""
        text = row.cells[field]
        try:
            value = float(text)
        except ValueError:
            raise self.fail(f"expected a number, got {text!r}", row.line, field) from None
        if not math.isfinite(value):
            raise self.fail(f"expected a finite number, got {text!r}", row.line, field)
        return value

    def _parse(self, text: str) -> None:
        # A quoted cell that spans lines would break the numbering below, and no table here needs one.
        for number, raw in enumerate(text.splitlines(), start=1):
            if not raw.strip() or raw.lstrip().startswith("#"):
                continue
            try:
                cells = [cell.strip() for cell in next(csv.reader([raw], strict=True))]
            except csv.Error as cause:
                raise self.fail(f"not a CSV line ({cause})", number) from None
            if not self.columns:
                self.columns = tuple(cell.lower() for cell in cells)
                if len(set(self.columns)) != len(self.columns):
                    raise self.fail("the header names a column twice", number)
                continue
            if len(cells) != len(self.columns):
                raise self.fail(
                    f"expected {len(self.columns)} columns as in the header, got {len(cells)}", number
                )
            self.rows.append(Row(number, dict(zip(self.columns, cells, strict=True))))
        if not self.columns:
            raise self.fail("the file is empty; expected a header line")
        if not self.rows:
            raise self.fail("there is a header but no row below it")
