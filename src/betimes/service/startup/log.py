"""The service's log on standard error: a line a message, whatever users wrote into it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from betimes.printing import one_line, printable

if TYPE_CHECKING:
    from types import TracebackType


class OneLine(logging.Formatter):
    """`betimes: MESSAGE` on one printable line; a traceback follows, indented so that no line of it looks like one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line."""
        return f"betimes: {one_line(record.message)}"

    def formatException(  # noqa: N802
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """The lines of a traceback."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


def log_to_stderr() -> None:
    """Log warnings and errors on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
