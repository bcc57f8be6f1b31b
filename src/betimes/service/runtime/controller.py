"""The one task that owns the service's state: it gathers inputs, decides, stores, and only then acts.

If the store cannot be written, the turn is void: the state is read back, and requests are refused.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from betimes.errors import (
    Conflict,
    InputError,
    PolicyViolation,
    ServiceError,
    StoreError,
    StoreInUse,
    StoreLocked,
    StoreRefused,
    StoreUnreachable,
    Unavailable,
)
from betimes.service.compiling.kernels import Kernels
from betimes.service.machines.machine import HERE
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.runtime.effect_runner import RETRY_S, EffectRunner
from betimes.service.runtime.faults import Fault, SetAside
from betimes.service.runtime.heartbeats import Heartbeats
from betimes.service.runtime.inbox import Broken, IdempotencyKey, Inbox, Input, Newcomers, Request, in_order
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.planning import Background, PlannerThread, Selections
from betimes.service.runtime.rentals import Rentals
from betimes.service.runtime.replay import Source
from betimes.service.runtime.requests import expire_lease
from betimes.service.runtime.retention import keep_snapshot
from betimes.service.scheduling.effects import Effect, StartRun
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended, Event, RunId
from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import LOST, NODE, Node
from betimes.service.scheduling.policy_engine import IsCompiled
from betimes.service.scheduling.scheduler import POLICY, Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.batch import Batch
from betimes.service.store.store import Store
from betimes.service.views.models import Lease
from betimes.units import length

if TYPE_CHECKING:
    from betimes.service.runtime.metrics import Metrics

T = TypeVar("T")
Results = list[tuple[Input, Any]]
"""Inputs of a turn, and the result or the error of each."""

MOST_A_TURN = 500  # inputs that one turn takes: more would keep the first of them waiting
BETWEEN_SLICES_S = 0.005  # of an array, or of promises: a request needs several rounds of the event loop
EVENTS_A_SNAPSHOT = 20_000
LEASE_S = 30.0
LATE_S = 1.0  # by which a turn on the machine's clock may be later than the virtual events that are due in it
MOST_FAILURES = 3  # of turns in a row, for an unknown reason

log = logging.getLogger(__name__)


@dataclass
class Turn:
    """The results of one turn."""

    batch: Batch
    effects: list[Effect]


class Controller:
    """Owns the scheduler, with which everything else asks it to do something.

    `effects` carries out the decisions of a turn.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock | VirtualClock,
        launches: Launches,
        settings: Settings,
        default_run_s: float,
        lease_s: float = LEASE_S,
        kernels: Kernels | None = None,  # null: policies are compiled where they are first called
        rentals: Rentals | None = None,  # null: nothing can be rented
    ) -> None:
        self.store, self.default_run_s, self.kernels = store, default_run_s, kernels
        self.settings = settings
        if rentals is not None:
            limits = [each for each in (rentals.quota, settings.fleet.most_machines) if each is not None]
            self.settings = replace(settings, offers=rentals.offers, quota=min(limits, default=None))
        self.clock, self.launches, self.rentals = clock, launches, rentals
        self.scheduler = self._scheduler(Ledger(default_run_s))
        self.inbox, self.background = Inbox(), Background()
        self.effects = EffectRunner(
            self.inbox,
            self.background,
            launches,
            rentals,
            lambda: self.clock.now_s(),  # noqa: PLW0108 (which clock it is may be known only after `recover`)
            Selections(self.inbox, self.background, lambda: self.clock.hold(), settings.seed, store),  # noqa: PLW0108 (likewise)
            PlannerThread(self.inbox, self.background),
        )
        self.leases = Heartbeats(lease_s)
        self.source: Source | None = None
        self.taken: list[Input] = []  # out of the inbox by the present turn
        self.listeners: list[Callable[[list[Event]], None]] = []  # receive events once they are stored
        self.promise: Callable[[Sequence[Newcomers]], Awaitable[None]] | None = None  # of those of a turn
        self.stopping = False
        self.at_rest = asyncio.Event()  # set while everything due by now is done, and `run` waits
        self.metrics: Metrics | None = None  # null: nothing is measured
        self.sends_mail = False
        self.problem: str | None = None
        self.notes: Callable[[], list[str]] = list  # what a reader should know, besides
        self.failures = 0  # of turns, in a row, for an unknown reason
        self.set_aside = SetAside()
        self.alone = 0  # so many turns take one input each, to find the one that cannot be carried out
        self.recovery_s, self.replayed = 0.0, 0
        self.snapshot_at = 0
        self.taking_over = False  # once the policy in force is compiled
        self.fault: Exception | None = None  # why it cannot be

    # --- starting and stopping ----------------------------------------------------------------------------------

    def recover(self) -> bool:
        """Read the state back from the store; returns whether there is any."""
        snapshot = self.store.latest_snapshot()
        body, after = (snapshot.body, snapshot.event_id) if snapshot is not None else (None, 0)
        ledger = recovered(body, self.store.each_event(after), self.default_run_s)
        for row in self.store.live_jobs():  # not every step of progress is in the log
            if row["progress_frac"] is not None and row["job_id"] in ledger.jobs:
                ledger.jobs[row["job_id"]].progress_frac = row["progress_frac"]
        self.replayed, self.snapshot_at = ledger.next_event - 1 - after, after
        # Forecasts from a void turn are out of date.
        self.scheduler = self._scheduler(ledger, self.scheduler.version + 1)
        if self.rentals is not None:
            self.rentals.resume(ledger)
        return ledger.next_event > 1

    def resume(self) -> None:
        """After `recover`: go on from now. Steps that raise errors are left out; raises errors of all else."""
        while True:
            self.scheduler.leave_out(self.set_aside.steps)
            try:
                self.scheduler.begin(self.clock.now_s())
                self.scheduler.recover()
            except Exception as error:
                fault = self._fault_of(error, error)
                if fault is None or fault.step is None:
                    raise
                log.error("%s", fault.text, exc_info=error)
                self.set_aside.add(fault)
                self.recover()
            else:
                if self.scheduler.ledger.policy in self.set_aside.policies:
                    self.scheduler.policy.set_policy("fifo", "operator")
                return

    async def run(self) -> None:
        """Turn after turn, until `stop`."""
        # No heartbeat could arrive until now: leases of watched nodes begin here.
        for name, node in self.scheduler.ledger.nodes.items():
            if node.watched and node.is_there:
                self.leases.beat(name, self.clock.now_s())
        try:
            await self._store_start()
            if self.scheduler.has_entering:  # the service was stopped before its policy was compiled
                await self._turn_once()
            while not self.stopping or self.inbox:
                self._see_to_kernels()
                await self._wait()
                await self._turn_once()
        finally:
            self.stopping = True
            for one in (*self.taken, *self.inbox.inputs):
                one.answer(Unavailable("the service is stopping; try again in a moment"))
            self.inbox.inputs = []
            await self.background.cancel()

    async def _store_start(self) -> None:
        """Commit what a new service begins with: the same batch until the store takes it."""
        if self.store.last_event_id():
            return
        batch = self.turn_of([]).batch
        while not self.stopping and not self.store.last_event_id():
            try:
                await self._commit(batch)
            except (StoreLocked, StoreUnreachable) as error:
                self._note_problem(error)
                await asyncio.sleep(RETRY_S)
            else:
                self.problem = None

    def _note_problem(self, error: StoreError) -> None:
        """Note the problem that `/readyz` shows until a commit succeeds."""
        self.problem = str(error)
        if self.metrics is not None:
            self.metrics.store_errors.labels(type(error).__name__).inc()

    async def stop(self) -> None:
        """Take no more inputs, store the rest, and let executors go; runs go on."""
        self.stopping = True
        self.inbox.woken.set()

    async def compile(self, policy: str) -> None:
        """Return when a policy can be put in force; all goes on meanwhile. Raises as `Kernels.compile`."""
        if self.kernels is not None:
            await self.kernels.compile(policy)

    async def beat(self, name: str) -> Lease:
        """A heartbeat of a node: the next one must come within its lease. A lost node is up again.

        Only the first heartbeat, and that of a lost node, are stored. Raises Unknown; Conflict for this machine, which
        lives as long as the service does.
        """
        node = self.scheduler.nodes.node(name)
        if node.machine.kind in HERE:
            raise Conflict(f"node {name} is on the service's own machine, which needs no sign of life")
        if not node.watched or node.status == LOST:
            await self.ask(f"heartbeat of node {name}", lambda scheduler: scheduler.nodes.heard(name))
        now_at = self.clock.now_s()
        self.scheduler.nodes.node(name).last_seen_at = now_at
        self.leases.beat(name, now_at)
        self.inbox.woken.set()  # an earlier end may be due
        return Lease(node=name, lease_s=self.leases.lease_s, until_at=now_at + self.leases.lease_s)

    # --- inputs -------------------------------------------------------------------------------------------------

    async def ask(
        self,
        what: str,
        request: Request[T],
        key: IdempotencyKey | None = None,
        newcomers: Newcomers | None = None,
        jobs: Sequence[int] = (),
    ) -> T:
        """The result of a request, once it is stored. Raises the error of a refusal; Unavailable.

        request: a function of the scheduler, carried out in a turn, and once more where that turn could not be stored;
        it raises a refusal before it changes anything. what: names it where it cannot be carried out. key: under which
        the store keeps the answer; newcomers: a submission's jobs, which its turn promises an end; jobs: that it names;
        it waits until arrays of these are taken whole.
        """
        if self.stopping:
            raise Unavailable("the service is stopping; try again in a moment")
        if self.problem is not None:
            raise Unavailable(self.problem)
        return await self.inbox.ask(what, request, key, newcomers, jobs)

    async def until_there(self, numbers: Sequence[int]) -> None:
        """Return once the arrays of these jobs are taken whole. Raises Unavailable."""
        await self.ask("wait for the elements of an array", lambda _: None, jobs=numbers)

    async def adopt(self) -> None:
        """After a start: the executors take up the runs that went on."""
        await self.effects.adopt(self.scheduler)

    # --- compiling ------------------------------------------------------------------------------------------------

    def _see_to_kernels(self) -> None:
        """Compile the policy in force if it is not: nothing is decided meanwhile. Raises errors of that."""
        if self.fault is not None:
            raise self.fault
        if self.scheduler.stands_by and not self.taking_over:
            self.taking_over = True
            self.background.go(self._take_over(self.scheduler.ledger.policy))

    async def _take_over(self, policy: str) -> None:
        """Let the policy in force decide as soon as it is compiled."""
        try:
            with self.clock.hold():
                await self.compile(policy)
                self.inbox.tell("take-over by the policy", lambda scheduler: scheduler.policy.take_over())
        except Unavailable:
            return  # the service is stopping
        except Exception as error:
            self.fault = error
        self.taking_over = False
        self.inbox.woken.set()

    # --- a turn -------------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait until the inbox has an input, or something is due."""
        if self.scheduler.arrays.coming and not self.stopping:
            await asyncio.sleep(BETWEEN_SLICES_S)
        if self.inbox or self.stopping:
            await asyncio.sleep(0)
            return
        due_at = self.next_due_at()
        if due_at <= self.clock.now_s():
            await asyncio.sleep(0)
            return
        self.inbox.woken.clear()
        self.at_rest.set()
        try:
            await self.clock.wait_for(self.inbox.woken, due_at)
        finally:
            self.at_rest.clear()

    def next_due_at(self) -> float:
        """The instant of the next event due by itself: a policy's timer, a virtual run's end, a replayed submission."""
        due = [self.scheduler.next_timer_at(), *(world.next_at() for world in self.effects.worlds)]
        due.append(self.leases.next_expiry_s())
        due.append(self.rentals.next_at() if self.rentals is not None else math.inf)
        return min([*due, self.source.next_at() if self.source is not None else math.inf])

    def _instant(self) -> float:
        """The time of this turn: virtual events happen when they are due, however late the turn is.

        But not what a clock has jumped over: a request of now would be recorded, and promised an end, as of then.
        """
        now_at = self.clock.now_s()
        if not self.effects.worlds:
            return now_at
        due_at = min(now_at, self.next_due_at())
        is_late = due_at < now_at - LATE_S and not isinstance(self.clock, VirtualClock)
        return now_at if is_late else due_at

    async def _turn_once(self) -> None:
        began_s = time.perf_counter()
        try:
            results = self._decide(1 if self.alone else MOST_A_TURN)
            await self._promise_newcomers(results)
            turn = self.turn_of(results)
            if turn.batch.events or turn.batch.jobs or turn.batch.nodes or turn.batch.meta:
                await self._commit(turn.batch)
        except Exception as error:
            await self._take_back(error)
            return
        self.taken, self.failures, self.alone = [], 0, max(0, self.alone - 1)
        self.set_aside.new.clear()
        for waiting, result in results:
            waiting.answer(result)
        if self.metrics is not None:
            self.metrics.turn.observe(time.perf_counter() - began_s)
        await self._carry_out(turn.effects)
        if turn.batch.events:
            for listener in self.listeners:
                listener(turn.batch.events)
            if turn.batch.events[-1].event_id - self.snapshot_at >= EVENTS_A_SNAPSHOT:
                self.snapshot_at = turn.batch.events[-1].event_id
                snapshot = asyncio.to_thread(keep_snapshot, self.store, self.snapshot_at, self.default_run_s)
                self.background.go(snapshot)

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Carry out a turn's effects; a run that cannot be handed to its executor has failed to start."""
        for effect in effects:
            try:
                await self.effects.carry_out(effect, self.scheduler)
            except Exception as error:
                fault = Fault.of_effect(effect, error)
                log.error("%s", fault.text, exc_info=error)
                self.inbox.tell(f"note of a fault: {fault.what}", fault.note)
                if isinstance(effect, StartRun):
                    message = f"the service could not start it ({type(error).__name__}); its log shows how"
                    self.inbox.hear(
                        Ended(effect.run, self.scheduler.now_at, None, why="start-failed", message=message)
                    )

    async def _commit(self, batch: Batch) -> None:
        """Store a batch; meanwhile requests are read, and a virtual clock stands still."""
        began_s = time.perf_counter()
        if self.store.is_in_memory:
            self.store.commit(batch)
        else:
            with self.clock.hold():
                await asyncio.to_thread(self.store.commit, batch)
        if self.metrics is not None:
            self.metrics.commit.observe(time.perf_counter() - began_s)

    def _decide(self, most: int) -> Results:
        """Everything in memory: inputs, at most so many of those that wait, and then the policy."""
        scheduler = self.scheduler
        asked = self.inbox.take(MOST_A_TURN, self._waits_for_elements)
        self._heed_jumps()
        now_at = max(scheduler.now_at, self._instant())
        self.taken = [*self._due(now_at), *asked]
        if self.source is not None:
            self.taken += [_submission(spec, user) for spec, user in self.source.take(now_at)]
        if most < MOST_A_TURN:
            self.inbox.inputs = [*self.taken[most:], *self.inbox.inputs]
            del self.taken[most:]
        scheduler.begin(now_at)
        for fault in self.set_aside.new:
            fault.note(scheduler)
        results: Results = []
        for one in self.taken:
            before = len(scheduler.events)
            if one.key_of_report in self.set_aside.reports:
                continue
            try:
                results.append((one, one.request(scheduler)))
            except InputError as error:
                if len(scheduler.events) > before:  # it was carried out partly
                    raise Broken(one, error) from error
                results.append((one, error))
            except (PolicyViolation, StoreError):
                raise
            except Exception as error:
                raise Broken(one, error) from error
        scheduler.turn()
        return results

    async def _promise_newcomers(self, results: Results) -> None:
        """Promise an end to the jobs just accepted."""
        taken: list[Newcomers] = []
        for one, result in results:
            if one.newcomers is not None and not isinstance(result, BaseException):
                one.newcomers.numbers = [number for numbers in result for number in numbers]
                taken.append(one.newcomers)
        if taken and self.promise is not None:
            await self.promise(taken)

    def turn_of(self, results: Results) -> Turn:
        """The turn's batch and effects."""
        events, effects, rows, runs, charges = self.scheduler.take()
        batch = Batch(events=events, jobs=rows, runs=runs, charges=charges)
        batch.nodes = list(_rows_of_nodes(events, self.scheduler.ledger.nodes).values())
        batch.quotes = [e.data["quote"] for e in events if e.kind == "quoted"]
        for one, result in results:
            if one.key is not None and not isinstance(result, BaseException):
                batch.answers.append((one.key.user, one.key.key, one.key.answer(result)))
        return Turn(batch, effects)

    def _waits_for_elements(self, one: Input) -> bool:
        """Whether a request names a job of an array that is being taken: it is for the whole of it."""
        if self.stopping or not (coming := self.scheduler.arrays.coming):
            return False
        return any(number in array.numbers for number in one.jobs for array in coming)

    def _due(self, now_at: float) -> Iterator[Input]:
        """Events that are due by themselves: virtual runs, the cloud's news, ends of leases."""
        for world in self.effects.worlds:
            for report in sorted(world.advance(now_at), key=in_order):
                yield Input.of_report(report)
        if self.rentals is not None and self.rentals.next_at() <= now_at:
            yield Input("news of the cloud", self.rentals.advance)
        for name in self.leases.expired(now_at):
            if name in self.scheduler.ledger.nodes:
                yield Input(f"end of the lease of node {name}", partial(expire_lease, name=name))

    async def _take_back(self, error: Exception) -> None:
        """The turn is void: read the state back, find out what is at fault, and go on without it.

        A step of a turn names itself; of several inputs, each is then taken alone. One that fails alone is set aside
        if a turn without it works. Requests that wait are answered by a later turn, except where the store cannot be
        written: then they are refused. Executors' reports are handled again. Repeated failures of a turn for an
        unknown reason end the service.
        """
        suspect: Fault | None = None
        while True:
            suspect = self._put_back(error, suspect)
            if self.stopping:
                return
            try:
                # A lone turn may be small enough to find room where no request does.
                await asyncio.to_thread(self.store.probe)
                await asyncio.to_thread(self.recover)
                self.resume()
                results = self._decide(0)
                if suspect is not None:
                    suspect.note(self.scheduler)
                again = self.turn_of(results)
                await self._commit(again.batch)
            except Exception as another:
                error = another
                await asyncio.sleep(RETRY_S if self.problem is not None else 0.0)
                continue
            if suspect is not None and suspect.one is not None:
                self.set_aside.add(suspect)
                suspect.one.answer(suspect.answer)
                if (run := suspect.one.ended_run) is not None:
                    self.inbox.put(_end_without_report(run, type(suspect.error).__name__))
            for fault in self.set_aside.new:
                if (run := fault.lost_run(self.scheduler)) is not None:
                    self.inbox.put(_end_without_report(run, type(fault.error).__name__))
            self.set_aside.new.clear()
            self.taken, self.failures, self.problem = [], 0, None
            await self._carry_out(again.effects)
            await self.adopt()
            for listener in self.listeners:
                listener(again.batch.events)
            return

    def _put_back(self, error: Exception, suspect: Fault | None) -> Fault | None:
        """Put the inputs of a void turn back for the next ones; returns what is probably at fault, without it.

        suspect: that of the turn before, which is at fault only if this turn, without it, had worked.
        """
        why = error.error if isinstance(error, Broken) else error
        taken, self.problem = self.taken, None
        fault = self._fault_of(error, why)
        if fault is not None and fault.one is not None:
            taken = [one for one in taken if one is not fault.one]
            self.alone = max(0, self.alone - 1)
        elif fault is not None:
            self.set_aside.add(fault)
        elif isinstance(why, StoreError) and not isinstance(why, StoreRefused):
            self._note_problem(why)
        elif len(taken) > 1:
            self.alone = len(taken)
        else:
            self.problem = f"the service failed ({type(why).__name__}); its log shows how"
            self.failures += 1
        is_known = isinstance(why, InputError) or (isinstance(why, ServiceError) and fault is None)
        text = (
            fault.text
            if fault is not None
            else self.problem or "a turn failed; its inputs are tried one by one"
        )
        log.error("%s", text, exc_info=None if is_known else why)
        if suspect is not None and suspect.one is not None and not isinstance(why, StoreError):
            taken, suspect = [suspect.one, *taken], None
        waiting = [*taken, *self.inbox.inputs]
        if self.problem is not None:
            for one in waiting:
                if one.done is not None and not one.done.done():
                    one.answer(Unavailable(self.problem))
            waiting = [one for one in waiting if one.done is None]
        self.taken, self.inbox.inputs = [], waiting
        if isinstance(error, StoreInUse) or self.failures > MOST_FAILURES:
            raise error
        return fault if fault is not None and fault.one is not None else suspect

    def _fault_of(self, error: Exception, why: Exception) -> Fault | None:
        """The fault that made a turn void; null: the store, one of several inputs, or it is not known."""
        scheduler, taken = self.scheduler, self.taken
        policy, doing = scheduler.ledger.policy, scheduler.doing
        alone = taken[0] if len(taken) == 1 else None
        if isinstance(error, Broken):
            is_new = doing is not None and any(
                event.kind == "submitted" and event.job == doing[1] for event in scheduler.events
            )
            if doing is None or is_new or isinstance(why, InputError):
                return Fault.of_input(error.one, why)
        if isinstance(why, StoreError):
            return Fault.of_input(alone, why) if isinstance(why, StoreRefused) and alone is not None else None
        if doing is not None and doing[0] != POLICY:
            return Fault.of_step(doing, why)
        # A request may be what a policy cannot take; an exit of a run, or the time, is nothing to be refused.
        fails_by_itself = doing is not None and (not taken or (alone is not None and alone.done is None))
        if policy != "fifo" and (fails_by_itself or isinstance(why, PolicyViolation)):
            return Fault.of_step((POLICY, policy), why)
        return Fault.of_input(alone, why) if alone is not None else None

    # --- small things -------------------------------------------------------------------------------------------

    def _scheduler(self, ledger: Ledger, version: int = 0) -> Scheduler:
        is_compiled: IsCompiled = self.kernels.are_compiled if self.kernels is not None else lambda _: True
        return Scheduler(ledger, self._status_of, self.settings, is_compiled, version)

    def _heed_jumps(self) -> None:
        """Extend leases by skipped time, in which no heartbeat could arrive."""
        jump = self.clock.jump()
        if jump is not None:
            log.warning(
                "the system clock %s; %s",
                f"went {'back' if jump.wall_s < 0 else 'forward'} {length(abs(jump.wall_s))}",
                f"{length(jump.stepped_s)} are not counted as run time, as no such time has passed for what runs here"
                if jump.stepped_s
                else f"times may be {length(self.clock.ahead_s)} late until it catches up",
            )
            self.leases.extend(jump.stepped_s, self.clock.now_s())
            self.scheduler.clock_set(jump.wall_s, jump.stepped_s, jump.corrected_s)

    def _status_of(self, number: int) -> str | None:
        """The final status of a job, from the store."""
        row = self.store.job(number)
        return str(row["status"]) if row is not None else None


def _submission(spec: JobSpec, user: str) -> Input:
    return Input(f"submission of {user}", lambda scheduler: scheduler.admission.submit(spec, user))


def _end_without_report(run: RunId, error: str) -> Input:
    """The end of a run whose report is set aside: its nodes are free all the same. error: that of the report."""
    what = f"end of run {run.job}.{run.number} without its report"
    return Input(what, lambda scheduler: scheduler.reports.give_up(run, error), run=run)


def _rows_of_nodes(events: Sequence[Event], nodes: Mapping[str, Node]) -> dict[str, dict[str, Any]]:
    """The rows of the nodes in these events, as they are now, or as they were at the end."""
    rows: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.kind == "node-gone":
            rows[str(event.node)] = NODE.validate_python(event.data).row()
        elif event.node in nodes:
            rows[str(event.node)] = nodes[str(event.node)].row()
    return rows
