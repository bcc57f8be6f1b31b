"""`betimes run --pty`: be the terminal of a job on this machine, at a Unix socket that its owner alone can reach.

The job's side, which connects to it, is in `service.spec.environments`.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_BYTES = 1 << 16
FRAME = struct.Struct("!cHH")  # b"t", bytes of typed text that follow, 0; or b"s", rows, columns
_LOOK_S = 1.0  # between two looks whether the job has ended before it has a terminal


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A Unix socket in a folder that its owner alone can enter; the folder is removed."""
    with tempfile.TemporaryDirectory(prefix="betimes-") as folder, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{folder}/terminal")
        made.listen(1)
        yield made


def connect_terminal(at: socket.socket, is_over: Callable[[], bool]) -> bool:
    """Be the terminal of a job from its start to its end; False: it has ended without one."""
    while not select.select([at], [], [], _LOOK_S)[0]:
        if is_over():
            return False
    link, _ = at.accept()
    with link, _raw(), _resized() as resized:
        sources: list[int | socket.socket] = [link, 0, resized]
        while True:
            ready = select.select(sources, [], [])[0]
            if resized in ready:
                os.read(resized, PIECE_BYTES)
                columns, rows = os.get_terminal_size(0) if sys.stdin.isatty() else (80, 24)
                link.sendall(FRAME.pack(b"s", rows, columns))
            if 0 in ready:
                typed = os.read(0, 1 << 15)
                if not typed:
                    sources.remove(0)
                    typed = b"\x04"  # the end of input, as it is typed
                link.sendall(FRAME.pack(b"t", len(typed), 0) + typed)
            if link in ready:
                shown = link.recv(PIECE_BYTES)
                if not shown:
                    return True
                sys.stdout.buffer.write(shown)
                sys.stdout.flush()


@contextmanager
def _raw() -> Iterator[None]:
    """Inside, keys are passed on as they are typed, Ctrl-C too, where standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _resized() -> Iterator[int]:
    """A descriptor that is readable at first and after each change of this terminal's size.

    Nothing is sent where the signal arrives: that could be in the middle of a frame.
    """
    resized, written = os.pipe()
    before = signal.signal(signal.SIGWINCH, lambda *_: os.write(written, b"."))
    try:
        os.write(written, b".")
        yield resized
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(resized)
        os.close(written)
