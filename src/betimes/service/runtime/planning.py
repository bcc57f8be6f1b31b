"""Work beside the controller's turns: planners in a thread, and a portfolio's selections from the jobs so far."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from betimes.errors import BetimesError
from betimes.foresight.portfolio.driver import Selector, Settings
from betimes.foresight.portfolio.hindsight import MOST_JOBS as MOST_PAST
from betimes.foresight.portfolio.hindsight import Submitted
from betimes.foresight.portfolio.ledger import Totals
from betimes.foresight.portfolio.objective import Aim
from betimes.kernels import as_array, blank, record_type
from betimes.policies import parse_nodes_policy
from betimes.service.engines.dedicated_machines import known_live
from betimes.service.engines.job_rows import JobRows
from betimes.service.engines.messages import JobRequest
from betimes.service.engines.named_policies import kind_of
from betimes.service.engines.selection import MemberRules, SelectionSnapshot
from betimes.service.runtime.inbox import Inbox
from betimes.service.scheduling.effects import AskPlanner, SelectMember
from betimes.service.scheduling.engine_factory import request_for
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.member_selection import Selection
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.store import Store
from betimes.service.views.models import JobFilter
from betimes.twin.nodes.event_loop import Arrival
from betimes.twin.nodes.planner_rounds import Plan, answer

log = logging.getLogger(__name__)


class Background:
    """Tasks that are not waited for; an error in one is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def go(self, work: Any) -> None:
        """Let something run beside."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._gone)

    async def cancel(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _gone(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": f"beside the controller: {error}", "exception": error}
            task.get_loop().call_exception_handler(context)


A_PAGE = 1000  # events


@dataclass
class _Known:
    """A job; took_s: its run time, null: not finished. row: as made by `JobRows`, null: nothing holds it now."""

    request: JobRequest
    submitted_at: float
    took_s: float | None = None
    row: tuple[Any, ...] | None = None


class PastJobs:
    """The newest jobs, read from the log as it grows, without sets of trials and archived events."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: int | None = None  # the last event that was read; null: none yet
        self._jobs: dict[int, _Known] = {}  # in order of submission
        self._newest = 0
        self._made_by: JobRows | None = None  # the rows
        self._without_row: list[_Known] = []

    def submitted(self, snapshot: SelectionSnapshot, epoch_at: float) -> Submitted:
        """The jobs as known at the time of the snapshot. epoch_at: the instant of 0 s."""
        self._read(epoch_at + snapshot.at_s)
        for number in list(self._jobs)[: max(0, len(self._jobs) - MOST_PAST)]:
            del self._jobs[number]
        made_by = snapshot.job_rows
        if made_by != self._made_by:
            self._made_by = made_by
            self._without_row = list(self._jobs.values())
        for job in self._without_row:
            job.row = _row_of(job, made_by, epoch_at)
        self._without_row = []
        jobs = [job for job in self._jobs.values() if job.row is not None]
        rows = np.array([job.row for job in jobs], record_type(Arrival))
        known_s = [job.request.runtime_estimate_s if job.took_s is None else job.took_s for job in jobs]
        rows["run_s"] = rows["runtime_estimate_s"] = known_s
        return Submitted(rows, self._newest, snapshot.empty)

    def _read(self, until_at: float) -> None:
        """Read the events up to that instant."""
        if self._after is None:
            newest = self._store.jobs(JobFilter(limit=MOST_PAST))
            first_at = min((row["submitted_at"] for row in newest), default=0.0)
            self._after = max(self._store.last_before(first_at), self._store.archived_upto)
        while page := self._store.events(self._after, A_PAGE, kinds=("submitted", "finished")):
            for event in page:
                if event.at_s > until_at:
                    return
                self._after = event.event_id
                self._note(event)

    def _note(self, event: Event) -> None:
        data = event.data
        if event.job is None:
            return
        if event.kind == "finished" and event.job in self._jobs:
            self._jobs[event.job].took_s = data["run_s"]
        elif event.kind == "submitted" and "set_id" not in data and "trials" not in data:
            request = request_for(event.job, JobSpec(**data["spec"]), data["believed_s"], data["user"])
            self._jobs[event.job] = known = _Known(request, event.at_s)
            self._without_row.append(known)
            self._newest = event.job


def _row_of(job: _Known, rows: JobRows, epoch_at: float) -> tuple[Any, ...] | None:
    tasks = rows.split(job.request.asked)
    if not rows.is_held(job.request.asked, tasks):
        return None
    arrival = blank(Arrival, 1)
    rows.fill(arrival[0], job.request, tasks, job.submitted_at - epoch_at)
    return as_array(arrival)[0].item()


class PlannerThread:
    """Answers one question at a time. A planner that never ends does not keep the service from stopping."""

    def __init__(self, inbox: Inbox, background: Background) -> None:
        self._inbox, self._background = inbox, background
        self._one_at_a_time = asyncio.Lock()

    def ask(self, asked: AskPlanner) -> None:
        """Let the thread answer; the answer comes into the inbox."""
        self._background.go(self._ask(asked))

    async def _ask(self, asked: AskPlanner) -> None:
        async with self._one_at_a_time:
            plan = await _in_a_thread(asked)
        if plan.problem is not None:
            log.warning("planner %s has failed", asked.policy, exc_info=plan.error)
        self._inbox.tell("answer of a planner", lambda scheduler: scheduler.planner.take(plan))


async def _in_a_thread(asked: AskPlanner) -> Plan:
    """The answer of a thread that ends with the process at the latest."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Plan] = loop.create_future()

    def tell(plan: Plan) -> None:
        if not answered.done():  # else the service is stopping
            answered.set_result(plan)

    def work() -> None:
        plan = answer(asked.planner, asked.question)
        with suppress(RuntimeError):  # the loop is closed: the service has stopped
            loop.call_soon_threadsafe(tell, plan)

    threading.Thread(target=work, name="planner", daemon=True).start()
    return await answered


MOST_NAMED = 200
"""Jobs that a selection's event names: their results show those of the choice."""


class Selections:
    """Makes one selection at a time; earlier results of the members are remembered from one to the next.

    hold: keeps a virtual clock from jumping while a selection goes on.
    """

    def __init__(
        self,
        inbox: Inbox,
        background: Background,
        hold: Callable[[], AbstractContextManager[None]],
        seed: int,
        store: Store,
    ) -> None:
        self._inbox, self._background, self._hold, self._seed = inbox, background, hold, seed
        self._past = PastJobs(store)
        self._selector: tuple[str, bool, Selector] | None = None  # of a policy, whose users share or do not

    def begin(self, asked: SelectMember) -> None:
        """Let a thread select."""
        holding = self._hold()
        holding.__enter__()  # from now on, and not only once the thread has begun
        self._background.go(self._select(asked, holding))

    async def _select(self, asked: SelectMember, holding: AbstractContextManager[None]) -> None:
        try:
            try:
                selection = await asyncio.to_thread(self._choose, asked)
            except Exception as error:
                # A member may be a user's code; the service goes on under its last choice.
                unforeseen = error if not isinstance(error, BetimesError) else None
                log.warning("a selection of %s has failed: %s", asked.policy, error, exc_info=unforeseen)
                problem = f"the selection has failed: {type(error).__name__}: {error}"
                selection = Selection(asked.policy, asked.snapshot.at_s, problem=problem)
            self._inbox.tell("selection", lambda scheduler: scheduler.selection.take(selection))
        finally:
            holding.__exit__(None, None, None)

    def _choose(self, asked: SelectMember) -> Selection:
        snapshot, record = asked.snapshot, asked.record
        begun_s = time.perf_counter()
        selector = self._selector_of(asked.policy, shared=len(snapshot.state.users) > 0)
        so_far = Totals(record.jobs, record.job_s, record.machine_s, record.slowdown)
        submitted = self._past.submitted(snapshot, asked.epoch_at) if selector.expects_more else None
        lookahead = selector.lookahead(snapshot, snapshot.rounds)
        choice = selector.choose(lookahead, snapshot.at_s, len(snapshot.waits), so_far, submitted)
        expected = choice.foreseen[choice.name]
        return Selection(
            asked.policy,
            snapshot.at_s,
            MemberRules(choice.name, selector.rules[choice.member], selector.params[choice.member]),
            data={
                "shadow": selector.is_shadow,
                "waiting": choice.waiting,
                "jobs": [list(one) for one in snapshot.waits[:MOST_NAMED]],
                "score": choice.scores[choice.name],
                "slowdown": expected.slowdown,
                "machine_s": expected.machine_s,
                "scores": {
                    name: None if math.isnan(score) else score for name, score in choice.scores.items()
                },
                "smallest_wins": selector.smallest_wins,
                "took_s": time.perf_counter() - begun_s,
            },
        )

    def _selector_of(self, policy: str, *, shared: bool) -> Selector:
        if self._selector is None or self._selector[:2] != (policy, shared):
            chosen = parse_nodes_policy(kind_of(policy)[1])
            assert chosen.policy.members is not None, "only a portfolio selects"
            members = [known_live(each) for each in chosen.policy.members(chosen.values)]
            settings = Settings.of(chosen)
            aim = None if settings.objective is None else Aim(settings.objective, alone=True)
            self._selector = (
                policy,
                shared,
                Selector(policy, members, settings, log.warning, seed=self._seed, shared=shared, aim=aim),
            )
        return self._selector[2]
