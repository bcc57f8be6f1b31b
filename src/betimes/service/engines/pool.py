"""A live pool: the core of the pool engine, driven by real events.

A job's true work left is infinite to the core, so that nothing finishes by itself: the executor reports completions,
and the instant of the report is the finish. Everything else is the twin's own loop.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy as shallow

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.resources import Amounts, unit_charge
from betimes.core.closings import closings_of
from betimes.core.instruction import DOUBLE
from betimes.core.pool.columns import State, clear, grown, is_room_for, new_state, room_to_play, with_nodes
from betimes.core.pool.feasible_grants import (
    CLOSES,
    KEPT_BY_OTHERS,
    NO_GAIN,
    NO_ROOM,
    NOT_CURTAILED,
    TOO_SOON,
    asked_for,
)
from betimes.core.status import DONE, NEED_LOG, PAUSED, REFUSED, STUCK
from betimes.core.work import believed_left
from betimes.errors import BetimesError
from betimes.foresight.run_times import HALF
from betimes.foresight.shortcuts import play_in_order
from betimes.kernels import Floats, as_array, blank, entry
from betimes.policies import ChosenPolicy, Policy, Setting
from betimes.policies.hooks import ASK, IN_ORDER, Prepared
from betimes.policies.violations import violation
from betimes.service.engines.accounts import (
    Account,
    account_of,
    expected_left,
    give_account,
    start_and_finish,
)
from betimes.service.engines.messages import (
    NOTHING_EXPECTED,
    Allocation,
    Closings,
    Decisions,
    Expected,
    Foreseen,
    Grant,
    Inputs,
    JobInstruction,
    JobRequest,
    Opening,
    Outrun,
    Play,
    Restored,
    Sharing,
    expected_table,
)
from betimes.service.engines.speedups import Speedups, speed
from betimes.twin.pool import entries
from betimes.twin.pool.event_loop import Outcome, Trace
from betimes.twin.pool.trace_loop import new_trace
from betimes.twin.pool.trials import SLACK, outrunning

FIRST_SLOTS = 64
SPARE_CURVES = 32  # unused curves to keep
WHY_LESS = {
    NOT_CURTAILED: "",
    TOO_SOON: "its number of units changed too recently",
    NO_GAIN: "it would not finish earlier with them",
    KEPT_BY_OTHERS: "other jobs keep their units for now",
    NO_ROOM: "no node has room for more of its units",
    CLOSES: "no node that has room stays open until it would be done",
}
"""Why a job received less than the policy's grant."""
Contention = Mapping[int, tuple[float, float]]
"""By job, as in its account: the events that it has seen, and the sum of the jobs active at each."""
MOST_EVENTS = 10_000_000  # of a play-out
LeftOf = Callable[[int, float], float | None]
"""Work left of a job at an instant, seconds on one unit, where more is known than in its account."""


_believed_left = entry(believed_left, State, int, float)
_asked_for = entry(asked_for)
_play_in_order = entry(play_in_order)
STOPS = 32  # at which a play-out for one job may end
ENTRIES = (*entries.ENTRIES, expected_left, _believed_left, _asked_for, _play_in_order)
"""Entries to compile for a live pool, besides its policy."""


class LivePool:
    """A pool of `units` units on nodes under a policy, in real time.

    capacity: (nodes, 3) thousandths of GPUs, thousandths of cores, MiB. A job's units take its demand, and the policy's
    grants are cut to the room there is. sizes: recent run times of the cluster's jobs, seconds on one unit, for a
    policy that derives its parameters from them. shared: users share, or have limits (`share`).
    """

    def __init__(
        self,
        policy: ChosenPolicy[Policy],
        units: int,
        capacity: NDArray[np.int64],
        *,
        restart_s: float = 0.0,
        resize_interval_s: float = 0.0,
        resize_gain: bool = False,
        sizes: Sequence[float] = (),
        shared: bool = False,
    ) -> None:
        self.policy, self.units, self.restart_s = policy, units, restart_s
        self.sizes = np.array(sizes or [1.0])
        self.curves = Speedups()
        self.slot_of: dict[int, int] = {}
        self.job_of: dict[int, int] = {}
        own = policy.policy
        prepared = self._prepared()
        self.rules = own.rules()
        self.playout = own.playout_whole  # what a play-out may rely on (`policies.hooks`)
        if shared:
            self.rules, self.playout = own.sharing(self.rules), ASK
        self.users: dict[str, int] = {}  # rows of users, where they share
        self.state: State = new_state(
            FIRST_SLOTS,
            prepared.groups,
            units=float(units),
            fractional=False,
            restart_s=restart_s,
            speedup=self.curves.table,
            params=prepared.params,
            table=prepared.table,
            resize_interval_s=resize_interval_s,
            resize_gain=resize_gain,
            capacity=capacity,
            logs=True,
        )
        self.trace = _trace_for(self.state)
        self.held: dict[int, tuple[Allocation, ...]] = {}  # by job, as reported last
        self.unused_nodes: list[int] = []  # numbers of removed nodes
        self._decided: dict[int, set[int]] = {}  # logged decisions by slot, not reported yet
        self._spare: State | None = None  # a copy that has been played forward, for the next play-out
        self.left_of: LeftOf = lambda _job, _at_s: None

    def share(self, sharing: Sharing) -> None:
        """Set the users' weights and limits, and what they hold and have held; of jobs to come, their users' rows."""
        self.users = sharing.rows
        self.state = self.state.replaced(users=sharing.users)

    def next_timer_s(self) -> float:
        """The next outrun belief or wake-up of the policy; a wake-up that decides nothing new does not count."""
        pool = as_array(self.state.pool)  # by field: attributes of a record take several times as long
        wakeup_s = math.inf if pool["period"][0] > 0.0 else pool["wakeup"][0]
        return float(min(pool["next_outrun"][0], wakeup_s))

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off."""
        rounds: list[Decisions] = []
        while (timer_s := self.next_timer_s()) < now_s:
            rounds += self._until(timer_s)
        return rounds

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """As the twin has it: finishes, outruns and wake-ups, then submissions, each followed by a decision."""
        rounds = self.catch_up(now_s)
        idle: list[int] = []
        for job, width in what.widths:
            entries.set_width(self.state, self.slot_of[job], width)
        for job in what.done:
            slot = self.slot_of.pop(job)
            del self.job_of[slot]
            self.held.pop(job, None)
            if self.state.jobs[slot].units > 0.0:
                entries.expect_finish(self.state, slot, now_s)
            else:
                idle.append(slot)
        rounds += self._until(now_s)
        self.state.pool[0].now = now_s
        for slot in idle:
            entries.withdraw(self.state, slot)
        for job, left_s in what.believed:
            entries.believe(self.state, self.slot_of[job], left_s)
        if idle or what.believed or what.widths or what.look:
            self._ask()
            rounds.append(self._round())
        for wanted in what.wanted:
            self._arrive(wanted, now_s)
        if what.wanted:  # repeated decisions at one instant count once
            rounds.append(self._round())
        return rounds

    def lose(self, job: int, now_s: float) -> None:
        """A job has lost its units; `happen` lets the policy look."""
        self.state.pool[0].now = now_s
        entries.lose(self.state, self.slot_of[job])
        self.held.pop(job, None)

    def restore(self, carried: Restored, now_s: float) -> None:
        """Take over a job as it stands, without a decision or passing time."""
        if self.state.pool[0].free == 0:
            self._grow()
        pool = self.state.pool[0]
        pool.now, pool.submitted = now_s, carried.account.seq  # in order of submission
        missed = max(0, pool.submitted - pool.events)
        pool.events += missed
        pool.contention += missed * pool.active
        self.state = self._with_arrival(self.state, self.trace, carried.wanted, now_s)
        slot = entries.take_slot(self.state, self.rules, self.trace, 0)
        self.slot_of[carried.wanted.job], self.job_of[slot] = slot, carried.wanted.job
        account, progress = carried.account, self.state.progress[slot]
        progress.resizes = account.resizes
        give_account(self.state, slot, account, carried.units > 0)
        progress.units_before, progress.stall_before = float(carried.units), account.stall_s
        self._check(entries.queue_up(self.state, self.rules, self.trace, slot), self.state, self.job_of)
        held = int(pool.used) + carried.units
        if held > self.units:  # fewer nodes are left than these jobs were given
            self.state = with_nodes(self.state, np.zeros((0, 3), dtype=np.int64), held)
        for place in reversed(carried.places):  # lists of placements are read from their end
            entries.place_on(self.state, slot, place.node, place.units)
        if carried.units:
            entries.hold(self.state, slot, float(carried.units))
            self.held[carried.wanted.job] = carried.places

    def settle(self, carried: Iterable[Restored]) -> None:
        """Once all are restored: set the contention of each, where it is known."""
        pool = self.state.pool[0]
        for one in carried:
            if one.account.seen_events > 0.0:
                job = self.state.jobs[self.slot_of[one.wanted.job]]
                job.seen_count = pool.events - one.account.seen_events
                job.seen_sum = pool.contention - one.account.seen_active

    def pass_wakeups(self, now_s: float) -> None:
        """Count the wake-ups before `now_s` that decide nothing new; after nodes have changed they would decide."""
        self._run(math.nextafter(now_s, -math.inf))

    def retire(self, what: Inputs, now_s: float) -> None:
        """Another engine takes over: count events that it does not receive, as jobs see them."""
        self.pass_wakeups(now_s)
        for job, width in what.widths:
            entries.set_width(self.state, self.slot_of[job], width)
        for job in what.done:
            entries.withdraw(self.state, self.slot_of.pop(job))

    def account(self, job: int) -> Account:
        """The account of a job."""
        slot = self.slot_of[job]
        account = account_of(self.state, slot)
        account.seen_events, account.seen_active = self._seen(slot)
        return account

    def contention(self) -> Contention:
        """The contention of each job."""
        return {job: self._seen(slot) for job, slot in self.slot_of.items()}

    def _seen(self, slot: int) -> tuple[float, float]:
        pool, jobs = as_array(self.state.pool), as_array(self.state.jobs)
        events = pool["events"][0] - jobs["seen_count"][slot]
        return float(events), float(pool["contention"][0] - jobs["seen_sum"][slot])

    def believed_left(self, job: int, now_s: float) -> float:
        """Believed work left now; below 0 for a job that outran the belief before its timer went off."""
        return float(_believed_left(self.state, self.slot_of[job], now_s))

    def open_node(self, number: int, is_up: bool) -> None:
        """A node takes new units from now on, or none; `happen` lets the policy look."""
        self.state.nodes[number].up = int(is_up)

    def set_closings(self, closings: Closings, now_s: float) -> None:
        """Nodes close at these times, and at no others; `happen` lets the policy look."""
        entries.settle_instant(self.state)  # what has begun just now goes on
        self.state = self.state.replaced(closings=closings_of(closings))
        up = as_array(self.state.nodes)["up"]
        np.minimum(up, 1, out=up)

    def set_limit(self, job: int, limit_s: float) -> None:
        """Set the longest that a run of a job may take from now on, as `JobRequest.limit_s`."""
        if self.places_units:
            self.state.footprints[self.slot_of[job]].limit_s = limit_s

    def add_node(self, capacity: Amounts) -> int:
        """Add a node that is up; returns its number. `set_units` and `happen` follow."""
        if not self.unused_nodes:
            self.unused_nodes.append(len(self.state.nodes))
            self.state = with_nodes(self.state, np.zeros((1, 3), dtype=np.int64), 0)
        number = self.unused_nodes.pop()
        node = self.state.nodes[number]
        node.gpu, node.cpu, node.memory = node.free_gpu, node.free_cpu, node.free_memory = capacity
        node.up = 1
        return number

    def remove_node(self, number: int) -> bool:
        """Remove a node; False: a job has units on it. `set_units` and `happen` follow."""
        if any(place.node == number for held in self.held.values() for place in held):
            return False
        entries.settle_instant(self.state)  # nothing goes back to its earlier place
        node = self.state.nodes[number]
        node.gpu = node.cpu = node.memory = node.free_gpu = node.free_cpu = node.free_memory = node.up = 0
        self.unused_nodes.append(number)
        return True

    def set_units(self, units: int) -> bool:
        """The pool has so many units from now on; `happen` lets the policy look.

        False: the policy makes other classes of such a pool, and another engine has to be made.
        """
        entries.settle_instant(self.state)
        if units == self.units:
            return True
        self.units = units
        prepared = self._prepared()
        if prepared.groups != len(self.state.groups):
            return False
        self.state = with_nodes(
            self.state, np.zeros((0, 3), dtype=np.int64), max(units, int(self.state.pool[0].used))
        )
        self.state = self.state.replaced(params=prepared.params, table=prepared.table)
        entries.change_units(self.state, float(units))
        self._check(entries.rank_anew(self.state, self.rules, self.trace), self.state, self.job_of)
        return True

    @property
    def places_units(self) -> bool:
        """Whether units are on nodes: a pool that was made without any knows of none."""
        return len(self.state.footprints) > 0

    @property
    def free_units(self) -> int:
        """Units that no job holds."""
        pool = self.state.pool[0]
        return int(pool.units - pool.used)

    def first_waiting(self) -> int | None:
        """The first job without units, in the policy's order; of its groups, the first that has one."""
        units = as_array(self.state.jobs)["units"]
        for number, line in enumerate(self.state.order):
            group = self.state.groups[number]
            idle = np.flatnonzero(units[line[group.head : group.tail]] == 0.0)
            if len(idle):
                return self.job_of[int(line[group.head + int(idle[0])])]
        return None

    def why_less(self, job: int) -> tuple[int, str]:
        """Units that the policy last wanted for a job beyond its holding, and why they were cut; 0: none."""
        slot = self.slot_of.get(job)
        if slot is None:  # it is not submitted
            return 0, ""
        asked = int(_asked_for(self.state, slot))
        return asked, WHY_LESS[int(self.state.progress[slot].curtailed)] if asked > 0 else ""

    def sure_to_keep(self, job: int, expected: Expected = NOTHING_EXPECTED) -> tuple[float, float] | None:
        """Start and finish, s, of a job that has just taken all the units that it can use, and keeps them to its end.

        For in-order policies (`IN_ORDER`), once every earlier job holds its maximum. None: a play-out is needed.
        """
        slot, group = self.slot_of.get(job), self.state.groups[0]
        if slot is None or self.playout != IN_ORDER:
            return None
        jobs = as_array(self.state.jobs)
        units, most = jobs["units"], jobs["max_units"]
        if units[slot] != most[slot]:
            return None
        line = self.state.order[0][group.head : group.tail]
        upto = line[: int(np.flatnonzero(line == slot)[0]) + 1]
        if not (units[upto] == most[upto]).all():
            return None
        full = float(self.state.jobs[slot].full_speed)
        return start_and_finish(self.state, slot, expected[job][HALF] * full if job in expected else None)

    def foresee(
        self,
        now_s: float,
        more: JobRequest | None = None,
        openings: Sequence[Opening] = (),
        expected: Expected = NOTHING_EXPECTED,
    ) -> Play:
        """A copy of the beliefs, to be played forward; with one more job, submitted now, if one is given."""
        self._forget_curves()
        copy, jobs, last = self._room_to_play(), dict(self.job_of), -1
        entries.copy_beliefs(self.state, copy)
        waits = as_array(copy.jobs)["units"] == 0.0
        as_array(copy.progress)["started_s"][waits] = np.nan  # preempted jobs are to start again
        trace = self.trace
        if more is not None:
            if copy.pool[0].free == 0:
                copy = grown(copy)
            trace = _trace_for(copy)
            copy = self._with_arrival(copy, trace, more, now_s)
            trace.arrivals[0].work = trace.arrivals[0].believed  # beliefs are true in a play-out
            last = self._take_in(copy, trace, more)
            jobs[last] = more.job
        if expected:
            entries.expect_ends(copy, expected_table(expected, jobs, len(copy.free)))
        outcome = blank(Outcome, len(copy.free))
        as_array(outcome)["start_s"] = as_array(outcome)["finish_s"] = np.nan
        aside = trace.replaced(
            outcome=outcome, keys=np.zeros(len(copy.free)), asked=np.zeros(len(copy.free), dtype=np.int64)
        )
        copy.pool[0].budget = MOST_EVENTS
        played = self._aside(copy, aside, jobs) if openings else None

        def play() -> Foreseen:
            slots = np.array(list(jobs), dtype=np.int64)
            if played is not None:
                start, finish = played._played_out(slots, openings)
            else:
                start, finish = self._played(copy, aside, slots, jobs, last)
                self._spare = copy  # one that is played in another thread meanwhile is another copy
            return Foreseen(list(jobs.values()), start, finish)

        return play

    def _played(
        self, copy: State, aside: Trace, slots: NDArray[np.int64], jobs: Mapping[int, int], last: int = -1
    ) -> tuple[Floats, Floats]:
        """Play a copy to its end; starts and finishes of the jobs in these slots, s, NaN: never.

        last: a slot; once its job is done the play may end, and for what comes later there is NaN, too.
        """
        progress = as_array(copy.progress)
        if self.playout == IN_ORDER:
            if copy.pool[0].pending == 1:
                self._check(entries.advance(copy, self.rules, aside, -math.inf, -1), copy, jobs)
            if _play_in_order(copy):
                finish = progress["finish_at"][slots]
                return progress["started_s"][slots], np.where(np.isinf(finish), np.nan, finish)
        for until_s in self._stops(copy, slots) if last >= 0 else (math.inf,):
            self._check(entries.advance(copy, self.rules, aside, until_s, -1), copy, jobs)
            if last >= 0 and not math.isnan(aside.outcome[last].finish_s):
                break
        start, finish = (as_array(aside.outcome)[name][slots] for name in ("start_s", "finish_s"))
        return np.where(np.isnan(start), progress["started_s"][slots], start), finish

    def _stops(self, copy: State, slots: NDArray[np.int64]) -> list[float]:
        """Instants up to which a copy is played: evenly over the time that all of its work takes, and its end."""
        jobs, now_s = as_array(copy.jobs), float(copy.pool[0].now)
        work_s = float(jobs["remaining_s"][slots].sum()) / max(1, self.units)
        return [*(now_s + work_s * step / STOPS for step in range(1, STOPS)), math.inf]

    def _aside(self, state: State, trace: Trace, job_of: dict[int, int]) -> LivePool:
        """A separate pool on a copy of the state, to be changed as it is played forward."""
        made = shallow(self)
        made.state, made.trace, made.job_of, made.curves = state, trace, job_of, shallow(self.curves)
        made.playout = ASK  # the other way is for a pool that keeps its units
        return made

    def _played_out(self, slots: NDArray[np.int64], openings: Sequence[Opening]) -> tuple[Floats, Floats]:
        """As `_played`, while nodes open."""
        for one in openings:
            self._run(one.at_s)
            self.state.pool[0].now = one.at_s
            self.open_node(one.node, True)
            if not self.set_units(one.units):  # another engine is made then, with unknown classes
                break
            self.state.pool[0].pending = 1
        return self._played(self.state, self.trace, slots, self.job_of)

    def _room_to_play(self) -> State:
        """Room for a copy: the last one's if its shape fits; making it takes longer than filling it."""
        spare, self._spare = self._spare, None
        if spare is None or not is_room_for(self.state, spare):
            return room_to_play(self.state)
        clear(spare)
        return spare

    def _arrive(self, wanted: JobRequest, now_s: float) -> None:
        self._forget_curves()
        if self.state.pool[0].free == 0:
            self._grow()
        self.state = self._with_arrival(self.state, self.trace, wanted, now_s)
        slot = self._take_in(self.state, self.trace, wanted)
        self.slot_of[wanted.job], self.job_of[slot] = slot, wanted.job
        self._ask()
        if wanted.work_s is not None:
            entries.believe(self.state, slot, wanted.work_s * SLACK)

    def _take_in(self, state: State, trace: Trace, wanted: JobRequest) -> int:
        """Submit trace.arrivals[0] to `state`, which has a free slot; returns it. The policy is to be asked."""
        state.pool[0].now = trace.arrivals[0].submit_s
        slot = entries.take_slot(state, self.rules, trace, 0)
        jobs = ChainMap({slot: wanted.job}, self.job_of)
        self._check(entries.queue_up(state, self.rules, trace, slot), state, jobs)
        state.progress[slot].row = slot
        state.pool[0].pending = 1
        return slot

    def _with_arrival(self, state: State, trace: Trace, wanted: JobRequest, now_s: float) -> State:
        """Write the job into trace.arrivals[0]; returns the state, which knows its curve."""
        row = self.curves.row_of(wanted)
        state = self._with_curves(state)
        arrival = trace.arrivals[0]
        arrival.submit_s, arrival.work = now_s, math.inf
        arrival.min_units, arrival.max_units, arrival.curve = wanted.min_units, wanted.max_units, row
        arrival.gpu, arrival.cpu, arrival.memory = wanted.demand
        arrival.limit_s = wanted.limit_s
        work_s = wanted.runtime_estimate_s * speed(wanted, wanted.max_units)
        arrival.believed = work_s if wanted.work_s is None else wanted.work_s
        arrival.believed_per_work = 1.0
        arrival.user = self.users.get(wanted.user, -1)
        arrival.priority, arrival.charge = wanted.priority, unit_charge(wanted.unit.most)
        return state

    def _with_curves(self, state: State) -> State:
        """The state with the present table of curves, and the policy's tables from it."""
        if state.speedup is self.curves.table:
            return state
        prepared = self._prepared()
        return state.replaced(speedup=self.curves.table, params=prepared.params, table=prepared.table)

    def _forget_curves(self) -> None:
        """Drop unused curves before there are many of them."""
        if len(self.curves) <= 2 * len(self.job_of) + SPARE_CURVES:
            return
        slots, curve = list(self.job_of), as_array(self.state.jobs)["curve"]
        moved = self.curves.keep(curve[slots].tolist())
        curve[slots] = [moved[row] for row in curve[slots].tolist()]
        self.state = self._with_curves(self.state)

    def _prepared(self) -> Prepared:
        setting = Setting(float(self.units), False, self.curves.table, self.sizes, self.restart_s)
        return self.policy.policy.prepared(self.policy.values, setting)

    def _until(self, until_s: float) -> list[Decisions]:
        """Let timers and finishes up to an instant happen; the policy decides as they do."""
        rounds, pool = self._learn(until_s), as_array(self.state.pool)
        events = int(pool["events"][0])
        self._run(until_s)
        if pool["events"][0] > events:
            rounds.append(self._round())
        return rounds

    def _learn(self, until_s: float) -> list[Decisions]:
        """Set the known work left of jobs that outrun their beliefs."""
        at_s = float(self.state.pool[0].next_outrun)
        known = [(slot, self.left_of(self.job_of[slot], at_s)) for slot in outrunning(self.state, until_s)]
        known = [(slot, left_s) for slot, left_s in known if left_s is not None]
        if not known:
            return []
        self.state.pool[0].now = at_s
        for slot, left_s in known:
            before_s = float(self.state.jobs[slot].size_s)
            entries.believe(self.state, slot, left_s)
            if self.state.jobs[slot].size_s != before_s:
                self._decided.setdefault(slot, set()).add(DOUBLE)
        self._ask()
        return [self._round()]

    def _ask(self) -> None:
        """The policy decides now."""
        self.state.pool[0].pending = 1
        self._run(-math.inf)

    def _run(self, until_s: float) -> None:
        """Process everything due up to an instant, and read the log."""
        status = NEED_LOG
        while status == NEED_LOG:
            status = entries.advance(self.state, self.rules, self.trace, until_s, -1)
            self._check(status, self.state, self.job_of)
            pool = self.state.pool[0]
            lines = as_array(self.state.log)[: pool.logged]
            for slot, what in zip(lines["job"].tolist(), lines["what"].tolist(), strict=True):
                self._decided.setdefault(slot, set()).add(what)
            pool.logged = 0

    def _round(self) -> Decisions:
        """The decisions since the last call, as of now: jobs that give up units come first."""
        outruns, grants = list[JobInstruction](), list[Grant]()
        decided = {slot: what for slot, what in self._decided.items() if slot in self.job_of}
        self._decided = {}
        for slot in sorted(decided, key=lambda slot: self.state.jobs[slot].seq):
            job, places = self.job_of[slot], self._places(slot)
            before = self.held.get(job, ())
            if DOUBLE in decided[slot]:
                outruns.append(Outrun(job, float(self.state.jobs[slot].size_s)))
            if places != before:
                grants.append(Grant(job, _units(before), _units(places), places))
                self.held[job] = places
        grants.sort(key=lambda grant: grant.units > grant.before)
        return Decisions(float(self.state.pool[0].now), (*outruns, *grants))

    def _places(self, slot: int) -> tuple[Allocation, ...]:
        """Places of a job's units."""
        held: list[Allocation] = []
        at = int(self.state.footprints[slot].placed)
        while at >= 0:
            placement = self.state.placements[at]
            held.append(Allocation(int(placement.node), int(placement.tasks)))
            at = int(placement.follows)
        return tuple(held)

    def _grow(self) -> None:
        self.state = grown(self.state)
        self.trace = _trace_for(self.state)

    def _check(self, status: int, state: State, job_of: Mapping[int, int]) -> int:
        if status >= REFUSED:
            pool = state.pool[0]
            job = str(job_of[pool.offender]) if pool.offender in job_of else None
            raise violation(str(self.policy), status - REFUSED, job, float(pool.now), state is not self.state)
        if status not in (DONE, PAUSED, STUCK, NEED_LOG):
            raise BetimesError(f"internal: the event loop returned {status}")
        return status


def _units(places: Sequence[Allocation]) -> int:
    return sum(place.units for place in places)


def _trace_for(state: State) -> Trace:
    """Room for one arrival, in row 0, and for the outcome of each slot."""
    return new_trace(len(state.free), 1, len(state.free))
