"""Independent tasks here, in several processes, or on a Ray cluster: the same answers each way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, Self

from betimes.processes import Do, Processes
from betimes.ray_workers import RayWorkers

Heard = Callable[[int, Any], object]
"""Receives a task's number and a message from its worker."""

Stop = Callable[[], bool]
"""Whether no more answers are wanted."""


class Crew(Protocol):
    """A pool of workers, to be used in a `with` block; none is left at its end.

    Workers are started for the first tasks.
    """

    def __enter__(self) -> Self:
        """Take tasks from now on."""
        ...

    def __exit__(self, *error: object) -> None:
        """Stop all workers."""
        ...

    def answers(
        self, tasks: Sequence[Any], heard: Heard | None = None, stop: Stop | None = None
    ) -> Generator[tuple[int, Any]]:
        """The number of each task with its answer, in the order in which they are done; no more once `stop()` is true.

        Raises what a task raises.
        """
        ...


class Here:
    """Does one task after the other in this process, which is prepared for the first."""

    def __init__(self, prepare: Callable[..., Do], arguments: Sequence[Any]) -> None:
        self._prepare, self._arguments = prepare, arguments
        self._do: Do | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to stop."""

    def answers(
        self, tasks: Sequence[Any], heard: Heard | None = None, stop: Stop | None = None
    ) -> Generator[tuple[int, Any]]:
        """See `Crew.answers`."""
        self._do = self._do or self._prepare(*self._arguments)
        for number, task in enumerate(tasks):
            if stop is not None and stop():
                return

            def say(what: Any, number: int = number) -> None:
                if heard is not None:
                    heard(number, what)

            yield number, self._do(task, say)


def crew(
    prepare: Callable[..., Do], arguments: Sequence[Any], processes: int | None = 1, *, ray: bool = False
) -> Crew:
    """Workers that run the function `prepare(*arguments)` returns: here, in N processes, or on Ray.

    processes: how many; None: with `ray` one per processor of the cluster, else this one. Raises InputError if Ray is
    asked for and not installed.
    """
    if ray:
        return RayWorkers(prepare, arguments, processes)
    if processes is None or processes == 1:
        return Here(prepare, arguments)
    return Processes(prepare, arguments, processes)


def in_order(answers: Generator[tuple[int, Any]], count: int) -> list[Any]:
    """All answers, in the order of their tasks."""
    found: list[Any] = [None] * count
    for number, answer in answers:
        found[number] = answer
    return found
