"""Evaluations on a Ray cluster, or on the machine that Ray finds itself on: one actor a processor.

An actor is given the workload once, from Ray's object store. `RAY_ADDRESS` says which cluster; without it Ray starts
on this machine, and is stopped again afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from importlib import import_module
from typing import Any

from betimes.errors import InputError
from betimes.foresight.objectives import Values
from betimes.foresight.tuning.evaluators import Evaluators, Stop, Task
from betimes.foresight.tuning.problem import Problem
from betimes.processes import HEED_S


class RayActors:
    """`size` actors (None: one a processor of the cluster), to be used in a `with` block; as `processes.Processes`."""

    def __init__(self, problems: Mapping[str, Problem], size: int | None) -> None:
        self._problems, self._size = problems, size
        self._ray: Any = None
        self._ours = False  # whether Ray was started here
        self._idle: list[Any] = []
        self._at: dict[Any, tuple[Any, int]] = {}  # by answer to come: who is at it, and its serial number
        self._given = 0

    def __enter__(self) -> RayActors:
        try:
            self._ray = import_module("ray")
        except ImportError:
            raise InputError(
                "Ray is not installed; install Betimes with its extra, betimes[ray], or leave --ray out"
            ) from None
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._ray.init(log_to_driver=False, include_dashboard=False)
        size = self._size or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        problems = self._ray.put(dict(self._problems))
        actor = self._ray.remote(Evaluators).options(num_cpus=1)
        self._idle = [actor.remote(problems) for _ in range(size)]
        return self

    def __exit__(self, *_: object) -> None:
        for actor in [*self._idle, *(actor for actor, _ in self._at.values())]:
            self._ray.kill(actor)
        if self._ours:
            self._ray.shutdown()

    def answers(
        self, tasks: Sequence[Task], *, stop: Stop | None = None
    ) -> Generator[tuple[int, Values | None]]:
        """The number of each task with its values, in the order in which they are done."""
        waiting = deque(enumerate(tasks))
        mine: dict[int, int] = {}
        self._give_out(waiting, mine)
        while mine:
            if stop is not None and stop():
                return
            ready, _ = self._ray.wait(list(self._at), num_returns=1, timeout=HEED_S)
            for answer in ready:
                actor, serial = self._at.pop(answer)
                self._idle.append(actor)
                task = mine.pop(serial, None)
                self._give_out(waiting, mine)
                if task is not None:
                    yield task, self._ray.get(answer)

    def _give_out(self, waiting: deque[tuple[int, Task]], mine: dict[int, int]) -> None:
        while waiting and self._idle:
            number, task = waiting.popleft()
            actor = self._idle.pop()
            self._given += 1
            mine[self._given] = number
            self._at[actor.values.remote(task)] = actor, self._given
