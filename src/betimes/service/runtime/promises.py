"""Promised ends of jobs: a copy of the engine is played out, in a thread where that takes long.

A stopping run occupies its nodes until it exits. Play-outs do not model that: to a policy for a pool a preempted job
has left, and a cancelled one goes on until its end is reported. Here a promise that rests on such nodes is put off
until the latest exit.

A run that goes on past its estimate, or past both its promised end and the time that it was expected to take, is
foreseen to end some per cent of its time later at the earliest: an end that is due now would be over as it is said. A
job that outruns its estimate is promised another end only if that is later than promised by as much; the estimate that
is shown beside its promise is renewed as always.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from betimes.errors import BetimesError
from betimes.foresight.fitting import fit_aside
from betimes.foresight.intervals import Intervals, fit
from betimes.service.engines.messages import Foreseen, Play
from betimes.service.executors.protocol import FORCE_AFTER_S
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.controller import BETWEEN_SLICES_S, Controller
from betimes.service.runtime.inbox import Newcomers
from betimes.service.runtime.quotes import AT_ONCE_S, find_options, promise, with_intervals
from betimes.service.runtime.rehearsal import Rehearsal, Times
from betimes.service.runtime.requests import submit
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import INTERVAL, SAME_S, STARTS, Forecast, forecast
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.ends import End, last_end
from betimes.service.views.models import Quote, QuoteOption, Reason

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Leaving:
    """Jobs that leave, and jobs that wait for that, by now."""

    gone_at: dict[int, float] = field(default_factory=dict[int, float])  # by job that ends: when it has left
    room_at: dict[int, float] = field(default_factory=dict[int, float])
    """By job with a place: when that is free."""

    @property
    def holds_until_at(self) -> float:
        """The instant until which this holds; infinity: until something happens."""
        return min((*self.gone_at.values(), *self.room_at.values()), default=math.inf)

    def put_off(self, found: Forecast) -> Forecast:
        """The forecast with delays of jobs that wait for leaving ones, and of jobs behind them."""
        delays: dict[int, float] = {}
        for job, gone_at in self.gone_at.items():
            finish_at = found.times(job)[1]
            if finish_at is not None:
                delays[job] = gone_at - finish_at
        for job, room_at in self.room_at.items():
            start_at = found.times(job)[0]
            if start_at is not None:
                delays[job] = room_at - start_at
        late = {job: delay_s for job, delay_s in delays.items() if delay_s > 0}
        if not late:
            return found
        ends = {
            round(finish_at / SAME_S): late[job]
            for job in sorted(late, key=lambda job: late[job])
            if (finish_at := found.times(job)[1]) is not None
        }
        for job, start_at, finish_at in found.in_order_of_starts():  # awaited jobs come first
            delay_s = ends.get(round(start_at / SAME_S), 0.0)
            if delay_s > late.get(job, 0.0) and job not in self.gone_at:
                late[job] = delay_s
                if math.isfinite(finish_at):
                    end = round(finish_at / SAME_S)
                    ends[end] = max(ends.get(end, 0.0), delay_s)
        return found.delayed(late)


def leaving(jobs: Iterable[Job], now_at: float) -> Leaving:
    """The jobs that leave now; a late one is given until the executor itself ends it, again and again.

    jobs: all, or `Scheduler.leaving_and_next`.
    """
    jobs = list(jobs)
    stopping = {job.job_id: _gone_at(job, now_at) for job in jobs if job.run is not None and job.run.stopping}
    if not stopping:
        return Leaving()
    by_id: Mapping[int, Job] = {job.job_id: job for job in jobs}
    gone_at = {
        job: at for job, at in stopping.items() if (run := by_id[job].run) and run.stopping == "cancelled"
    }
    room_at: dict[int, float] = {}
    for job in jobs:
        if "owed" in (job.binding or {}):
            waited = [at for other, at in stopping.items() if by_id[other].makes_room_for == job.job_id]
        elif job.run is not None and not job.run.launched:
            names = {name for name, _ in job.places}
            waited = [at for other, at in stopping.items() if names & _nodes(by_id[other])]
        else:
            continue
        if waited:
            room_at[job.job_id] = max(waited)
    return Leaving(gone_at, room_at)


def overdue(
    jobs: Iterable[Job], now_at: float, takes: Callable[[Job, float], tuple[float, str]]
) -> dict[int, float]:
    """The earliest end of each job that goes on past its estimate or promise: news later, or at its time limit.

    takes: the run time of a job that promises rest on at an instant, s, and where it is from.
    """
    ends: dict[int, float] = {}
    for job in jobs:
        if job.run is None or job.run.stopping:
            continue
        promised_at = math.inf if job.promised_finish_at is None else job.promised_finish_at
        if job.basis != "doubled" and promised_at > now_at + SAME_S:
            continue
        ran_s = job.has_worked_s(now_at) if job.progress_frac is None else 0.0  # steps say more than its age
        if job.basis != "doubled" and 0.0 < ran_s < takes(job, now_at)[0] - SAME_S:
            continue  # it has begun later than promised, and ends when it is expected to
        limit_s = math.inf if job.run_limit_s is None else job.run_limit_s - job.run.ran_s(now_at)
        if limit_s > 0.0:  # past it the end is near
            ends[job.job_id] = now_at + min(news_s(ran_s), limit_s)
    return ends


def news_s(promised_s: float) -> float:
    """By how much a promise of so many seconds must move to be worth another one, s."""
    return max(LEAST_MOVED_S, MOVED_FRAC * promised_s)


def _gone_at(job: Job, now_at: float) -> float:
    by_at = (job.run.stop_by_at if job.run is not None else None) or now_at
    return by_at if by_at > now_at else now_at + FORCE_AFTER_S


def _nodes(job: Job) -> set[str]:
    return {name for name, _ in job.run.places} if job.run is not None else set()


QUICK_S = 0.003  # a play-out within this time is quicker than a hand-over to a thread and back
MOST_REHEARSED = 500  # jobs that are not over: beyond, blocked ones are promised an end once they queue
MOST_PAUSE_S = 60.0  # before promises that could not be made are tried again
MOST_WITHIN_TURN_S = 0.02  # one that takes longer would keep the inputs of the next turn waiting
LEAST_MOVED_S, MOVED_FRAC = 1.0, 0.05  # of what was promised: ends that move less are not promised anew
MOST_A_TURN = 200  # promises that are made in one turn


@dataclass(frozen=True)
class _Begun:
    """A play-out about to be made, with facts about its state."""

    play: Play
    version: int  # of the state
    as_of_at: float
    gone: Leaving
    holding: frozenset[int]
    holds_until_at: float  # unless something happens before


class Promises:
    """Forecasts of a controller's state, as fresh as the request demands."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.latest: Forecast | None = None
        self.version = -1  # of its state
        self.usual_s = math.inf  # processor time of the last play-out
        # Unless something happens before: a grace period ends then, or a node is up.
        self.holds_until_at = math.inf
        self.fitting = False  # what past promises teach
        self.unfit = 0  # finished jobs for which a fit has failed: it is not tried again
        self.late = 0  # promises that are being made again, or later than the job was submitted
        self.is_behind = False  # jobs may have been left without a promise
        self.pause_s = 0.0  # before those are tried again, if that fails once more
        self.again_at = -math.inf
        self.playing = asyncio.Lock()
        controller.listeners.append(self._heed)
        controller.promise = self.promise_newcomers

    async def forecast(self) -> Forecast:
        """Starts and finishes of all live jobs; requests that come meanwhile share the answer."""
        wanted = self.controller.scheduler.version
        async with self.playing:
            if self.latest is None or self.version < wanted or self._is_stale():
                begun = self._begun_at(self.controller.clock.now_s())
                with self.controller.clock.hold():
                    foreseen = await asyncio.to_thread(self._timed, begun.play)
                if self.latest is None or self.version <= begun.version:  # else a turn has made a newer one
                    return self._keep(foreseen, begun)
            return self.latest

    async def promise_newcomers(self, taken: Sequence[Newcomers]) -> None:
        """Make the promises of `make` for the jobs that a turn has accepted, to be stored with them.

        Jobs that keep to their ends what they have just taken need no play-out. Else one play-out serves all of them,
        and nothing else is decided or stored meanwhile. So it is made only if the last one was short; if not, one is
        begun, which goes on while the jobs are being stored, and the promises follow in a separate turn.
        """
        numbers = [number for newcomers in taken for number in newcomers.numbers]
        already = self.controller.scheduler.foreseen_already(numbers)
        if len(numbers) > MOST_A_TURN or (already is None and self.usual_s > MOST_WITHIN_TURN_S):
            self.controller.background.go(self._in_background())
            return
        scheduler = self.controller.scheduler
        try:
            found = await self._of_turn() if already is None else self._at_once(already)
            waiting = scheduler.wait_reasons(found)
            for newcomers in taken:
                newcomers.quotes = promise(scheduler, waiting, newcomers.numbers, newcomers.options)
        except BetimesError:  # `make` raises it again, to its caller
            return

    def _at_once(self, foreseen: Foreseen) -> Forecast:
        scheduler = self.controller.scheduler
        return forecast(foreseen, scheduler.now_at, scheduler.ledger.epoch_at, scheduler.holding)

    async def _of_turn(self) -> Forecast:
        """The forecast as of the present turn."""
        scheduler = self.controller.scheduler
        if self.latest is not None and self.version == scheduler.version and not self._is_stale():
            return self.latest
        begun = self._begun_at(scheduler.now_at)
        if self.usual_s <= QUICK_S:
            return self._keep(self._timed(begun.play), begun)
        with self.controller.clock.hold():
            return self._keep(await asyncio.to_thread(self._timed, begun.play), begun)

    def _begun_at(self, as_of_at: float) -> _Begun:
        scheduler = self.controller.scheduler
        return self._begun(scheduler.foresee(as_of_at), as_of_at)

    def _begun(self, play: Play, as_of_at: float) -> _Begun:
        scheduler = self.controller.scheduler
        gone = leaving(scheduler.leaving_and_next, as_of_at) if scheduler.has_leaving else Leaving()
        holds_until_at = min(gone.holds_until_at, scheduler.boots_at)
        takes = scheduler.ledger.promise_errors.takes
        late = overdue(map(scheduler.ledger.jobs.__getitem__, scheduler.holding), as_of_at, takes)
        gone = replace(gone, gone_at={**late, **gone.gone_at})
        return _Begun(play, scheduler.version, as_of_at, gone, scheduler.holding, holds_until_at)

    def _timed(self, play: Play) -> Foreseen:
        began_s = time.thread_time()
        foreseen = play()
        self.usual_s = time.thread_time() - began_s
        if self.controller.metrics is not None:
            self.controller.metrics.play_out.observe(self.usual_s)
        return foreseen

    def _keep(self, foreseen: Foreseen, begun: _Begun) -> Forecast:
        self.latest, self.version = self._forecast_of(foreseen, begun), begun.version
        self.holds_until_at = min(begun.holds_until_at, self.latest.first_end_at)
        return self.latest

    def _forecast_of(self, foreseen: Foreseen, begun: _Begun) -> Forecast:
        epoch_at = self.controller.scheduler.ledger.epoch_at
        return begun.gone.put_off(forecast(foreseen, begun.as_of_at, epoch_at, begun.holding))

    def _is_stale(self) -> bool:
        """Whether a run that should have ended or left is still there, or a node that should be up is not."""
        return self.controller.clock.now_s() >= self.holds_until_at

    async def make(self, numbers: Sequence[int], options: Sequence[QuoteOption] = ()) -> list[Quote]:
        """Promise jobs an end, and store that; held ones get their promise later.

        options: those at their submission.
        """
        found = await self.forecast()
        if blocked := self.blocked(numbers):
            found = found.beside(await self._rehearsed(blocked))
        made: list[Quote] = []
        for at in range(0, max(1, len(numbers)), MOST_A_TURN):  # between which others are answered
            if at:
                await asyncio.sleep(BETWEEN_SLICES_S)
            some = tuple(numbers[at : at + MOST_A_TURN])
            made += await self.controller.ask(
                "promise", partial(_log_promises, found=found, numbers=some, options=options)
            )
        return made

    def blocked(self, numbers: Sequence[int]) -> list[int]:
        """Those of these jobs that wait for others before they may queue, and can be promised an end nevertheless.

        None where that would take long: those wait for their turn.
        """
        jobs = self.controller.scheduler.ledger.jobs
        if not self._can_rehearse:
            return []
        return [
            n for n in numbers if n in jobs and jobs[n].account is None and jobs[n].status is Status.BLOCKED
        ]

    @property
    def _can_rehearse(self) -> bool:
        scheduler = self.controller.scheduler
        return not (scheduler.watches or scheduler.stands_by or len(scheduler.ledger.jobs) > MOST_REHEARSED)

    async def _of_whole(
        self, spec: JobSpec, user: str, kept: dict[str, Any] | None
    ) -> tuple[list[Times], dict[str, Any] | None]:
        """Starts and ends of all jobs that a specification makes, after those that they wait for.

        kept: why they would not queue, resources aside; it is answered whole.
        """
        rehearsal = self.rehearsal()
        with self.controller.clock.hold():
            times, ((numbers,),) = await asyncio.to_thread(
                rehearsal.play, [partial(submit, specs=[spec], user=user)]
            )
        return [times[number] for number in numbers], kept or rehearsal.reasons.get(numbers[0])

    async def _rehearsed(self, numbers: Sequence[int]) -> dict[int, Times]:
        """Start and finish of those of these jobs that finish."""
        with self.controller.clock.hold():
            times, _ = await asyncio.to_thread(self.rehearsal().play)
        return {number: found for number in numbers if (found := times[number]).finish_at is not None}

    def rehearsal(self) -> Rehearsal:
        """A copy of the present state, to be played out in any thread."""
        at_once = any(world.at_once for world in self.controller.effects.worlds)
        return Rehearsal(self.controller.scheduler, self.controller.clock.now_s(), at_once)

    async def options(self, spec: JobSpec, user: str) -> list[QuoteOption]:
        """The options of a job submitted now: wait, or rent a machine. Raises Refused, Unknown."""
        if not self.controller.scheduler.offers_for_jobs:
            return []
        with self.controller.clock.hold():
            find = find_options(self.controller.scheduler, self.controller.clock.now_s(), spec, user)
            return await asyncio.to_thread(find)

    async def foreseen(self, play: Play, made_at: float) -> Forecast:
        """The forecast of a play-out of the state, or of one that is changed, as of an instant."""
        begun = self._begun(play, made_at)
        return self._forecast_of(await asyncio.to_thread(play), begun)

    async def ask(self, spec: JobSpec, user: str) -> Quote:
        """The promise to a job if it were submitted now; nothing is stored. Raises Refused."""
        scheduler = self.controller.scheduler
        made_at = self.controller.clock.now_s()
        new = scheduler.admission.unsubmitted(spec, user, made_at)
        play = scheduler.foresee(made_at, new)
        find = find_options(scheduler, made_at, spec, user)
        with self.controller.clock.hold():
            found = await self.foreseen(play, made_at)
            options = await asyncio.to_thread(find)
        taken = next((option for option in options if option.is_taken), None)
        start_at, finish_at = found.times(0) if taken is None else (taken.start_at, taken.finish_at)
        kept = scheduler.keeps_from_queueing(new, made_at)
        is_array = bool(spec.array and not spec.as_one)
        is_whole = self._can_rehearse and (kept is not None or bool(spec.resources) or is_array)
        elements = list[Times]()
        if is_whole:
            elements, kept = await self._of_whole(spec, user, kept)
            start_at, finish_at = _first_and_last(elements)
            if kept is not None or spec.array:  # options are those of one job that queues at once
                options, taken = [], None
        elif kept is not None:  # as at its submission, it is promised an end once it queues
            start_at, finish_at = None, None
        starts_at_once = start_at is not None and start_at - made_at < AT_ONCE_S
        job = replace(new, status=Status.QUEUED, reason=scheduler.budgets.forbid(new.spec, user))
        is_rented = taken is not None and taken.instance_type is not None
        reason = kept
        if kept is None and not (starts_at_once or is_rented or is_whole):
            reason = scheduler.wait_reasons(found).why(job)
        errors, earliest_at = scheduler.ledger.promise_errors, scheduler.earliest_at(job, made_at)
        sure = errors.around(job, made_at, start_at, finish_at, scheduler.queue, earliest_at).fields
        if is_array and is_whole:
            alone = replace(job, spec=spec.model_copy(update={"array": None}))
            sure = _around_array(scheduler, alone, elements, made_at, earliest_at)
        run_s, basis = errors.takes(job, made_at)
        return Quote(
            made_at=made_at,
            earliest_at=earliest_at,
            policy=scheduler.ledger.policy,
            start_at=start_at,
            finish_at=finish_at,
            **sure,  # pyright: ignore[reportArgumentType] (floats, none optional)
            cost_usd=scheduler.cost_usd(job.spec, run_s) if taken is None else taken.cost_usd,
            run_s=run_s,
            basis=basis,
            reason=None if reason is None else Reason(**reason),
            options=with_intervals(scheduler, job, options, made_at),
            elements=1 if spec.array and not is_whole else None,
        )

    def catch_up(self) -> None:
        """Make missing promises: the service has ended, or failed, between a submission and its promise."""
        self.is_behind = True
        self._heed([])

    def _heed(self, events: Sequence[Event]) -> None:
        """Promise an end again to jobs that outran their belief or broke their promise, and to jobs of a trace when
        submitted.

        A job that could not queue at its submission is promised an end when it does.
        """
        if not self.fitting and self._intervals.next_due(self.unfit) is not None:
            self.fitting = True
            self.controller.background.go(self._fit())
        outrun = {
            event.job for event in events if event.kind == "estimate-changed" and event.data.get("outran")
        }
        source = self.controller.source
        replayed = source.to_promise(events) if source is not None else []
        again = (*self._late(events), *replayed, *self._broken(events))
        numbers = list(dict.fromkeys(number for number in again if number is not None))
        self.is_behind |= any(event.kind == "clock-set" for event in events)  # promises are void
        is_due = self.is_behind and self.controller.clock.now_s() >= self.again_at
        if is_due and not self.controller.scheduler.stands_by:
            self.is_behind = False
            missing = [
                job.job_id
                for job in self.controller.scheduler.ledger.jobs.values()
                if job.account is not None and (job.promised_finish_at is None or job.lacks_new_promise)
            ]
            numbers += sorted(set(missing).difference(numbers))
        jobs = self.controller.scheduler.ledger.jobs
        numbers = [number for number in numbers if number not in jobs or not jobs[number].is_suspended]
        changed = max((event.event_id for event in events if _changes_nodes(event)), default=0)
        anew = bool(changed) and not self.controller.scheduler.stands_by
        anew = anew and any(
            job.quoted is not None and job.quoted["quote_id"] < changed for job in jobs.values()
        )
        if (numbers or outrun or anew) and not self.controller.scheduler.is_blind:
            held = ExitStack()
            held.enter_context(self.controller.clock.hold())  # a promise must not know what comes next
            self.late += 1
            self.controller.background.go(self._make_holding(numbers, held, outrun, anew=anew))

    def _late(self, events: Sequence[Event]) -> list[int]:
        """Jobs that queue now, were submitted before, and have no promise, or none any more."""
        jobs = self.controller.scheduler.ledger.jobs
        queued = [
            (jobs[event.job], event)
            for event in events
            if event.job in jobs
            and (event.kind == "queued" or (event.kind == "requeued" and _is_by_user(event)))
        ]
        return [
            job.job_id
            for job, event in queued
            if job.submitted_at < event.at_s and job.promised_finish_at is None
        ]

    def _moved(self, found: Forecast, late: Set[int | None] | None) -> list[int]:
        """Jobs whose latest promise says something else than a forecast, or that have none.

        late: those of these that are later than promised; null: of all.
        """
        jobs = self.controller.scheduler.ledger.jobs
        moved = list[int]()
        for number, finish_at in zip(found.job, found.finish_at.tolist(), strict=True):
            job = jobs.get(number)
            if job is None or job.is_suspended or (late is not None and number not in late):
                continue
            if job.quoted is None:
                moved.append(number)
                continue
            made_at, before_at = job.quoted["made_at"], job.quoted["finish_at"]
            if before_at is None or math.isnan(finish_at):
                if (before_at is None) != math.isnan(finish_at):
                    moved.append(number)
                continue
            by_s = finish_at - before_at
            if (abs(by_s) if late is None else by_s) > news_s(before_at - made_at) + SAME_S:
                moved.append(number)
        return moved

    @property
    def _intervals(self) -> Intervals:
        return self.controller.scheduler.ledger.promise_errors.model.intervals

    async def _fit(self) -> None:
        """Fit what is due, in a process of its own: the library takes seconds to load, and much memory.

        Where time is virtual, nobody waits for a turn meanwhile, and the library is loaded once, here. If a fit fails,
        intervals stay as they were until the next one is due.
        """
        make = fit if isinstance(self.controller.clock, VirtualClock) else fit_aside
        try:
            with self.controller.clock.hold():
                while (count := self._intervals.next_due(self.unfit)) is not None:
                    rows, level = self._intervals.training(count), self._intervals.level
                    try:
                        model = await asyncio.to_thread(make, rows, level)
                        if level == self._intervals.level:
                            self._intervals.take(count, model)
                    except Exception as error:
                        self.unfit = count
                        log.error(
                            "intervals of promises were not fitted anew after %d finished jobs (%s: %s); they go on as "
                            "they were, and the next fit is due after %d",
                            count,
                            type(error).__name__,
                            " ".join(str(error).split()),
                            self._intervals.fit_at,
                        )
        finally:
            self.fitting = False

    def _broken(self, events: Sequence[Event]) -> list[int]:
        """Jobs whose promise was broken, and that have no new one."""
        jobs = self.controller.scheduler.ledger.jobs
        return [
            event.job
            for event in events
            if event.kind == "promise-broken"
            and event.job in jobs
            and jobs[event.job].lacks_new_promise
            and (jobs[event.job].quoted or {}).get("quote_id", 0) < event.event_id
        ]

    async def _in_background(self) -> None:
        with suppress(BetimesError):  # a request gets the error
            await self.forecast()

    async def _make_holding(
        self, numbers: Sequence[int], held: ExitStack, outrun: Set[int | None], *, anew: bool
    ) -> None:
        """Promise these jobs an end, and those that outran their beliefs if it comes later by that.

        anew: and all others whose ends have moved; promises that cannot be kept are broken then.
        """
        with held:
            try:
                if outrun or anew:
                    moved = self._moved(await self.forecast(), None if anew else outrun)
                    numbers = list(dict.fromkeys((*numbers, *moved)))
                await self.make(numbers)  # without any, promises are judged
                self.pause_s = 0.0
            except BetimesError:
                # Nothing could be stored, or played out. It is tried again after the next event, and then after longer
                # and longer: it may have made a turn void, after which the state is read back, an event itself.
                self.is_behind = True
                self.again_at = self.controller.clock.now_s() + self.pause_s
                self.pause_s = min(max(1.0, 2.0 * self.pause_s), MOST_PAUSE_S)
                raise
            finally:
                self.late -= 1


def _first_and_last(jobs: Sequence[Times]) -> Times:
    """The first start and the last end of some jobs."""
    starts_at, ends_at = zip(*jobs, strict=True)
    known = [at for at in starts_at if at is not None]
    return Times(min(known, default=None), None if None in ends_at else max(ends_at))


def _around_array(
    scheduler: Scheduler, element: Job, times: Sequence[Times], made_at: float, earliest_at: float
) -> dict[str, float]:
    """The intervals around the first start and the last end of an array's elements; empty: few jobs like them yet."""
    errors, queue = scheduler.ledger.promise_errors, scheduler.queue
    found, ends = list[tuple[float, dict[str, float]]](), list[End]()
    for start_at, finish_at in dict.fromkeys(times):
        fields = errors.around(element, made_at, start_at, finish_at, queue, earliest_at).fields
        if not fields or start_at is None or finish_at is None:
            return {}
        found.append((start_at, {name: fields[name] for name in STARTS}))
        ends.append(End(finish_at, *(fields[name] for name in INTERVAL)))
    end = last_end(ends)
    if end is None or end.level is None:
        return {}
    return {**min(found, key=lambda each: each[0])[1], **{name: getattr(end, name) for name in INTERVAL}}


def _log_promises(
    scheduler: Scheduler, found: Forecast, numbers: Sequence[int], options: Sequence[QuoteOption]
) -> list[Quote]:
    return promise(scheduler, scheduler.wait_reasons(found), numbers, options)


def _changes_nodes(event: Event) -> bool:
    """Whether a node comes or goes that no policy has decided about, and no forecast has known of."""
    if event.cause in ("policy", "executor"):  # the second: a draining one is empty
        return False
    return event.kind in ("node-added", "node-status", "node-gone")


def _is_by_user(requeued: Event) -> bool:
    return (requeued.data.get("reason") or {}).get("code") == "requeued"
