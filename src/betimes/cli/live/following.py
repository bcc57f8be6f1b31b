"""Support for verbs that run until Ctrl-C, and then end without a message."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from betimes.errors import BetimesError

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED = 130


class Left(BetimesError):
    """A following verb ends without a message: by Ctrl-C, or as the command ended that it ran."""

    def __init__(self, exit_code: int = INTERRUPTED) -> None:
        super().__init__()
        self.exit_code = exit_code


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Inside, Ctrl-C is the normal end: exit code 130 without a message."""
    try:
        yield
    except KeyboardInterrupt:
        raise Left from None


def pause(seconds: float) -> None:
    """Wait before the next poll."""
    time.sleep(seconds)
