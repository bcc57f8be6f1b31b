"""The service's log on standard error: a line a message, whatever users wrote into it; and what is done about errors
that nothing else handles.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from betimes.printing import one_line, printable

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType


_NO_MEMORY = (
    b"betimes: there is not enough memory for the service, which ends; jobs that run go on. Start it again, with more "
    b"memory or fewer jobs\n"
)


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


def heed_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that nothing else handles, as an event loop's exception handler.

    Without memory the process ends at once: what has failed - an exit that is reported, a signal - is lost, and
    nobody repeats it, whereas a start from the log is whole. The end itself takes no memory.
    """
    if isinstance(context.get("exception"), MemoryError):
        os.write(2, _NO_MEMORY)
        os._exit(1)
    loop.default_exception_handler(context)


def log_to_stderr() -> None:
    """Log warnings and errors on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
