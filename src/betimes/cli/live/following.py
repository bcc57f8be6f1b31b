"""Verbs that go on until Ctrl-C, and end then without a word."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from betimes.errors import BetimesError

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED = 130


class Left(BetimesError):
    """The user has seen enough, and pressed Ctrl-C."""

    exit_code = INTERRUPTED


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Inside, Ctrl-C is the way out rather than an interruption: exit code 130, and nothing is said."""
    try:
        yield
    except KeyboardInterrupt:
        raise Left from None


def pause(seconds: float) -> None:
    """Wait before looking again."""
    time.sleep(seconds)
