"""Calls of the compiled loop in slices, so that the caller sees progress and can interrupt it.

One instant can take long: a hundred thousand jobs at once, a hook that never returns. Python handles signals only
between two of its instructions, not during such a call: so it is made from another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from betimes.core.status import DONE, STUCK
from betimes.errors import PolicyViolation
from betimes.kernels import INTERPRETED, as_array
from betimes.policies import ChosenPolicy
from betimes.twin.nodes.driver import Driver as NodesDriver
from betimes.twin.pool.driver import Driver

FIRST_ROWS = 1024
SECONDS_A_CALL = 0.25  # between two looks at the keyboard and the progress bar
EVENTS_A_CALL = 1_000_000  # and no more than that


def drive(
    driver: Driver | NodesDriver,
    policy: ChosenPolicy[Any],
    jobs: int,
    step: Callable[[int], int],
    progress: Callable[[int], object] | None = None,
) -> float:
    """Take a simulation through its rows up to `jobs`, and until nothing more can happen; returns seconds.

    step: submits the jobs up to a row and returns a status; progress receives the number of rows done.
    """
    started, row = time.perf_counter(), driver.row
    rows, again = FIRST_ROWS, True
    with _heeding_signals(lambda stop: goes_on(driver, policy, step, stop)) as heeding:
        while again or row[0] < jobs:
            before, called = int(row[0]), time.perf_counter()
            again = heeding(min(jobs, before + rows))
            pace = (int(row[0]) - before + 1) / (time.perf_counter() - called + 1e-6)
            rows = max(1, min(2 * rows, int(pace * SECONDS_A_CALL)))
            if progress is not None:
                progress(int(row[0]))
    return time.perf_counter() - started


def goes_on(
    driver: Driver | NodesDriver, policy: ChosenPolicy[Any], step: Callable[[int], int], stop: int
) -> bool:
    """One call of the loop, and what it asks for; returns whether it has to be called again."""
    as_array(driver.state.pool)["budget"][0] = EVENTS_A_CALL
    try:
        status = step(stop)
    except Exception as error:  # a user's hook can raise anything
        if not policy.is_users:
            raise
        now_s = driver.state.pool[0].now
        raise PolicyViolation(f"policy {policy} at {now_s:g} s: {type(error).__name__}: {error}") from error
    driver.heed(status)
    return status not in (DONE, STUCK)


_left: list[threading.Thread] = []


def is_left_running() -> bool:
    """Whether an interrupted call still runs: the process can then only be ended at once."""
    return any(thread.is_alive() for thread in _left)


@contextmanager
def _heeding_signals(step: Callable[[int], bool]) -> Generator[Callable[[int], bool]]:
    """`step`, called from a separate thread: compiled code releases the interpreter, and this thread waits.

    A signal that raises here leaves the call running; its result is dropped. One thread serves all calls: a planner's
    rounds make tens of thousands.
    """
    if INTERPRETED or threading.current_thread() is not threading.main_thread():
        yield step  # Python in between, or no signal comes here
        return
    asked: SimpleQueue[int | None] = SimpleQueue()
    answered: SimpleQueue[bool | BaseException] = SimpleQueue()

    def serve() -> None:
        while (stop := asked.get()) is not None:
            try:
                answered.put(step(stop))
            except BaseException as error:  # whatever it is belongs to the thread that waits
                answered.put(error)

    def call(stop: int) -> bool:
        asked.put(stop)
        try:
            answer = answered.get()
        except BaseException:
            _left.append(thread)
            raise
        if isinstance(answer, BaseException):
            raise answer
        return answer

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield call
    finally:
        asked.put(None)
