"""Inputs for the controller's next turns, in order, and the answers to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from betimes.service.scheduling.events import Ended, Report, RunId, Started
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.views.models import Quote, QuoteOption

T = TypeVar("T")
Request = Callable[[Scheduler], T]
"""Work on the state, carried out in a turn; raises the error of a refusal, before it has changed anything."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IdempotencyKey:
    """A repeated submission under this key of a user gets the first answer again."""

    user: str
    key: str
    asked: list[dict[str, Any]]  # the jobs, so that the key is not used for others

    def answer(self, numbers: list[list[int]]) -> dict[str, Any]:
        """The first answer, as the store keeps it."""
        return {"asked": self.asked, "job_ids": numbers}


@dataclass
class Newcomers:
    """The jobs of a submission, to be promised an end by the turn that takes them, so that both are one commit."""

    options: list[QuoteOption] = field(default_factory=list[QuoteOption])  # at the submission
    numbers: list[int] = field(default_factory=list[int])  # once accepted
    quotes: list[Quote] | None = None  # null: a later turn must promise them an end


@dataclass
class Input:
    """Work for a turn, and what it is for messages; done: what waits for its result, null: nothing does."""

    what: str
    request: Request[Any]
    done: asyncio.Future[Any] | None = None
    key: IdempotencyKey | None = None
    newcomers: Newcomers | None = None  # of a submission
    report: Report | None = None  # that it takes
    run: RunId | None = None  # that it is about
    jobs: Sequence[int] = ()  # that it names; it waits until arrays of these are taken whole

    @classmethod
    def of_report(cls, report: Report) -> Input:
        """An executor's report."""
        what = f"report {type(report).__name__.lower()} of run {report.run.job}.{report.run.number}"
        return cls(what, lambda scheduler: scheduler.reports.take(report), report=report, run=report.run)

    @property
    def key_of_report(self) -> tuple[str, RunId] | None:
        """The kind and the run of a report; null: it is none."""
        return None if self.report is None else (type(self.report).__name__, self.report.run)

    @property
    def ended_run(self) -> RunId | None:
        """The run whose end it reports; null: it is no such report."""
        key = self.key_of_report
        return key[1] if key is not None and key[0] == Ended.__name__ else None

    def answer(self, result: Any) -> None:
        """Set the result, or the exception, of the request that waits; a second one is dropped."""
        if self.done is None or self.done.done():
            if isinstance(result, BaseException) and self.done is None:
                log.warning("not done: %s", result)
            return
        if isinstance(result, BaseException):
            self.done.set_exception(result)
        else:
            self.done.set_result(result)


class Inbox:
    """Inputs in order of arrival; `woken` is set whenever the controller has to look."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.woken = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self.inputs)

    def put(self, one: Input) -> None:
        """Add one for the next turn."""
        self.inputs.append(one)
        self.woken.set()

    def tell(self, what: str, request: Request[Any]) -> None:
        """Have something done, without an answer; what: for messages."""
        self.put(Input(what, request))

    async def ask(
        self,
        what: str,
        request: Request[T],
        key: IdempotencyKey | None,
        newcomers: Newcomers | None,
        jobs: Sequence[int],
    ) -> T:
        """The result of a request. Raises the error of a refusal."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(Input(what, request, done, key, newcomers, jobs=jobs))
        return await done

    def hear(self, report: Report) -> None:
        """An executor's report."""
        self.put(Input.of_report(report))

    def take(self, most: int, waits: Callable[[Input], bool] = lambda _: False) -> list[Input]:
        """The first inputs, at most so many, without those that wait."""
        taken = list(islice((one for one in self.inputs if not waits(one)), most))
        gone = set(map(id, taken))
        self.inputs = [one for one in self.inputs if id(one) not in gone]
        return taken


class Broken(Exception):
    """A request was carried out in part, or not at all, for an unknown reason: the state cannot be trusted."""

    def __init__(self, one: Input, error: Exception) -> None:
        super().__init__(str(error))
        self.one, self.error = one, error


def in_order(report: Report) -> tuple[bool, RunId]:
    """Starts first; then ends, those of earlier jobs first."""
    return not isinstance(report, Started), report.run
