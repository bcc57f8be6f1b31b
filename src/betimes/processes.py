"""Worker processes that do one task at a time: the same work as here, on more processors.

Workers are spawned, and receive their arguments once. They ignore Ctrl-C, which reaches the whole group: the parent
stops them. A worker whose parent is gone notices when it next sends something.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from betimes.errors import BetimesError

Say = Callable[[Any], object]
"""Sends a message to the parent during a task."""

Do = Callable[[Any, Say], Any]
"""Does a task and returns the answer."""

HEED_S = 0.2  # between two looks at whether the caller still wants answers


def cpus() -> int:
    """The number of processes that run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """`size` processes; each calls `prepare(*arguments)` once, and what that returns for every task.

    To be used in a `with` block, at whose end no process is left; they are started for the first tasks. prepare,
    arguments, tasks, answers and messages travel between processes: they must pickle.
    """

    def __init__(self, prepare: Callable[..., Do], arguments: Sequence[Any], size: int) -> None:
        self.prepare, self.arguments, self.size = prepare, tuple(arguments), size
        self._workers: dict[Any, SpawnProcess] = {}
        self._idle: list[Any] = []
        self._at: dict[Any, int] = {}  # the serial number of the task that each busy worker is at
        self._given = 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def answers(
        self,
        tasks: Sequence[Any],
        heard: Callable[[int, Any], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Generator[tuple[int, Any]]:
        """The number of each task with its answer, in the order in which they are done.

        heard receives a task's number and each message of its worker; once `stop()` is true no more tasks and answers
        are given. Raises what a task raises. A caller may stop early: later answers are dropped.
        """
        while len(self._workers) < self.size:
            self._start()
        waiting = deque(enumerate(tasks))
        mine: dict[int, int] = {}
        self._give_out(waiting, mine)
        while mine:
            if stop is not None and stop():
                return
            ends: list[Any] = connection.wait(list(self._at), timeout=None if stop is None else HEED_S)
            for end in ends:
                kind, what = self._heard(end)
                task = mine.get(self._at[end])
                if kind == "progress":
                    if task is not None and heard is not None:
                        heard(task, what)
                    continue
                mine.pop(self._at.pop(end), None)
                self._idle.append(end)
                if task is None:
                    self._give_out(waiting, mine)
                elif kind == "error":
                    raise what
                else:
                    self._give_out(waiting, mine)
                    yield task, what

    def _give_out(self, waiting: deque[tuple[int, Any]], mine: dict[int, int]) -> None:
        while waiting and self._idle:
            task, what = waiting.popleft()
            end = self._idle.pop()
            self._given += 1
            mine[self._given] = task
            self._at[end] = self._given
            end.send(what)

    def _start(self) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(theirs, self.prepare, self.arguments), daemon=True)
        with _signals_held_back():
            worker.start()
            self._workers[ours] = worker
        theirs.close()
        self._idle.append(ours)

    def _heard(self, end: Any) -> tuple[str, Any]:
        try:
            return end.recv()
        except (EOFError, ConnectionError):
            worker = self._workers[end]
            worker.join()
            code = worker.exitcode or 0
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            advice = "; memory may have run out: try --processes 1" if code == -signal.SIGKILL else ""
            raise BetimesError(f"a worker process {how}{advice}") from None

    def _stop(self) -> None:
        for end, worker in self._workers.items():
            worker.kill()
            end.close()
        for worker in self._workers.values():
            worker.join()


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM take effect when the block ends; a process started in it ignores Ctrl-C.

    A worker is sent much when it starts: half of it would be worse than none. Blocking reaches this thread alone
    and what it starts; another thread may still take the signal, so the handlers are set aside as well, where Python
    lets us: in the main thread.
    """
    resource_tracker.ensure_running()  # which unblocks both when it starts
    both = (signal.SIGINT, signal.SIGTERM)
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handlers = (
        [signal.signal(each, lambda number, _: came.append(number)) for each in both] if is_main else []
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, both)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for each, handler in zip(both, handlers, strict=False):
            signal.signal(each, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def _work(end: Any, prepare: Callable[..., Do], arguments: tuple[Any, ...]) -> None:
    """A worker's loop: do incoming tasks until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    sys.stdout = sys.stderr  # a user's policy may print
    do: Do | None = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            task = end.recv()
            try:
                do = do or prepare(*arguments)
                answer = do(task, lambda what: end.send(("progress", what)))
            except (EOFError, ConnectionError):
                raise
            except Exception as error:
                end.send(("error", portable(error)))
            else:
                end.send(("answer", answer))


def portable(error: Exception) -> Exception:
    """The error as it can be sent, with the worker's traceback as a note."""
    sent = error
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # any exception class may refuse in any way
        sent = BetimesError(f"{type(error).__name__}: {error}")
    sent.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    return sent
