"""The process that forks the supervisor of each run, with all of a supervisor's imports done.

A service starts one, and it ends with the service; supervisors are in separate sessions, and go on.
"""

from __future__ import annotations

import gc
import marshal
import os
import socket
import sys

from .files import BELL_FD
from .processes import signal
from .supervisor import main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NUMBER_BYTES = 8  # of a request's length, and of an answer: a process, or an error's number below zero


def serve(descriptor: int) -> None:
    """Fork a supervisor for each request that comes over this socket, until its other end is closed.

    A request is its length, with the descriptors of shim.err and of the bell, and then the marshalled folder and
    launch.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors record their results
    gc.freeze()  # so that supervisors share these pages
    with socket.socket(fileno=descriptor) as service:
        while True:
            try:
                length, handed, _, _ = socket.recv_fds(service, NUMBER_BYTES, 2)
            except ConnectionResetError:  # the service was killed before it had read an answer
                return
            if not length:
                return
            count = int.from_bytes(length, "little")
            request = service.recv(count, socket.MSG_WAITALL)
            if len(request) < count:  # the service was killed before it had sent all
                return
            try:
                answer = os.fork()
                if answer == 0:
                    _supervise(*marshal.loads(request), *handed)
            except OSError as error:
                answer = -(error.errno or 1)
            for one in handed:
                os.close(one)
            try:
                service.sendall(answer.to_bytes(NUMBER_BYTES, "little", signed=True))
            except (BrokenPipeError, ConnectionResetError):  # it was killed meanwhile
                return


def _supervise(folder: str, launch: dict[str, Any], errors: int, bell: int) -> NoReturn:
    """Be the supervisor of a run. The bell gets one byte: the command runs, or why nothing has begun."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, number in ((null, 0), (null, 1), (errors, 2), (bell, BELL_FD)):
            os.dup2(descriptor, number)
        code = main(folder, launch)
        if code:
            os.write(BELL_FD, bytes([code]))
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    os._exit(code)
