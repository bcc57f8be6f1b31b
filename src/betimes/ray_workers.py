"""What `processes` does, on a Ray cluster or on a Ray of this machine: one actor a processor.

`RAY_ADDRESS` says which cluster; without it Ray starts on this machine, and is stopped again afterwards. An actor is
told once what it works on, from Ray's object store. Every machine of the cluster has to have the same Betimes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from typing import Any

from betimes.errors import BetimesError, InputError
from betimes.processes import HEED_S, Do, portable


class RayWorkers:
    """At most `size` actors, one a processor of the cluster; to be used in a `with` block, as `Processes`.

    What a worker says while it is at a task is heard when the task is done.
    """

    def __init__(self, prepare: Callable[..., Do], arguments: Sequence[Any], size: int | None) -> None:
        self.prepare, self.arguments, self.size = prepare, tuple(arguments), size
        self._ray: Any = None
        self._ours = False  # whether Ray was started here
        self._idle: list[Any] = []
        self._at: dict[Any, tuple[Any, int]] = {}  # by answer to come: who is at it, and its serial number
        self._given = 0

    def __enter__(self) -> RayWorkers:
        try:
            self._ray = import_module("ray")
        except ImportError:
            raise InputError(
                "Ray is not installed; install Betimes with its extra, betimes[ray], or leave --ray out"
            ) from None
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._ray.init(log_to_driver=False, include_dashboard=False)
        cpus = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        size = min(
            self.size or cpus, cpus
        )  # one beyond the processors would wait for ever, and its task with it
        arguments = self._ray.put(self.arguments)
        actor = self._ray.remote(_Worker).options(num_cpus=1)
        self._idle = [actor.remote(self.prepare, arguments) for _ in range(size)]
        return self

    def __exit__(self, *_: object) -> None:
        for actor in [*self._idle, *(actor for actor, _ in self._at.values())]:
            self._ray.kill(actor)
        if self._ours:
            self._ray.shutdown()

    def answers(
        self,
        tasks: Sequence[Any],
        heard: Callable[[int, Any], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Generator[tuple[int, Any]]:
        """The number of each task with its answer, in the order in which they are done. See `Processes.answers`."""
        waiting = deque(enumerate(tasks))
        mine: dict[int, int] = {}
        self._give_out(waiting, mine)
        while mine:
            if stop is not None and stop():
                return
            ready, _ = self._ray.wait(list(self._at), num_returns=1, timeout=HEED_S)
            for answer in ready:
                actor, serial = self._at.pop(answer)
                said, result, error = self._taken(answer)
                self._idle.append(actor)
                task = mine.pop(serial, None)
                if task is not None and heard is not None:
                    for what in said:
                        heard(task, what)
                if task is not None and error is not None:
                    raise error
                self._give_out(waiting, mine)
                if task is not None:
                    yield task, result

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


class _Worker:
    """The actor. Ray gives it the arguments themselves, from its object store."""

    def __init__(self, prepare: Callable[..., Do], arguments: Sequence[Any]) -> None:
        self._do = prepare(*arguments)

    def do(self, task: Any) -> tuple[list[Any], Any, Exception | None]:
        """What was said, and the answer or what was raised."""
        said: list[Any] = []
        try:
            return said, self._do(task, said.append), None
        except Exception as error:
            return said, None, portable(error)
