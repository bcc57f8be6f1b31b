"""Runs of a study, here or in several processes: the same results either way.

Workers are spawned, so each loads the kernels from the cache, which is filled before. Ctrl-C, which reaches
the whole group, does nothing to them: the parent stops them. A worker whose parent is gone notices at its next report.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

from betimes.cli.study import Loaded, Run, Study, load, notes_of, simulate
from betimes.errors import BetimesError

if TYPE_CHECKING:
    from betimes.outcome import Result

Progress = Callable[[Run, int], object]
"""Told a run and how many more of its jobs have been submitted."""


def cpus() -> int:
    """How many processes run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def results(
    study: Study,
    loaded: Loaded,
    runs: Sequence[Run],
    processes: int,
    warn: Callable[[str], object],
    progress: Progress,
) -> Iterator[tuple[Run, Result]]:
    """Every run with its result, in the order in which they are done.

    loaded: the workload of the study's first seed, and of all seeds where no jobs are drawn. Raises what a run
    raises; no process is left behind then, nor when the caller stops asking.
    """
    if min(processes, len(runs)) <= 1:
        jobs = _Jobs(study, loaded)
        for run in runs:
            with contextlib.redirect_stdout(sys.stderr):  # a user's policy may print
                result = jobs.run(run, warn, progress)
            yield run, result
    else:
        yield from _Pool(study, loaded, min(processes, len(runs))).results(runs, warn, progress)


class _Jobs:
    """Makes runs one after the other, with the workload that each needs."""

    def __init__(self, study: Study, loaded: Loaded) -> None:
        self.study, self.loaded, self.seed = study, loaded, study.seed
        self.one_for_all = not study.draws_jobs()

    def run(self, run: Run, warn: Callable[[str], object], progress: Progress) -> Result:
        """Make one run; raises what goes wrong."""
        if run.seed != self.seed and not self.one_for_all:
            self.loaded, self.seed = load(self.study, run.seed), run.seed
            for note in notes_of(self.loaded.workload):
                warn(note)
        done = 0

        def submitted(rows: int) -> None:
            nonlocal done
            progress(run, rows - done)
            done = rows

        return simulate(self.study, run, self.loaded, warn, submitted)


class _Pool:
    """Worker processes that each make one run at a time."""

    def __init__(self, study: Study, loaded: Loaded, size: int) -> None:
        self.study, self.loaded, self.size = study, loaded, size
        self.workers: dict[Any, SpawnProcess] = {}

    def results(
        self, runs: Sequence[Run], warn: Callable[[str], object], progress: Progress
    ) -> Iterator[tuple[Run, Result]]:
        """Every run with its result, in the order in which they are done."""
        waiting = list(reversed(runs))
        busy: dict[Any, Run] = {}
        try:
            for _ in range(self.size):
                end = self._start()
                busy[end] = waiting.pop()
                end.send(busy[end])
            while busy:
                ends: list[Any] = connection.wait(list(busy))
                for end in ends:
                    kind, what = self._heard(end)
                    if kind == "note":
                        warn(what)
                    elif kind == "progress":
                        progress(busy[end], what)
                    elif kind == "error":
                        raise what
                    else:
                        run = busy.pop(end)
                        if waiting:
                            busy[end] = waiting.pop()
                            end.send(busy[end])
                        yield run, what
        finally:
            self._stop()

    def _start(self) -> Any:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(theirs, self.study, self.loaded), daemon=True)
        with _signals_held_back():
            worker.start()
            self.workers[ours] = worker
        theirs.close()
        return ours

    def _heard(self, end: Any) -> tuple[str, Any]:
        try:
            return end.recv()
        except (EOFError, ConnectionError):
            worker = self.workers[end]
            worker.join()
            code = worker.exitcode or 0
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            advice = "; memory may have run out: try --processes 1" if code == -signal.SIGKILL else ""
            raise BetimesError(f"a worker process {how}{advice}") from None

    def _stop(self) -> None:
        for end, worker in self.workers.items():
            worker.kill()
            end.close()
        for worker in self.workers.values():
            worker.join()


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM take effect when the block ends, and a process started in it does not hear the first.

    A worker is sent much when it starts: half of it would be worse than none. Blocking reaches this thread alone
    and what it starts; another thread may still take the signal, so the handlers are set aside as well.
    """
    resource_tracker.ensure_running()  # which unblocks both when it starts
    both = (signal.SIGINT, signal.SIGTERM)
    came: list[int] = []
    handlers = [signal.signal(each, lambda number, _: came.append(number)) for each in both]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, both)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for each, handler in zip(both, handlers, strict=True):
            signal.signal(each, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def _work(end: Any, study: Study, loaded: Loaded) -> None:
    """A worker's life: makes the runs that come in, until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    sys.stdout = sys.stderr  # as above
    jobs = _Jobs(study, loaded)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            run: Run = end.recv()
            try:
                result = jobs.run(
                    run,
                    lambda text: end.send(("note", text)),
                    lambda _, more: end.send(("progress", more)),
                )
            except (EOFError, ConnectionError):
                raise
            except Exception as error:
                end.send(("error", _portable(error)))
            else:
                end.send(("result", result))


def _portable(error: Exception) -> Exception:
    """The error as it can be sent, with the worker's traceback as a note."""
    sent = error
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an exception of anybody's may refuse in any way
        sent = BetimesError(f"{type(error).__name__}: {error}")
    sent.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    return sent
