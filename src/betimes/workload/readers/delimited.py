"""Tables of text with a header line (CSV and the like), read in chunks of rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import numpy as np

from betimes.errors import TraceError
from betimes.workload.readers.rows import Rows
from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally

_CHUNK = 1 << 14


class DelimitedTable:
    """A table whose first line that is neither empty nor a `#` comment names its columns.

    `comments` holds the comment lines before the header. With `skip_marked`, rows with a `#` anywhere are
    left out and counted.
    """

    def __init__(
        self,
        source: Source,
        tally: Tally,
        required: tuple[str, ...],
        *,
        delimiter: str = ",",
        quotes: bool = True,
        skip_marked: bool = False,
    ) -> None:
        self._source, self._tally = source, tally
        self._skip_marked = skip_marked
        self._line = 0
        self.comments: list[str] = []
        self._lines = self._text_lines()
        self._reader = csv.reader(
            self._lines,
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
            strict=True,
        )
        self.header = self._read_header(delimiter, quotes)
        self.header_line = self._line
        for name in required:
            if name not in self.header:
                found = ", ".join(self.header)[:200]
                raise TraceError(
                    f"the column is missing; the header has {found}", source.path, self._line, name
                )

    def chunks(self) -> Iterator[Rows]:
        """The rows, some thousands at a time, with the number of the line on which each ends."""
        width = len(self.header)
        cells: list[list[str]] = []
        lines: list[int] = []
        while (row := self._next_row()) is not None:
            if not row:
                continue
            if self._skip_marked and any("#" in cell for cell in row):
                self._tally.left_out("commented out", 1)
                continue
            if len(row) != width:
                self._tally.malformed(self._line, None, f"expected {width} fields", len(row))
                continue
            cells.append(row)
            lines.append(self._line)
            if len(cells) == _CHUNK:
                yield self._rows(cells, lines)
                cells, lines = [], []
        if cells:
            yield self._rows(cells, lines)

    def _rows(self, cells: list[list[str]], lines: list[int]) -> Rows:
        columns = dict(zip(self.header, zip(*cells, strict=True), strict=True))
        return Rows(np.array(lines, np.int64), columns, self._tally)

    def _next_row(self) -> list[str] | None:
        """The next row; None at the end. Rows that cannot be split are reported and passed over."""
        while True:
            try:
                return next(self._reader)
            except StopIteration:
                return None
            except csv.Error as error:
                self._tally.malformed(self._line, None, f"expected a well-formed row ({error})")

    def _read_header(self, delimiter: str, quotes: bool) -> list[str]:
        for line in self._lines:
            if line.startswith("#"):
                self.comments.append(line.rstrip("\r\n"))
            elif line.strip():
                break
        else:
            raise TraceError(
                "the file is empty: expected a header line and one job a line", self._source.path
            )
        mode = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        try:
            names = [
                name.strip()
                for name in next(csv.reader([line], delimiter=delimiter, quoting=mode, strict=True))
            ]
        except csv.Error as error:
            raise TraceError(f"the header is malformed ({error})", self._source.path, self._line) from error
        for place, name in enumerate(names):
            if name in names[:place]:
                raise TraceError(
                    "the column appears twice in the header", self._source.path, self._line, name[:40]
                )
        return names

    def _text_lines(self) -> Iterator[str]:
        """Lines as text; those that are not UTF-8 are reported and passed over."""
        for block in self._source.blocks():
            self._line = self._source.line
            try:
                texts: list[str | None] = list(block.decode().split("\n"))
            except UnicodeDecodeError:
                texts = [_decoded(line) for line in block.split(b"\n")]
            ended = texts[-1] == ""
            for text in texts[:-1] if ended else texts:
                self._line += 1
                if text is None:
                    self._tally.malformed(self._line, None, "expected UTF-8 text")
                else:
                    yield text + "\n"


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
