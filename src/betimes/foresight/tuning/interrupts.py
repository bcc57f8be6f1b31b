"""The first Ctrl-C asks a search to come to its end; the second ends the program as usual."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Generator[Callable[[], bool]]:
    """While this is entered, a first Ctrl-C only makes the function that it gives return True.

    Python hears signals in its main thread alone, and a caller's own handler is kept: elsewhere the
    function never returns True.
    """
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
