"""Reading server-sent events: lines of text in, events out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 64 << 20  # of a line; anything longer is not a stream of events


class EventReader:
    """Reads a stream in pieces of any size; `last` is the event id from which to resume after a break."""

    def __init__(self, after: int = 0) -> None:
        self.last = after
        self._rest = b""
        self._data: list[bytes] = []
        self._id: int | None = None

    def restart(self) -> None:
        """Forget an event that a lost connection cut in two."""
        self._rest, self._data, self._id = b"", [], None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The unseen events, as JSON, that this piece completes. Raises ServiceError."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MOST_BYTES:
            raise ServiceError("the stream of events has no end of line; is this a Betimes service?")
        for line in lines:
            event = self._line(line.removesuffix(b"\r"))
            if event is not None:
                yield event

    def _line(self, line: bytes) -> bytes | None:
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                self._data.append(value)
            elif name == b"id" and value.isdigit():
                self._id = int(value)
            return None
        data, number = b"\n".join(self._data), self._id
        self._data, self._id = [], None
        known = number is not None and number <= self.last
        if number is not None:
            self.last = max(self.last, number)
        if not data or known:
            return None
        return data
