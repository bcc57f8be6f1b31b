"""As `processes`, on a Ray cluster or on a Ray of this machine: one actor per processor.

`RAY_ADDRESS` names the cluster; by default that of this machine. Where none runs, Ray is started, and stopped
afterwards. An actor receives its arguments once, from Ray's object store. Every machine of the cluster must have the
same Betimes.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from betimes.errors import BetimesError, InputError
from betimes.processes import HEED_S, Do, portable

GIVEN_BACK_S = 3.0  # within which Ray counts the processors of an actor that has ended as free
REACH_S = 5.0  # until an address takes a connection
LONG_S = 10.0  # until a wait for the first processor is reported


@contextmanager
def joined() -> Iterator[Any]:
    """Ray itself, joined to its cluster, which blocks within this one share. Raises InputError where it cannot be."""
    try:
        ray = import_module("ray")
    except ImportError:
        raise InputError(
            "Ray is not installed; install Betimes with its extra, betimes[ray], or leave --ray out"
        ) from None
    if ray.is_initialized():
        yield ray
        return
    _reach(os.environ.get("RAY_ADDRESS", ""))
    try:
        ray.init(log_to_driver=False, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:  # as versions that differ
        raise InputError(
            f"--ray: {' '.join(str(error).split())}; see RAY_ADDRESS, or leave --ray out"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


class RayWorkers:
    """At most `size` actors (None: no limit), one for each free processor of the cluster.

    To be used in a `with` block, as `Processes`. Their number is printed to standard error. A worker is given tasks
    once it has started, so one whose processor was taken meanwhile holds nothing up. Its messages during a task arrive
    when the task is done.
    """

    def __init__(self, prepare: Callable[..., Do], arguments: Sequence[Any], size: int | None) -> None:
        self.prepare, self.arguments, self.size = prepare, tuple(arguments), size
        self._stack = ExitStack()
        self._ray: Any = None
        self._actors: list[Any] = []
        self._idle: list[Any] = []
        self._at: dict[Any, tuple[Any, int]] = {}  # by answer to come: who is at it, and its serial number
        self._given = 0
        self._say_by = 0.0  # monotonic clock: when to report that no worker has started; infinite: one has

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._stack.close()

    def answers(
        self,
        tasks: Sequence[Any],
        heard: Callable[[int, Any], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Generator[tuple[int, Any]]:
        """The number of each task with its answer, in the order in which they are done. See `Processes.answers`."""
        if not self._actors:
            self._start()
        waiting = deque(enumerate(tasks))
        mine: dict[int, int] = {}
        self._give_out(waiting, mine)
        while waiting or mine:
            if stop is not None and stop():
                return
            ready, _ = self._ray.wait(list(self._at), num_returns=1, timeout=HEED_S)
            self._say_if_late(bool(ready))
            for answer in ready:
                actor, serial = self._at.pop(answer)
                messages, result, error = self._taken(answer)
                self._idle.append(actor)
                task = mine.pop(serial, None)
                if task is not None and heard is not None:
                    for what in messages:
                        heard(task, what)
                if task is not None and error is not None:
                    raise error
                self._give_out(waiting, mine)
                if task is not None:
                    yield task, result

    def _start(self) -> None:
        self._ray = self._stack.enter_context(joined())
        all_cpus = int(self._ray.cluster_resources().get("CPU", 0))
        asked = min(self.size or all_cpus, all_cpus)
        free = self._free(asked)
        count = max(1, min(asked, free))
        why = (
            "as asked for"
            if count == self.size
            else "one for each that is free"
            if free
            else "which waits for one"
        )
        _say(
            f"{count} worker{'s' if count > 1 else ''}, {why}: {all_cpus - free} of {all_cpus} processors are taken"
        )
        arguments = self._ray.put(self.arguments)
        actor = self._ray.remote(_Worker).options(num_cpus=1)
        self._actors = [actor.remote(self.prepare, arguments) for _ in range(count)]
        for number, each in enumerate(self._actors, start=1):
            self._at[each.begin.remote()] = each, -number  # of no task
        self._say_by = time.monotonic() + LONG_S

    def _free(self, asked: int) -> int:
        """The processors that Ray has not given away, once those of our last workers count, or nothing changes."""
        give_up = time.monotonic() + GIVEN_BACK_S
        while True:
            free = int(self._ray.available_resources().get("CPU", 0))
            if free >= asked or time.monotonic() >= give_up:
                return free
            time.sleep(HEED_S)

    def _say_if_late(self, has_begun: bool) -> None:
        if has_begun:
            self._say_by = math.inf
        elif time.monotonic() >= self._say_by:
            _say("no worker has started yet: others have taken the processors, or Ray is slow to start it")
            self._say_by = math.inf

    def _taken(self, answer: Any) -> tuple[list[Any], Any, Exception | None]:
        try:
            return self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            line = str(error).strip().splitlines()[0]
            raise BetimesError(
                f"a worker on the Ray cluster has ended ({line}); see that its machines are up and have memory, or "
                "leave --ray out"
            ) from None

    def _give_out(self, waiting: deque[tuple[int, Any]], mine: dict[int, int]) -> None:
        while waiting and self._idle:
            number, task = waiting.popleft()
            actor = self._idle.pop()
            self._given += 1
            mine[self._given] = number
            self._at[actor.do.remote(task)] = actor, self._given


def _reach(address: str) -> None:
    """See whether anything listens at HOST:PORT, which Ray itself tries for minutes. Raises InputError."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # none, or another way to name a cluster
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        raise InputError(
            f"RAY_ADDRESS {address}: nothing answers there ({error.strerror or error}); start the cluster with "
            "`ray start --head`, or leave --ray out"
        ) from None


def _say(text: str) -> None:
    print(f"betimes: on the Ray cluster: {text}", file=sys.stderr, flush=True)


class _Worker:
    """The actor. Ray gives it the arguments themselves, from its object store."""

    def __init__(self, prepare: Callable[..., Do], arguments: Sequence[Any]) -> None:
        self._prepare, self._arguments = prepare, arguments
        self._do: Do | None = None

    def begin(self) -> tuple[list[Any], Any, Exception | None]:
        """Report the start."""
        return [], None, None

    def do(self, task: Any) -> tuple[list[Any], Any, Exception | None]:
        """The messages, and the answer or the error."""
        messages: list[Any] = []
        try:
            self._do = self._do or self._prepare(*self._arguments)
            return messages, self._do(task, messages.append), None
        except Exception as error:
            return messages, None, portable(error)
