"""Reporting a running job's progress to the service, from the inside and without slowing it down."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
EVERY_S = 1.0  # at most one report in so many seconds
LONGEST_S = 30.0  # between two tries while the service cannot be reached
TIMEOUT_S = 5.0  # of one report
PATIENCE_S = 2.0  # with the last report, when the program ends

_NEEDED = ("BETIMES_URL", "BETIMES_JOB_ID", "BETIMES_ATTEMPT", "BETIMES_RUN_TOKEN")


class Progress(Generic[T]):
    """The items of an iterable, counted as they are done with; what `progress` returns.

    `done`: steps so far, those before `start` included; `total`: of how many, None: not known.
    `failures`: reports that did not reach the service. The job never notices: the next report, which holds all that
    this one did, is tried after a growing delay.
    """

    def __init__(self, iterable: Iterable[T], total: float | None, start: float) -> None:
        self._iterable, self._start = iterable, start
        self.done, self.total = start, total
        self.failures = 0

    def __iter__(self) -> Iterator[T]:
        reporter = _reporter(self)
        return iter(self._iterable) if reporter is None else self._counted(reporter)

    def _counted(self, reporter: _Reporter) -> Iterator[T]:
        self.done = self._start
        try:
            for item in self._iterable:
                yield item
                self.done += 1  # all that a step costs: another thread looks at the count once a second
        finally:
            reporter.finish(self)


def progress(iterable: Iterable[T], total: float | None = None, *, start: float = 0) -> Progress[T]:
    """Report how far a job is while its loop runs: `for batch in betimes.progress(loader): ...`.

    A step counts when the loop comes back for the next one. `total`: how many steps there are in all, by default
    `start` and the iterable's length; without either nothing is reported. `start`: steps done before, when the job
    resumes from a checkpoint. At most once a second, and when the program ends, a thread in the background sends
    the count; if the service cannot be reached the job goes on undisturbed (`Progress.failures`). Of nested loops the
    outermost reports. Outside Betimes this is the plain loop. Raises ValueError for a total or start that is
    negative or not finite.
    """
    if total is None and isinstance(iterable, Sized):
        # A data loader over a stream has a len that raises.
        with contextlib.suppress(TypeError, NotImplementedError):
            total = start + len(iterable)
    for name, value in (("total", total), ("start", start)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}; it is a number of steps, 0 or more")
    return Progress(iterable, total, start)


class _Reporter:
    """The one thread of this process that reports."""

    def __init__(self, url: str, job: str, attempt: int, token: str) -> None:
        parts = urlsplit(url)
        self._secure, self._address = parts.scheme == "https", parts.netloc
        self._path = f"{parts.path.rstrip('/')}/api/v1/jobs/{job}/progress"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._attempt = attempt
        self._current: Progress[Any] | None = None
        self._running = False  # a loop does; afterwards its last count may still have to be sent
        self._sent: tuple[float, float | None] | None = None
        self._wake, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="betimes-progress", daemon=True)
        self._thread.start()
        atexit.register(self._last)

    def begin(self, loop: Progress[Any]) -> bool:
        """Report this loop from now on; False: there is one around it."""
        if self._running:
            return False
        self._current, self._running = loop, True
        self._wake.set()
        return True

    def finish(self, loop: Progress[Any]) -> None:
        """The loop is left; its last count is sent with the next report."""
        if self._current is loop:
            self._running = False

    def _work(self) -> None:
        delay_s = EVERY_S
        while True:
            self._wake.wait()  # for the first loop, and after each for another
            leaving = self._leave.is_set()
            sent = self._report()
            if leaving:
                return
            delay_s = EVERY_S if sent else min(2 * delay_s, LONGEST_S)
            self._leave.wait(delay_s)
            if not self._running and self._state() == self._sent and not self._leave.is_set():
                self._wake.clear()
                if self._running or self._leave.is_set():  # since the look above
                    self._wake.set()

    def _state(self) -> tuple[float, float | None]:
        current = self._current
        if current is None or current.total is None:
            return 0, None
        return min(current.done, current.total), current.total

    def _report(self) -> bool:
        """Send the count if it has changed; False: the request failed."""
        state = self._state()
        if state == self._sent or not state[1]:
            return True
        body = json.dumps({"attempt": self._attempt, "done": state[0], "total": state[1]})
        try:
            accepted = self._post(body)
        except Exception:  # no error of a report is the job's concern
            accepted = False
        if accepted:
            self._sent = state
        elif self._current is not None:
            self._current.failures += 1
        return accepted

    def _post(self, body: str) -> bool:
        from http.client import HTTPConnection, HTTPSConnection

        connection = (HTTPSConnection if self._secure else HTTPConnection)(self._address, timeout=TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request("POST", self._path, body, self._headers)
            return 200 <= connection.getresponse().status < 300

    def forget(self) -> None:
        """In a process that was forked off: the thread, and with it the reporting, is the parent's."""
        atexit.unregister(self._last)

    def _last(self) -> None:
        """At the program's end: send the last count, but do not wait for long."""
        self._leave.set()
        self._wake.set()
        self._thread.join(PATIENCE_S)


_shared: _Reporter | None = None
_guard = threading.Lock()


def _reporter(loop: Progress[T]) -> _Reporter | None:
    """The reporter for this loop; None outside Betimes, without a total, or within a reported loop."""
    global _shared  # noqa: PLW0603
    if not loop.total or not all(os.environ.get(name) for name in _NEEDED):
        return None
    with _guard:
        if _shared is None:
            url, job, attempt, token = (os.environ[name] for name in _NEEDED)
            try:
                _shared = _Reporter(url, job, int(attempt), token)
            except (
                ValueError,
                RuntimeError,
            ) as error:  # a variable was tampered with; no thread can be started
                print(f"betimes: progress is not reported: {error}", file=sys.stderr)
                return None
        return _shared if _shared.begin(loop) else None


def _after_fork() -> None:
    global _shared, _guard
    if _shared is not None:
        _shared.forget()
    _shared, _guard = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
