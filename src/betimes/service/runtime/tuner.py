"""Tuning beside the service: one search at a time, the front that it brought, and searching again unasked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from betimes.cluster import Cluster, NodeGroup
from betimes.errors import BetimesError, Conflict, InputError, PolicyError, Refused
from betimes.foresight.engines import POOL
from betimes.foresight.tuning import BASELINES, Front, parse_objectives, parts
from betimes.service.engines.named_policies import kind_of
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.engine_factory import pool_units
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.node import UP
from betimes.service.tuning.drift import Range, drifted
from betimes.service.tuning.kept import FILE, PREFIX, Tuned, reported
from betimes.service.tuning.process import Order, SearchFor, search_in_process
from betimes.service.tuning.recent import Recent, recent
from betimes.service.tuning.retune import Retune, Watch, broken, propose
from betimes.service.tuning.view import SearchView, TuningView
from betimes.service.views.models import Proposal, Reason, TuneSpec

FEW_JOBS = 100  # a front on fewer fits past jobs, and not coming ones

log = logging.getLogger(__name__)


@dataclass
class _Search:
    """A search that is going on."""

    order: Order
    range: Range
    policy: str  # in force when it began
    event: int  # `tuning`
    retuned: bool  # it was begun by the service, not by a user
    view: SearchView
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Future[None] | None = None


class LiveTuner:
    """Searches on the recent workload of a controller's jobs and its cluster, as a pool policy sees it.

    folder: the state directory, where the latest front is kept. retune: when to search unasked; null: never.
    """

    def __init__(
        self,
        controller: Controller,
        folder: Path,
        retune: Retune | None = None,
        search: SearchFor = search_in_process,
    ) -> None:
        self.controller, self.path, self.retune, self.search = controller, folder / FILE, retune, search
        self.tuned: Tuned | None = None
        try:
            self.tuned = Tuned.read(self.path)
        except InputError as error:
            log.warning("%s; there is no front until another is searched for", error)
        self.going: _Search | None = None
        self.problem: str | None = None
        self.beginning = asyncio.Lock()
        self.watch: Watch | None = None
        if retune is not None:
            ledger = controller.scheduler.ledger
            begun_at = self.tuned.at if self.tuned is not None else controller.clock.now_s()
            self.watch = Watch(retune, begun_at, list(ledger.jobs.values()))
            self._look_at_as_many()
            controller.listeners.append(self._heed)

    # --- requests -----------------------------------------------------------------------------------------------

    async def start(self, spec: TuneSpec, user: str) -> TuningView:
        """Begin a search, in place of a running one. Raises Conflict, Refused."""
        reason = Reason(code="asked", text=f"asked for by {user}")
        await self._begin(spec, reason, f"user:{user}")
        return self.view()

    def stop(self) -> TuningView:
        """Let the search end with the front so far; it takes a moment. Raises Conflict where none is going on."""
        if self.going is None:
            raise Conflict("no search is going on; `betimes tune --live` begins one")
        self.going.stop.set()
        self.going.view = self.going.view.model_copy(update={"stopping": True})
        return self.view()

    def view(self) -> TuningView:
        """Its progress, and the latest front."""
        search = self.going.view if self.going is not None else None
        tuned = self.tuned
        if tuned is None:
            return TuningView(search=search, problem=self.problem)
        return TuningView(
            search=search,
            problem=self.problem,
            at=tuned.at,
            reason=tuned.reason,
            front=tuned.front,
            in_force=tuned.measured(self._in_force()),
        )

    def proposal(self) -> Proposal | None:
        """The result of an unasked search, as long as it is news."""
        return self.tuned.proposal(self._in_force()) if self.tuned is not None else None

    def in_use(self) -> Proposal | None:
        """The point of the latest front that is in force, beside the policy before."""
        return self.tuned.chosen(self._in_force()) if self.tuned is not None else None

    def chosen(self, text: str) -> tuple[str, dict[str, Any]]:
        """The policy that `front:3` means, and its origin for the log. Raises PolicyError."""
        if self.tuned is None:
            raise PolicyError(f"{text}: there is no front yet; `betimes tune --live` searches for one")
        point = self.tuned.point(text)
        said = {"point": point.number, "names": list(point.names), "event": self.tuned.event}
        return point.policy, said

    # --- a search -----------------------------------------------------------------------------------------------

    async def _begin(self, spec: TuneSpec, reason: Reason, cause: str, *, retuned: bool = False) -> None:
        async with self.beginning:
            policy = self._in_force()
            order, of = await self._ordered(spec, policy)
            await self._give_up()
            jobs = len(order.recent.workload)
            said = {"reason": reason.model_dump(), "objectives": spec.objectives, "jobs": jobs}
            number = await self._note("tuning", cause, said)
            begun_at = self.controller.scheduler.now_at
            view = SearchView(
                spec=spec, reason=reason, begun_at=begun_at, of=spec.evaluations, note=_note(order)
            )
            self.going = going = _Search(order, of, policy, number, retuned, view)
            self.problem = None
            if self.watch is not None:
                self.watch.begins(begun_at)
            going.task = asyncio.ensure_future(self._carry_out(going))
            self.controller.background.go(going.task)

    async def _ordered(self, spec: TuneSpec, policy: str) -> tuple[Order, Range]:
        """Everything that a search needs. Raises Conflict, Refused."""
        try:
            parse_objectives(spec.objectives)
        except InputError as error:
            raise Refused(str(error), "objectives") from None
        cluster, units = self._cluster()
        found = await self._recent(2 * spec.jobs)
        _check_sizes(found, spec)
        scheduler = self.controller.scheduler
        settings = scheduler.settings
        baselines = (policy, *(each for each in BASELINES if each != policy))
        order = Order(
            spec, found, cluster, scheduler.restart_s, settings.resize_interval_s, settings.resize_gain, baselines
        )  # fmt: skip
        return order, Range.of(found, units)

    def _cluster(self) -> tuple[Cluster, int]:
        """The nodes that take work, and how many units a pool policy sees in them. Raises Conflict."""
        ledger = self.controller.scheduler.ledger
        if kind_of(ledger.policy)[0] != POOL:
            raise Conflict(
                f"the policy in force, {ledger.policy}, is for nodes, and what is tuned is wfq, for a pool; put "
                "one for a pool in force first: `betimes policy set pool:fifo`"
            )
        ups = [node.machine for node in ledger.nodes.values() if node.status == UP]
        if not ups:
            raise Conflict("no node is up, so there is nothing to tune for; `betimes nodes` lists them")
        groups = (NodeGroup(each.type, 1, each.gpu, each.cpu, each.memory_gib) for each in ups)
        return Cluster("the cluster", tuple(groups)), self._units()

    def _units(self) -> int:
        return max(1, pool_units(self.controller.scheduler.ledger.nodes, ()))

    async def _recent(self, most: int) -> Recent:
        jobs = self.controller.scheduler.ledger.jobs.values()
        working = {job.job_id: job.account.size_s for job in jobs if job.account is not None}
        return await asyncio.to_thread(recent, self.controller.store, most, working)

    async def _give_up(self) -> None:
        """Another search takes the place of the one that is going on."""
        going = self.going
        if going is None or going.task is None:
            return
        going.task.cancel()
        await asyncio.gather(going.task, return_exceptions=True)
        if going.task.cancelled():
            await self._failed(going, "another search has taken its place")

    async def _carry_out(self, going: _Search) -> None:
        def report(progress: dict[str, Any]) -> None:
            going.view = going.view.model_copy(update=progress)

        try:
            front = await self.search(going.order, report, going.stop)
            await self._found(going, front)
        except (BetimesError, OSError) as error:
            self.problem = str(error)
            await self._failed(going, self.problem)
        finally:
            if self.going is going:
                self.going = None

    async def _failed(self, going: _Search, problem: str) -> None:
        await self._note("not-tuned", f"event:{going.event}", {"problem": problem})

    async def _found(self, going: _Search, front: Front) -> None:
        """Keep the front, log it, and act on it as far as that is allowed."""
        bounds = self.retune.bounds if self.retune is not None else ()
        said: dict[str, Any] = {
            "points": len(front),
            "evaluations": front.evaluations,
            "ended": front.ended,
            "hypervolume": front.hypervolume,
        }
        point = why = None
        if going.retuned:
            point = propose(front, self.tuned, going.policy, bounds)
            why = self._not_applied(going, front, point.number)
            said |= {"proposed": point.number, "names": list(point.names), "not_applied": why}
        number = await self._note("tuned", f"event:{going.event}", said)
        self.tuned = tuned = Tuned(
            at=self.controller.scheduler.now_at,
            event=number,
            spec=going.order.spec,
            reason=going.view.reason,
            policy=going.policy,
            range=going.range,
            front=front,
            proposed=point.number if point is not None else None,
            not_applied=why,
        )
        self._look_at_as_many()
        await asyncio.to_thread(tuned.write, self.path)
        if point is not None and why is None:
            await self.set_policy(f"{PREFIX}{point.number}", cause=f"event:{number}")

    def _not_applied(self, going: _Search, front: Front, number: int) -> str | None:
        """Why a point is not put in force by itself; null: it is."""
        bounds = self.retune.bounds if self.retune is not None else ()
        point = front[number]
        if not bounds:
            return "nothing is put in force unasked (`betimes up --retune-apply` allows it)"
        if point.policy == going.policy:
            return "it is in force already"
        if self._in_force() != going.policy:
            return "another policy has been put in force meanwhile"
        in_force = reported(next((each for each in front.baselines if each.policy == going.policy), None))
        return broken(bounds, point, in_force)

    async def set_policy(self, text: str, user: str = "operator", cause: str | None = None) -> None:
        """Put a policy in force, which may be a point of the front. Raises PolicyError, Conflict."""
        front = None
        if text.startswith(PREFIX):
            text, front = self.chosen(text)
        await self.controller.compile(text)
        await self.controller.ask(
            f"change of the policy by {user}",
            lambda scheduler: scheduler.policy.set_policy(text, user, front, cause),
        )

    async def _note(self, kind: str, cause: str, said: Mapping[str, Any]) -> int:
        """Log that a search has begun or ended; the event's number."""
        return await self.controller.ask(
            f"note of a search: {kind}", lambda scheduler: scheduler.note_tuning(kind, cause, **said)
        )

    def _in_force(self) -> str:
        """The policy in force, by its name in a pool's twin; one for nodes has no such name."""
        kind, policy = kind_of(self.controller.scheduler.ledger.policy)
        return policy if kind == POOL else f"{kind}:{policy}"

    # --- unasked ------------------------------------------------------------------------------------------------

    def _heed(self, events: Sequence[Event]) -> None:
        """After events: search, or test for drift."""
        watch = self.watch
        if watch is None:
            return
        for event in events:
            reason = watch.heed(event)
            if reason is not None and self.going is None and not self.beginning.locked():
                cause = "timer" if reason.code == "interval" else f"event:{event.event_id}"
                self.controller.background.go(self._retune(reason, cause))
                return
        if watch.wants_look and self.going is None:
            watch.looked()
            self.controller.background.go(self._look(f"event:{events[-1].event_id}"))

    async def _look(self, cause: str) -> None:
        """Search if the new jobs are not like those tuned on, or nothing has been tuned yet."""
        watch, tuned = self.watch, self.tuned
        if watch is None:
            return
        many = watch.looks_at
        reason: Reason | None = Reason(code="first", text=f"there are {many} jobs, and no front yet")
        if tuned is not None:
            found = await self._recent(many)
            reason = drifted(tuned.range, Range.of(found, self._units()))
        if reason is not None and self.going is None:
            await self._retune(reason, cause)

    async def _retune(self, reason: Reason, cause: str) -> None:
        assert self.retune is not None
        if self.watch is not None:
            self.watch.begins(self.controller.scheduler.now_at)  # no repeat for the same reason, if it fails
        try:
            await self._begin(self.retune.spec, reason, cause, retuned=True)
        except InputError as error:
            log.warning("not tuned again: %s", error)
            self.problem = str(error)

    def _look_at_as_many(self) -> None:
        if self.watch is not None and self.tuned is not None:
            self.watch.looks_at = self.tuned.range.looks_at


def _note(order: Order) -> str | None:
    """A warning about a front on few jobs."""
    jobs = len(order.recent.workload)
    if jobs >= FEW_JOBS:
        return None
    return (
        f"only {jobs} job{'' if jobs == 1 else 's'} that ran, or may run yet, {'is' if jobs == 1 else 'are'} there to "
        f"search on; a front on fewer than {FEW_JOBS} says little of the next ones"
    )


def _check_sizes(found: Recent, spec: TuneSpec) -> None:
    """Raise Conflict if all jobs to search on are of one size: no classes can be made of them."""
    train, _ = parts(found.workload, spec.jobs, spec.seed)
    sizes = found.known_work_s(spec.sizes)[np.isin(found.workload.job_id, train.job_id)]
    if float(np.ptp(sizes)) == 0.0:
        known = (
            "submit with --estimate, or search with --sizes true"
            if spec.sizes == "estimate"
            else "wait for others"
        )
        raise Conflict(
            f"the {len(train):,} jobs to search on, {train.job_id[0]} to {train.job_id[-1]}, are all of one size "
            f"({sizes[0]:g} s on one unit), so that no classes can be made of them; {known}"
        )
