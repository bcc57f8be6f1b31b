"""The service's decisions, without a clock, a socket, a database or a process.

Each outside input is a method call; `turn` lets the policy decide. The results are events, to be stored, and effects,
to be carried out once the events are stored: the ledger has applied the events already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from betimes.cluster import Offer
from betimes.foresight.past_errors import Raw
from betimes.foresight.promise_model import Queue
from betimes.kernels import Floats
from betimes.policies.pool.renting import RENTS_NOTHING
from betimes.service.engines.accounts import expected_left
from betimes.service.engines.messages import Decisions, Foreseen, Play
from betimes.service.engines.speedups import speed
from betimes.service.scheduling.admission import Admission, LargeArrays
from betimes.service.scheduling.broken_promises import BrokenPromises
from betimes.service.scheduling.decisions import DecisionApplier
from betimes.service.scheduling.earliest import EarliestStarts
from betimes.service.scheduling.edits import Edits
from betimes.service.scheduling.effects import Effect
from betimes.service.scheduling.engine_factory import Settings, request_of
from betimes.service.scheduling.engine_renewal import EngineRenewal
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fleet_limits import Leases, LimitsOfFleet
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.learnt_runtimes import LearntRuntimes
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.maintenance import MaintenanceWindows
from betimes.service.scheduling.member_selection import MemberSelection
from betimes.service.scheduling.node import UP, NodesInBrief
from betimes.service.scheduling.nodes import Nodes
from betimes.service.scheduling.observed import ObservedJobs
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.planner_answers import PlannerAnswers
from betimes.service.scheduling.policy_engine import IsCompiled, PolicyEngine
from betimes.service.scheduling.promises import Forecast, cost_usd
from betimes.service.scheduling.queues import Queues
from betimes.service.scheduling.reasons import by_user
from betimes.service.scheduling.renting import JobRentals, MachineRentals
from betimes.service.scheduling.reports import ReportHandling
from betimes.service.scheduling.runs import BY_PROGRESS, Restated, Runs
from betimes.service.scheduling.state import Changes, FindStatus, Occupancy, SchedulerState, Step
from betimes.service.scheduling.trials import TrialSets
from betimes.service.scheduling.user_budgets import UserBudgets
from betimes.service.scheduling.users import Users
from betimes.service.scheduling.wait_reasons import WaitReasons
from betimes.service.scheduling.waiting_for import ArrayLimits, Delays, Dependencies, Resources
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import User

POLICY = "policy"
"""The step of a turn in which the policy decides."""
DUE, FOLLOWS = "due", "follows"
"""The steps that each part takes before and after that."""
LEFT_OUT_S = 1.0
"""Between two turns without an input, where steps are left out."""


class WorkLeft(NamedTuple):
    """Work that a job was believed to have left at an instant, s in the engine's unit; it has worked on since."""

    since_at: float
    work_s: float


class Scheduler:
    """One cluster under one policy. Instants are seconds since 1970 (`_at`); engines count from `ledger.epoch_at`.

    It puts the parts together and gives them their turns. Inputs go to the part concerned: `admission`, `jobs`,
    `reports` (of runs), `nodes`, `users` and `policy`.
    """

    def __init__(
        self,
        ledger: Ledger,
        find_status: FindStatus,
        settings: Settings | None = None,
        is_compiled: IsCompiled = lambda _: True,
        version: int = 0,
    ) -> None:
        settings = settings or Settings()
        ledger.promise_errors.model.intervals.at_level(settings.level)
        state = self._state = SchedulerState(ledger, find_status, version, settings.groups)
        engine = self._engine = PolicyEngine(state, settings, is_compiled)
        runs = self._runs = Runs(state, engine)
        self.jobs = Jobs(state, engine, runs, self._keeps_from_queueing)
        budgets = self.budgets = UserBudgets(state, engine, self.jobs, runs)
        self._earliest = EarliestStarts(state, engine, budgets)
        sets = self._sets = TrialSets(state, engine, self.jobs, runs)
        self._learnt = LearntRuntimes(state, engine)
        self.policy = EngineRenewal(state, engine, self.jobs, sets)
        self.promises = BrokenPromises(state)
        arrays = self.arrays = LargeArrays(state, self.jobs)
        self.users = Users(state, settings.groups)
        self.admission = Admission(state, engine, self.jobs, arrays, self.users, self._refuse)
        self.queues = Queues(state, settings)
        self.edits = Edits(state, engine, self.jobs, self.admission, self.queues, self.policy)
        self.nodes = Nodes(state, engine, self.jobs, runs, sets, self.policy)
        drain = self.nodes.drain_faulty
        self.reports = ReportHandling(state, engine, self.jobs, runs, sets, self.policy, drain)
        self.observed = ObservedJobs(state, engine, self.jobs, runs, self.reports)
        self.limits = LimitsOfFleet(state, engine, budgets)
        self.maintenance = MaintenanceWindows(state, engine, runs)
        self.machines = MachineRentals(state, engine, self.nodes)
        self.rentals = JobRentals(state, engine, runs, self.nodes, budgets)
        self.leases = Leases(state, engine, self.limits, self.nodes, self.rentals)
        self.selection = MemberSelection(state, engine)
        self.planner = PlannerAnswers(state, engine)
        self._decisions = DecisionApplier(state, engine, runs, self.rentals, self.machines, self.limits)
        self._parts: tuple[Part, ...] = (
            self.promises,  # before anything else changes
            arrays,
            self.users,
            self.queues,
            self.observed,
            Dependencies(state),
            Delays(state, self.jobs),
            budgets,
            ArrayLimits(state),  # these two after all else: they let a job stand in line
            Resources(state, engine),
            self.leases,
            self.maintenance,
            self.nodes,  # after what lets them drain
            self.machines,
            sets,  # before runs, which become those of their trials
            runs,
            self.rentals,  # after runs have left them, or have not begun
            self.selection,
            self.planner,
        )

    # --- the state --------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The jobs that are not over, the nodes, and the policy in force."""
        return self._state.ledger

    @property
    def occupancy(self) -> Occupancy:
        """The runs' holdings on nodes."""
        return self._state.occupancy

    def ended_as(self, number: int) -> str | None:
        """The final status of a job; null: it is not over, or there is none of that number."""
        return self._state.ended_as(number)

    def is_met(self, number: int, on: str) -> bool | None:
        """Whether what is waited for of a job has come (`job_spec.ON`); null: not yet, and it may come."""
        return self._state.is_met(number, on)

    @property
    def now_at(self) -> float:
        """The instant of the last `begin`."""
        return self._state.now_at

    @property
    def now_s(self) -> float:
        """Likewise, to the engine."""
        return self._state.now_s

    @property
    def version(self) -> int:
        """Grows whenever earlier forecasts may be outdated."""
        return self._state.version

    @property
    def events(self) -> list[Event]:
        """The events since the last `take`."""
        return self._state.events

    @property
    def settings(self) -> Settings:
        """The operator's settings for the engines."""
        return self._engine.settings

    @property
    def engine(self) -> Any:
        """The engine of the policy in force. Raises Conflict before the first policy is set."""
        return self._engine.engine

    @property
    def temporary_member(self) -> str | None:
        """The member in force of a portfolio that may select another; null: the policy itself decides."""
        return self._engine.temporary_member

    def node_name(self, number: int) -> str:
        """The name of a node by the engine's number; a machine that the cloud has not named yet has a number."""
        return self._engine.machine_called(number)

    @property
    def kind(self) -> str | None:
        """`pool` or `nodes`; null before the first policy is set."""
        return self._engine.kind

    @property
    def restart_s(self) -> float:
        """The assumed cost of a restart of a job, s."""
        return self._engine.restart_s

    @property
    def stands_by(self) -> bool:
        """Whether the policy in force is not compiled yet, so that nothing is decided."""
        return self._engine.stands_by

    @property
    def watches(self) -> bool:
        """Whether another scheduler decides, which is watched only."""
        return self._engine.watches

    @property
    def is_blind(self) -> bool:
        """Whether what another scheduler decides is not seen now, or not all of it, so that nothing is foreseen."""
        observation = self.settings.observation
        return observation is not None and observation.is_blind

    @property
    def offers_for_jobs(self) -> tuple[Offer, ...] | None:
        """Offers that the policy in force may rent for one job alone; null: none so, or it is being compiled."""
        return None if self.stands_by else self._engine.offers_for_jobs

    @property
    def rents(self) -> bool:
        """Whether the policy in force may rent machines."""
        return bool(self.offers_for_jobs or self._engine.shared_offers)

    @property
    def unused_offers(self) -> str | None:
        """That the policy in force is for a pool, and rents nothing of what is offered; null: it rents, or none are."""
        is_left = self._engine.is_pool and self.settings.offers and not self.rents
        return f"{self.ledger.policy} {RENTS_NOTHING}" if is_left else None

    @property
    def plans_at(self) -> float | None:
        """The instant of the planner's next round; null: the policy does not plan in rounds, or there is nothing to."""
        return self._engine.plans_at

    def offers_for(self, spec: JobSpec) -> tuple[Offer, ...]:
        """The offers for a job under the policy in force."""
        alone = self.offers_for_jobs if spec.rent != "never" else None
        return (*(alone or ()), *self._engine.shared_offers)

    @property
    def has_entering(self) -> bool:
        """Whether the policy receives jobs at the next decision."""
        return bool(self._state.job_index.entering)

    @property
    def has_leaving(self) -> bool:
        """Whether a stopping run has not ended."""
        return bool(self._state.job_index.leaving)

    @property
    def has_unsettled(self) -> bool:
        """Whether a job has been granted units that its run lacks so far."""
        return bool(self._state.job_index.unsettled)

    @property
    def leaving_and_next(self) -> list[Job]:
        """Jobs whose runs are stopping, and those with a place that do not run there yet."""
        index = self._state.job_index
        return [
            self.ledger.jobs[number] for number in sorted(index.leaving | index.nominated | index.unsettled)
        ]

    @property
    def boots_at(self) -> float:
        """The instant at which the next booting node should be up; infinity: none boots."""
        return min(self._engine.boots(self.now_at).values(), default=math.inf)

    def speeds(self, job: Job) -> list[float]:
        """A job's speed on 0, 1, ... units in the engine's unit of work: on nodes 1, as its width is fixed."""
        widest = job.spec.max_units
        if self._engine.is_nodes:
            return [0.0, *[1.0] * widest]
        request = request_of(job)
        return [0.0, *(speed(request, units) for units in range(1, widest + 1))]

    def pace(self, job: Job) -> float:
        """The speed of a job's run on its nodes."""
        return self._engine.pace(job)

    def cost_usd(self, spec: JobSpec, run_s: float) -> float | None:
        """Cost of a job that takes so long at speed 1, on the nodes that there are; null: no price is known."""
        return cost_usd(spec, run_s, self.nodes_in_brief.samples, partial(self._engine.speed_on, spec))

    def work_left(self, jobs: Iterable[Job]) -> dict[int, WorkLeft]:
        """Work that jobs are expected to have left, in the engine's unit: those that the policy knows, and trials."""
        found: dict[int, WorkLeft] = {}
        for job in jobs:
            if job.set_id is not None:
                since_at = job.run.started_at if job.run is not None else None
                found[job.job_id] = WorkLeft(
                    self.now_at if since_at is None else since_at, job.runtime_estimate_s
                )
            elif job.account is not None and self._engine.knows(job):
                account = self._engine.account(job.job_id)
                boots = job.rental is not None and not job.rental.is_up  # which is its stall, and no work
                stall_s = 0.0 if boots else account.stall_s
                work_s = account.left_s + stall_s * self._engine.rate(job)
                grid = self.ledger.promise_errors.expected(job, self.now_at)
                if grid is not None:
                    full = self._engine.rate(job, job.spec.max_units)
                    believed_s = self._engine.believed_left_s(job)
                    age_s = max(0.0, account.size_s - believed_s) / full
                    work_s += expected_left(grid[None], 0, age_s) * full - believed_s
                found[job.job_id] = WorkLeft(account.since_s + self.ledger.epoch_at, work_s)
        return found

    @property
    def holding(self) -> frozenset[int]:
        """The jobs that hold units."""
        return frozenset(self._state.job_index.holding)

    @property
    def idle(self) -> dict[str, Any] | None:
        """Why the last decision did nothing; null: it did something."""
        return self._decisions.idle

    def wait_reasons(self, forecast: Forecast | None) -> WaitReasons:
        """Why jobs wait, as things stand now."""
        return WaitReasons(self._state, self._engine, self.limits, forecast)

    @property
    def is_left_to_policy(self) -> bool:
        """Whether only the policy's decisions are to come, so that a play-out of the engine shows all of it.

        Nothing leaves, boots or closes, no job waits for anything else, and what ends teaches nothing that the policy
        heeds.
        """
        engine, index, nodes = self._engine, self._state.job_index, self.ledger.nodes.items()
        if self.stands_by or self.rents or engine.rounds is not None:
            return False
        if index.leaving or index.entering or index.unsettled or index.nominated:
            return False
        if self.ledger.arrays or self.ledger.maintenance or self._state.siblings.are_outdated:
            return False
        if any(
            node.rented_at is not None or (node.status != UP and self._state.meant_for(name))
            for name, node in nodes
        ):
            return False
        if engine.heeds_beliefs and self._state.siblings:
            return False
        return not any(map(self._has_more_to_come, self.ledger.jobs.values()))

    def _has_more_to_come(self, job: Job) -> bool:
        """Whether something may happen to a job that its engine does not foresee."""
        if job.status is Status.HELD:
            return False
        if (
            job.account is None
            or job.trials is not None
            or job.is_suspended
            or job.restarting_since_at is not None
        ):
            return True
        # A belief that turns out to be too short is doubled, and here up to the limit.
        bounded = self._engine.heeds_beliefs and job.spec.time_limit_s is not None
        return bounded and self.ledger.promise_errors.expected(job, self.now_at) is not None

    @property
    def expects_otherwise(self) -> bool:
        """Whether any job is expected to take another time than is believed, as those that were alike did."""
        errors, jobs = self.ledger.promise_errors, self.ledger.jobs
        return any(errors.expected(job, self.now_at) is not None for job in errors.with_kin(jobs))

    # --- a turn -----------------------------------------------------------------------------------------------

    def open(self, policy: str, epoch_at: float) -> None:
        """The first start ever: under this policy, with the nodes added so far."""
        self._state.log("opened", "operator", epoch_at=epoch_at)
        self._set_half_life()
        self.policy.set_policy(policy, "operator")

    def recover(self) -> None:
        """After a start: build the engine from the ledger; the policy looks at everything."""
        self._state.is_resuming = True
        self._state.log("recovered", "recovery")
        self._set_half_life()
        self._engine.rebuild(self.ledger.policy)
        self._admit_all()
        self.rentals.resume()
        self._engine.look()

    def _set_half_life(self) -> None:
        half_life_s = self._engine.settings.half_life_s
        if half_life_s != self.ledger.shares.half_life_s:
            self._state.log("fair-share-set", "operator", half_life_s=half_life_s)

    def copied(self, settings: Settings) -> Scheduler:
        """The same state apart from this one, between two turns, as it would go on under these settings."""
        ledger = self.ledger.copied()
        made = Scheduler(ledger, self._state.find_status, settings, self._engine.is_compiled)
        made._state.now_at = self.now_at
        made._engine.copy_from(self._engine)
        made.leave_out(self._state.left_out)
        made._admit_all()
        return made

    def _admit_all(self) -> None:
        """Jobs of a ledger that was read or copied may queue, and its sets are looked at."""
        for job in list(self.ledger.jobs.values()):
            self.jobs.admit(job)
            if job.trials is not None:
                self._state.trial_index.to_review.add(job.job_id)

    def next_timer_at(self) -> float:
        """The instant at which `turn` wants to be called if nothing happens before; infinity: never."""
        if self._state.siblings.are_outdated:
            return self.now_at
        own_at = min(part.next_at() for part in self._parts)
        if self._state.left_out:  # their instants may stand still in the past
            own_at = max(own_at, self.now_at + LEFT_OUT_S)
        return min(self._engine.next_timer_at(), own_at)

    def begin(self, now_at: float) -> None:
        """Set the time, never earlier than before: timers that are over go off first.

        In the first turn after a start they wait for reports of runs that ended meanwhile, which have not outrun
        their estimates since.
        """
        self._state.now_at = max(self.now_at, now_at)
        self._state.doing = None
        if not self._state.is_resuming:
            self._state.take_step(POLICY, self.ledger.policy, self._catch_up)

    def _catch_up(self) -> None:
        self._decisions.apply(self._engine.catch_up())

    @property
    def doing(self) -> Step | None:
        """The step that raised the error by which a turn has just failed; null: it was in none."""
        return self._state.doing

    def leave_out(self, steps: Iterable[Step]) -> None:
        """Take these steps no more: they raise errors."""
        self._state.left_out |= set(steps)

    def note_set_aside(self, what: str, job: int | None, error: str, trace: str) -> None:
        """Log that an input or a step of a turn could not be carried out; trace: of the error, how it came about."""
        self._state.log("set-aside", "recovery", job, what=what, error=error, traceback=trace)

    def clock_set(self, wall_s: float, stepped_s: float, corrected_s: float = 0.0) -> None:
        """The machine's clock has jumped, and the service's is about to be put forward by `stepped_s`, 0 or more.

        corrected_s: the part of that in which no machine slept, as the clock was wrong before.
        """
        self._state.note_clock(wall_s, stepped_s)
        if stepped_s:
            self.sleep(stepped_s - corrected_s, corrected_s)

    def sleep(self, for_s: float, corrected_s: float = 0.0) -> None:
        """The service's machine sleeps for so long: its runs make no progress meanwhile; and a clock is corrected."""
        if self._runs.fall_behind(for_s, corrected_s):
            self.turn()
        self._runs.note_sleep(for_s)  # last, as the time that they slept has still to come
        if corrected_s:
            self._state.correct_clock(corrected_s)

    def turn(self) -> None:
        """Let the policy decide about new inputs."""
        self._state.doing = None
        self.policy.renew_if_outdated()
        for part in self._parts:
            self._state.take_step(DUE, part.name, part.before_decision)
        self._state.is_resuming = False
        self.policy.take_back_units()
        rounds = self._decide()
        self._decisions.apply(rounds)
        for part in self._parts:
            self._state.take_step(FOLLOWS, part.name, part.after_decision)
        self._state.take_step(FOLLOWS, "idle", partial(self._decisions.explain_idle, rounds))

    def _restate(self) -> dict[int, Restated]:
        """Tell the engine what of jobs' work has turned out to be another, and why."""
        known = self.reports.take_repaced() | self.edits.hand_over() | self._runs.take_restated()
        return {number: known.get(number, BY_PROGRESS) for number in self._engine.reported}

    def _decide(self) -> Sequence[Decisions]:
        """Let the policy decide by all news; log what it now believes of jobs, and requeue those that it has let go."""
        restated = self._restate()
        learnt = self._learnt.learn()
        self.planner.hand_over()
        self._state.doing = (POLICY, self.ledger.policy)
        what, rounds = self._engine.decide()
        self._state.doing = None
        for request in what.requests:
            self.jobs.entered(request.job)
        for news in learnt:
            self._learnt.log(news)
        for number, why in restated.items():
            if number in self.ledger.jobs:
                self._runs.log_restated(self.ledger.jobs[number], why)
        for number in what.gone:
            self.jobs.requeue(self.ledger.jobs[number])
        for number, until_s in self._engine.new_waits():
            self._state.log("waits", "policy", number, waits_until_s=until_s)
        return rounds

    def take(self) -> Changes:
        """The results since the last call: events, effects, rows of jobs, and rows of runs."""
        changes, over = self._state.take()
        for number in over:
            self.reports.forget(number)
        return changes

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, where nothing is stored: no rows are made."""
        effects, over = self._state.take_effects()
        for number in over:
            self.reports.forget(number)
        return effects

    # --- forecasts --------------------------------------------------------------------------------------------

    def foresee(self, now_at: float, more: Job | None = None) -> Play:
        """The state to be played forward in any thread; more: with a job that is not submitted.

        Where a budget is spent nothing more is rented in it. Raises Unavailable while the policy is being compiled.
        """
        now_s = max(now_at, self.now_at) - self.ledger.epoch_at
        may_rent = self.limits.why_spent() is None
        if more is None:
            return self._engine.foresee(now_s, may_rent=may_rent)
        grid, request = (
            self.ledger.promise_errors.expected(more, now_at),
            request_of(self.budgets.afforded(more)),
        )
        return self._engine.foresee(now_s, request, grid, may_rent=may_rent)

    def expected(self) -> dict[int, Floats]:
        """Quantiles of the run times, s, of the jobs of which more is known than is believed."""
        return self._engine.expected()

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """Why a job, if it were submitted, would not queue, array and resources aside; null: it would."""
        return by_user(job.user) if job.spec.hold else self._keeps_from_queueing(job, now_at)

    def _keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        found = (part.keeps_from_queueing(job, now_at) for part in self._parts)
        return next((why for why in found if why is not None), None)

    def _refuse(self, spec: JobSpec, user: str) -> None:
        for part in self._parts:
            part.refuses(spec, user)

    def earliest_at(self, job: Job, now_at: float) -> float:
        """The instant before which a job, which may be one that is not submitted, certainly does not begin."""
        return self._earliest.of(job, now_at)

    def foreseen_already(self, numbers: Sequence[int]) -> Foreseen | None:
        """The result of `foresee` for these jobs, as far as they queue, without a play-out; None: it needs one.

        numbers: of jobs accepted by this turn. Jobs that wait for a run to leave (`promises.leaving`) need one.
        """
        if self.has_leaving:
            return None
        jobs = self.ledger.jobs
        return self._engine.foreseen_already(
            [number for number in numbers if number in jobs and jobs[number].account is not None]
        )

    @property
    def weighted_users(self) -> Mapping[str, User]:
        """The users, with the weights that groups leave them."""
        return self._engine.users

    @property
    def nodes_in_brief(self) -> NodesInBrief:
        """The nodes, summed up."""
        return self._state.nodes_in_brief

    @property
    def queue(self) -> Queue:
        """Jobs that wait and run now, and the share of the nodes' busiest resource that is in use."""
        running, whole = len(self._state.job_index.holding), self.nodes_in_brief.capacity
        used = self._state.occupancy.in_use
        shares = (some / most for some, most in zip(used, whole, strict=True) if most > 0)
        return Queue(len(self.ledger.jobs) - running, running, min(max(shares, default=0.0), 1.0))

    def quoted(
        self,
        quote: dict[str, Any],
        queue: Queue,
        learned: Raw | None,
        earliest_at: float,
        believed_at: float,
    ) -> int:
        """Log a promise to a job, and what its interval was made of; returns the quote's number.

        believed_at: as of `PromiseErrors.around`.
        """
        number = self.ledger.next_event
        made_of: dict[str, Any] = {"queue": queue} | ({} if learned is None else {"learned": learned})
        if earliest_at > quote["made_at"]:
            made_of["earliest_at"] = earliest_at
        if not math.isnan(believed_at):
            made_of["believed_at"] = believed_at
        self._state.log(
            "quoted",
            "policy",
            quote["job_id"],
            quote={**quote, "quote_id": number},
            finish_at=quote["finish_at"],
            **made_of,
        )
        return number

    def note_tuning(self, kind: str, cause: str, **data: Any) -> int:
        """Log a search's start or end: `tuning`, `tuning-stopped`, `tuned`, `not-tuned`; returns the event's number."""
        number = self.ledger.next_event
        self._state.log(kind, cause, **data)
        return number
