"""Tables of text with a header line (CSV and the like), read in blocks of lines."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from betimes.errors import TraceError
from betimes.workload.readers.rows import Rows, Tally
from betimes.workload.readers.source import Source


class DelimitedTable:
    """A table whose first line that is neither empty nor a `#` comment names its columns.

    `comments` holds the comment lines before the header. With `skip_marked`, rows with a `#` anywhere are
    left out and counted. Raises TraceError where a required column is missing.
    """

    def __init__(
        self,
        source: Source,
        tally: Tally,
        required: Iterable[str] = (),
        *,
        delimiter: str = ",",
        quotes: bool = True,
        skip_marked: bool = False,
    ) -> None:
        self._source, self._tally = source, tally
        self._delimiter, self._quotes, self._skip_marked = delimiter, quotes, skip_marked
        self._blocks = source.blocks()
        self._rest = b""
        self._line = 0
        self.comments: list[str] = []
        self.header = self._read_header()
        self.header_line = self._line
        for name in required:
            if name not in self.header:
                raise self.missing(name)

    def missing(self, name: str, why: str = "") -> TraceError:
        """The error to raise where this column is not in the header."""
        why = why or f"the column is missing; the header has {', '.join(self.header)[:200]}"
        return TraceError(why, self._source.path, self.header_line, name)

    def chunks(self) -> Iterator[Rows]:
        """The rows, some thousands at a time, with the number of the line on which each ends."""
        for body, lines_before in self._bodies():
            if body:
                yield self._fast(body, lines_before) or self._careful(body, lines_before)

    def _bodies(self) -> Iterator[tuple[bytes, int]]:
        """Blocks of whole rows, each with the number of the lines before it."""
        body, lines_before = self._rest, self.header_line
        for block in self._blocks:
            if self._quotes and body.count(b'"') % 2:  # a cell goes on in the next block
                body += block
            else:
                yield body, lines_before
                body, lines_before = block, self._source.line
        yield body, lines_before

    def _fast(self, body: bytes, lines_before: int) -> Rows | None:
        """The block where each line is a row and each delimiter ends a cell; None where anything is unusual."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        lines = body.count(b"\n") + (not body.endswith(b"\n"))
        if (
            body.count(self._delimiter.encode()) != lines * (len(self.header) - 1)
            or body.count(b"\r") != body.count(b"\r\n")
            or (self._quotes and _has_odd_quotes(body))
            or (self._skip_marked and b"#" in body)
        ):
            return None
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(body),
                read_options=pa_csv.ReadOptions(
                    use_threads=False, column_names=self.header, block_size=len(body) + 1
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self._delimiter, quote_char='"' if self._quotes else False
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.header, pa.string()), strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != lines:
            return None
        columns = {name: table.column(name).combine_chunks() for name in self.header}
        return Rows(np.arange(lines_before + 1, lines_before + 1 + lines), columns, self._tally)

    def _careful(self, body: bytes, lines_before: int) -> Rows:
        """The block row by row; those that cannot be split are reported."""
        import pyarrow as pa

        self._line = lines_before
        reader = self._parser(self._texts(body))
        cells: list[list[str]] = []
        lines: list[int] = []
        while True:
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self._tally.malformed(self._line, None, f"expected a well-formed row ({error})")
                continue
            if self._skip_marked and any("#" in cell for cell in row):
                self._tally.left_out("commented out", 1)
            elif row and len(row) != len(self.header):
                self._tally.malformed(self._line, None, f"expected {len(self.header)} fields", len(row))
            elif row:
                cells.append(row)
                lines.append(self._line)
        by_column: Sequence[Sequence[str]] = list(zip(*cells, strict=True)) or [()] * len(self.header)
        columns = {
            name: pa.array(texts, pa.string()) for name, texts in zip(self.header, by_column, strict=True)
        }
        return Rows(np.array(lines, np.int64), columns, self._tally)

    def _parser(self, texts: Iterable[str]) -> Any:
        quoting = csv.QUOTE_MINIMAL if self._quotes else csv.QUOTE_NONE
        return csv.reader(texts, delimiter=self._delimiter, quoting=quoting, strict=True)

    def _texts(self, body: bytes) -> Iterator[str]:
        """The lines as text; those that are not UTF-8 are reported and passed over."""
        for line in body.removesuffix(b"\n").split(b"\n"):
            self._line += 1
            try:
                yield line.decode() + "\n"
            except UnicodeDecodeError:
                self._tally.malformed(self._line, None, "expected UTF-8 text")

    def _read_header(self) -> list[str]:
        for block in self._blocks:
            begin = 0
            while begin < len(block):
                end = block.find(b"\n", begin) + 1 or len(block)
                text = next(self._texts(block[begin:end]), "")
                begin = end
                if text.startswith("#"):
                    self.comments.append(text.rstrip("\r\n"))
                elif text.strip():
                    self._rest = block[begin:]
                    return self._names(text)
        raise TraceError("the file is empty: expected a header line and one job a line", self._source.path)

    def _names(self, text: str) -> list[str]:
        try:
            names = [name.strip() for name in next(self._parser([text]))]
        except csv.Error as error:
            raise TraceError(f"the header is malformed ({error})", self._source.path, self._line) from error
        for place, name in enumerate(names):
            if name in names[:place]:
                raise TraceError(
                    "the column appears twice in the header", self._source.path, self._line, name[:40]
                )
        return names


def _has_odd_quotes(body: bytes) -> bool:
    """Whether any quote neither opens nor closes a whole cell: parsers differ about these."""
    opening = body.count(b',"') + body.count(b'\n"') + body.startswith(b'"')
    closing = sum(map(body.count, (b'",', b'"\n', b'"\r\n'))) + body.endswith(b'"')
    return not opening == closing == body.count(b'"') / 2
