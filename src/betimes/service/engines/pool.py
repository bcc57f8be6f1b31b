"""A live pool: the core of the pool engine, driven by real events.

A job's true work left is infinite to the core, so that nothing finishes by itself: the executor reports completions,
and the instant of the report is the finish. Everything else is the twin's own loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Offer
from betimes.cluster.resources import Amounts, unit_charge
from betimes.core.closings import closings_of
from betimes.core.instruction import DOUBLE
from betimes.core.pool.columns import State, new_state, with_nodes
from betimes.core.pool.feasible_grants import (
    CLOSES,
    KEPT_BY_OTHERS,
    NO_GAIN,
    NO_ROOM,
    NOT_CURTAILED,
    TOO_SOON,
    asked_for,
)
from betimes.core.work import believed_left
from betimes.foresight.run_times import HALF
from betimes.foresight.shortcuts import play_in_order
from betimes.kernels import Floats, FloatTable, as_array, entry
from betimes.policies import ChosenPolicy, Policy, Setting
from betimes.policies.hooks import ASK, IN_ORDER, Prepared
from betimes.policies.pool.renting import renting_rule
from betimes.service.engines.accounts import expected_left, start_and_finish
from betimes.service.engines.messages import (
    NOTHING_EXPECTED,
    Allocation,
    Closings,
    Decisions,
    Exempt,
    Expected,
    Foreseen,
    Grant,
    Inputs,
    Instruction,
    JobInstruction,
    JobRequest,
    Opening,
    Outrun,
    Play,
    Restored,
    Sharing,
    expected_table,
)
from betimes.service.engines.pool_machines import PoolMachines
from betimes.service.engines.speedups import Speedups, speed
from betimes.twin.account import Account, account_of, give_account
from betimes.twin.pool import entries
from betimes.twin.pool.driver import Driver
from betimes.twin.pool.rented import RentedMachines, units_for_work
from betimes.twin.pool.trace_loop import new_outcomes, new_trace
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
LeftOf = Callable[[int, float], float | None]
"""Work left of a job at an instant, seconds on one unit, where more is known than in its account."""


_believed_left = entry(believed_left, State, int, float)
_asked_for = entry(asked_for)
_play_in_order = entry(play_in_order)
STOPS = 32  # at which a play-out for one job may end
ENTRIES = (*entries.ENTRIES, expected_left, _believed_left, _asked_for, _play_in_order, units_for_work)
"""Entries to compile for a live pool, besides its policy."""


class LivePool:
    """A pool of `units` units on nodes under a policy, in real time.

    capacity: (nodes, 3) thousandths of GPUs, thousandths of cores, MiB. A job's units take its demand, and the policy's
    grants are cut to the room there is. sizes: recent run times of the cluster's jobs, seconds on one unit, for a
    policy that derives its parameters from them. shared: users share, or have limits (`share`). offers, quota: of
    machines that the policy rents by its rule, if it has one; unit_of: the resource that is a unit, 0: GPUs, 1: cores.
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
        offers: Sequence[Offer] = (),
        quota: int | None = None,
        unit_of: int = 1,
    ) -> None:
        self.policy, self.restart_s = policy, restart_s
        self.sizes = np.array(sizes or [1.0])
        self.curves = Speedups()
        self.slot_of: dict[int, int] = {}
        self.job_of: dict[int, int] = {}
        own = policy.policy
        prepared = self._prepared(units, self.curves.table)
        rules = own.rules()
        self.playout = own.playout_whole  # what a play-out may rely on (`policies.hooks`)
        if shared:
            rules, self.playout = own.sharing(rules), ASK
        rule = renting_rule(str(policy), policy.values) if offers else None
        if rule is not None:
            self.playout = ASK
        self.users: dict[str, int] = {}  # rows of users, where they share
        self.exempt: Mapping[str, int] = {}  # bits of closings that do not concern users' jobs
        state = new_state(
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
            # Columns for nodes, which will be there, are made for one at least.
            capacity=capacity if rule is None or len(capacity) else np.zeros((1, 3), dtype=np.int64),
            logs=True,
        )
        trace = new_trace(1, 1, FIRST_SLOTS).replaced(outcome=new_outcomes(0))  # for each arrival in turn
        self.driver = Driver(
            *(state, rules, trace, np.zeros(1, dtype=np.int64), str(policy)),
            self._name_of,
        )
        self.machines: PoolMachines | None = None
        if rule is not None:
            rented = RentedMachines(rule, offers, quota, units, unit_of, self._prepared, str(policy), True)
            self.machines = PoolMachines(self.driver, rented)
        self.held: dict[int, tuple[Allocation, ...]] = {}  # by job, as reported last
        # By slot, as logged and not reported yet: the places of a job's units; all believed work after an outrun.
        self._granted: dict[int, list[Allocation]] = {}
        self._doubled: dict[int, float] = {}
        self.left_of: LeftOf = lambda _job, _at_s: None

    @property
    def state(self) -> State:
        """The pool as it is now."""
        return self.driver.state

    @property
    def units(self) -> int:
        """The size of the pool."""
        return int(self.state.pool[0].units)

    def share(self, sharing: Sharing) -> None:
        """Set the users' weights and limits, and what they hold and have held; of jobs to come, their users' rows."""
        self.users = sharing.rows
        self.driver.state = self.state.replaced(users=sharing.users)

    def next_timer_s(self) -> float:
        """The next outrun belief, look at a rented machine or wake-up of the policy.

        A wake-up that decides nothing new does not count.
        """
        pool = as_array(self.state.pool)  # by field: attributes of a record take several times as long
        wakeup_s = math.inf if pool["period"][0] > 0.0 else pool["wakeup"][0]
        return float(min(pool["next_outrun"][0], wakeup_s, self._machines_s()))

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off."""
        rounds: list[Decisions] = []
        while (timer_s := self.next_timer_s()) < now_s:
            rounds += self._until(timer_s)
        return rounds

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """As the twin has it: finishes, outruns and wake-ups, then submissions, each followed by a decision."""
        rounds = self.catch_up(now_s)
        if self.machines is not None:
            self.machines.begin(now_s)
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
        # In order of submission one decision gives what one after each arrival would, so that a list is placed once.
        at_once = self.playout == IN_ORDER and self.machines is None
        at_once = at_once and all(request.work_s is None for request in what.requests)
        for request in what.requests:
            self._arrive(request, now_s, asks=not at_once)
        if what.requests:  # repeated decisions at one instant count once
            if at_once:
                self._ask()
            rounds.append(self._round())
        return rounds

    def lose(self, job: int, now_s: float) -> None:
        """A job has lost its units; `happen` lets the policy look."""
        self.state.pool[0].now = now_s
        entries.lose(self.state, self.slot_of[job])
        self.held.pop(job, None)

    def restore(self, carried: Restored, now_s: float) -> None:
        """Take over a job as it stands, without a decision or passing time."""
        pool = self.state.pool[0]
        pool.submitted = carried.account.seq  # in order of submission
        missed = max(0, pool.submitted - pool.events)
        pool.events += missed
        pool.contention += missed * pool.active
        self._fill(self.driver, carried.request, now_s)
        slot = self.driver.take_in(0)
        self.slot_of[carried.request.job], self.job_of[slot] = slot, carried.request.job
        account, progress = carried.account, self.state.progress[slot]
        progress.resizes, progress.row = account.resizes, slot
        give_account(self.state, slot, account, carried.units > 0)
        progress.units_before, progress.stall_before = float(carried.units), account.stall_s
        self.driver.queue_up(slot)
        held = int(self.state.pool[0].used) + carried.units
        if held > self.units:  # fewer nodes are left than these jobs were given
            self.driver.state = with_nodes(self.state, np.zeros((0, 3), dtype=np.int64), held)
        for place in reversed(carried.places):  # lists of placements are read from their end
            entries.place_on(self.state, slot, place.node, place.units)
        if carried.units:
            entries.hold(self.state, slot, float(carried.units))
            self.held[carried.request.job] = carried.places

    def settle(self, carried: Iterable[Restored]) -> None:
        """Once all are restored: set the contention of each, where it is known."""
        pool = self.state.pool[0]
        for one in carried:
            if one.account.seen_events > 0.0:
                job = self.state.jobs[self.slot_of[one.request.job]]
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
        pool = self.state.pool[0]
        decides = any(self.state.jobs[self.slot_of[job]].units > 0.0 for job in what.done)
        if pool.wakeup == now_s and not decides and pool.next_outrun > now_s:
            # What ends or outruns its belief at that instant sets another wake-up.
            pool.contention += pool.active
            pool.events += 1
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
        if self.machines is None or not self.machines.open_node(number, is_up):
            self.state.nodes[number].up = int(is_up)

    def set_closings(self, closings: Closings, exempt: Exempt, now_s: float) -> None:
        """Nodes close at these times, and at no others; `happen` lets the policy look."""
        entries.settle_instant(self.state)  # what has begun just now goes on
        self.driver.state = self.state.replaced(closings=closings_of(closings))
        self.exempt = exempt.by_user
        self.state.pool[0].exempts = int(any(bit for *_, bit in closings))
        for job, slot in self.slot_of.items() if self.places_units else ():
            self.state.footprints[slot].exempt = exempt.by_job.get(job, 0)
        up = as_array(self.state.nodes)["up"]
        np.minimum(up, 1, out=up)

    def set_limit(self, job: int, limit_s: float) -> None:
        """Set the longest that a run of a job may take from now on, as `JobRequest.limit_s`."""
        if self.places_units:
            self.state.footprints[self.slot_of[job]].limit_s = limit_s

    def add_node(self, capacity: Amounts) -> int:
        """Add a node that is up; returns its number. `set_units` and `happen` follow."""
        number = self.driver.take_node()
        self.driver.equip(number, capacity)
        return number

    def remove_node(self, number: int) -> bool:
        """Remove a node; False: a job has units on it. `set_units` and `happen` follow."""
        if any(place.node == number for held in self.held.values() for place in held):
            return False
        self.driver.clear_node(number)
        self.driver.unused_nodes.append(number)
        return True

    def set_units(self, units: int) -> bool:
        """The pool has so many units from now on beside the machines that it rents; `happen` lets the policy look.

        False: the policy makes other classes of such a pool, and another engine has to be made.
        """
        return (
            self.driver.resize(units, self._prepared) if self.machines is None else self.machines.own(units)
        )

    @property
    def places_units(self) -> bool:
        """Whether units are on nodes: a pool that was made without any knows of none."""
        return len(self.state.footprints) > 0

    @property
    def free_units(self) -> int:
        """Units that no job holds."""
        pool = self.state.pool[0]
        return int(pool.units - pool.used)

    @property
    def heeds_beliefs(self) -> bool:
        """Whether the policy decides by what is believed of jobs, not by their order of submission alone."""
        return self.playout != IN_ORDER

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
        *,
        may_rent: bool = True,
    ) -> Play:
        """A copy of the beliefs, to be played forward; with one more job, submitted now, if one is given.

        may_rent: machines; else those that are rented by now are all that there are.
        """
        self._forget_curves()
        driver, jobs, last = self.driver.copy(len(self.state.free) + 1), dict(self.job_of), -1
        driver.name_of = jobs.get
        rented = driver.machines if isinstance(driver.machines, RentedMachines) else None
        if rented is not None:
            rented.expect(now_s)
            rented.quota = rented.quota if may_rent else 0
        waits = as_array(driver.state.jobs)["units"] == 0.0
        as_array(driver.state.progress)["started_s"][waits] = np.nan  # preempted jobs are to start again
        if more is not None:
            self._fill(driver, more, now_s)
            arrival = driver.trace.arrivals[0]
            arrival.work = arrival.believed  # beliefs are true in a play-out
            last = self._take_in(driver, jobs, more.job)
            if rented is not None:
                rented.order(driver)
            driver.state.pool[0].pending = 1
        if expected:
            entries.expect_ends(driver.state, expected_table(expected, jobs, len(driver.state.free)))

        if openings:
            way, last = ASK, -1  # the others are for a pool that keeps its units
        else:
            way = self.playout

        def play() -> Foreseen:
            slots = np.array(list(jobs), dtype=np.int64)
            self._open(driver, openings)
            before = as_array(driver.state.progress)["preemptions"][slots]
            start, finish = self._played(driver, slots, way, last)
            kept = _preemptions(driver, slots) == before
            self.driver.spare = driver.state  # one that is played in another thread meanwhile is another copy
            numbers = list(jobs.values())
            lost = [numbers[at] for at in np.flatnonzero(~kept).tolist()]
            return Foreseen(numbers, start, finish, preempted=lost)

        return play

    def _open(self, driver: Driver, openings: Sequence[Opening]) -> None:
        """Play a copy forward while nodes open."""
        for one in openings:
            driver.advance(one.at_s)
            driver.state.pool[0].now = one.at_s
            driver.state.nodes[one.node].up = 1
            units, rented = one.units, driver.machines
            if isinstance(rented, RentedMachines):
                rented.owned = units
                units = rented.units
            # Where it makes other classes another engine is made then, with classes that are unknown now.
            if not driver.resize(units, self._prepared):
                return
            driver.state.pool[0].pending = 1

    def _played(self, driver: Driver, slots: NDArray[np.int64], way: int, last: int) -> tuple[Floats, Floats]:
        """Play a copy to its end; starts and finishes of the jobs in these slots, s, NaN: never.

        way: as in `policies.hooks`. last: a slot; once its job is done the play may end, and for what comes later there
        is NaN, too; -1: none.
        """
        progress = as_array(driver.state.progress)
        if way == IN_ORDER:
            driver.advance(-math.inf)  # the policy may still have to be asked
            if _play_in_order(driver.state):
                finish = progress["finish_at"][slots]
                return progress["started_s"][slots], np.where(np.isinf(finish), np.nan, finish)
        outcome = driver.trace.outcome
        for until_s in self._stops(driver.state, slots) if last >= 0 else (math.inf,):
            driver.advance(until_s)
            if last >= 0 and not math.isnan(outcome[last].finish_s):
                break
        start, finish = (as_array(outcome)[name][slots] for name in ("start_s", "finish_s"))
        return np.where(np.isnan(start), progress["started_s"][slots], start), finish

    def _stops(self, copy: State, slots: NDArray[np.int64]) -> list[float]:
        """Instants up to which a copy is played: evenly over the time that all of its work takes, and its end."""
        jobs, now_s = as_array(copy.jobs), float(copy.pool[0].now)
        work_s = float(jobs["remaining_s"][slots].sum()) / max(1.0, float(copy.pool[0].units))
        return [*(now_s + work_s * step / STOPS for step in range(1, STOPS)), math.inf]

    def _arrive(self, request: JobRequest, now_s: float, *, asks: bool) -> None:
        """A job is submitted; asks: the policy decides now, before the next one is."""
        self._forget_curves()
        self._fill(self.driver, request, now_s)
        self.slot_of[request.job] = slot = self._take_in(self.driver, self.job_of, request.job)
        if isinstance(self.driver.machines, RentedMachines):
            self.driver.machines.order(self.driver)
        if asks:
            self._ask()
        if request.work_s is not None:
            entries.believe(self.state, slot, request.work_s * SLACK)

    def _take_in(self, driver: Driver, job_of: dict[int, int], job: int) -> int:
        """Submit the job of the filled arrival; returns its slot. The policy is to be asked."""
        slot = driver.take_in(0)
        job_of[slot] = job
        driver.queue_up(slot)
        driver.state.progress[slot].row = slot
        return slot

    def _fill(self, driver: Driver, request: JobRequest, now_s: float) -> None:
        """Write the job into the arrival of a driver, whose state then knows its curve."""
        row = self.curves.row_of(request)
        self._use_curves(driver)
        arrival = driver.trace.arrivals[0]
        arrival.submit_s, arrival.work = now_s, math.inf
        arrival.min_units, arrival.max_units, arrival.curve = request.min_units, request.max_units, row
        arrival.gpu, arrival.cpu, arrival.memory = request.demand
        arrival.limit_s, arrival.exempt = request.limit_s, self.exempt.get(request.user, 0)
        work_s = request.runtime_estimate_s * speed(request, request.max_units)
        arrival.believed = work_s if request.work_s is None else request.work_s
        arrival.believed_per_work = 1.0
        arrival.user = self.users.get(request.user, -1)
        arrival.priority, arrival.charge = request.priority, unit_charge(request.unit.most)

    def _use_curves(self, driver: Driver) -> None:
        """Give a driver the present table of curves, and the policy's tables from it."""
        state, table = driver.state, self.curves.table
        if state.speedup is not table:
            prepared = self._prepared(int(state.pool[0].units), table)
            driver.state = state.replaced(speedup=table, params=prepared.params, table=prepared.table)

    def _forget_curves(self) -> None:
        """Drop unused curves before there are many of them."""
        if len(self.curves) <= 2 * len(self.job_of) + SPARE_CURVES:
            return
        slots, curve = list(self.job_of), as_array(self.state.jobs)["curve"]
        moved = self.curves.keep(curve[slots].tolist())
        curve[slots] = [moved[row] for row in curve[slots].tolist()]
        self._use_curves(self.driver)

    def _prepared(self, units: int, speedup: FloatTable) -> Prepared:
        setting = Setting(float(units), False, speedup, self.sizes, self.restart_s)
        return self.policy.policy.prepared(self.policy.values, setting)

    def _until(self, until_s: float) -> list[Decisions]:
        """Let timers and finishes up to an instant happen; the policy decides as they do."""
        rounds, pool = self._learn(until_s), as_array(self.state.pool)
        events, changes = int(pool["events"][0]), self._machines_s() <= until_s
        self._run(until_s)
        if pool["events"][0] > events or changes:
            rounds.append(self._round())
        return rounds

    def _machines_s(self) -> float:
        """When a rented machine is looked at next, or machines are ordered; infinity: never."""
        return math.inf if self.driver.machines is None else self.driver.machines.next_s

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
                self._doubled[slot] = float(self.state.jobs[slot].size_s)
        self._ask()
        return [self._round()]

    def _ask(self) -> None:
        """The policy decides now."""
        self._note(self.driver.ask())

    def _run(self, until_s: float) -> None:
        """Process everything due up to an instant."""
        self._note(self.driver.advance(until_s))

    def _note(self, lines: NDArray[Any]) -> None:
        """Note the core's instructions; of several about a job the last one holds."""
        columns = (lines[name].tolist() for name in ("what", "job", "node", "tasks", "value"))
        for what, slot, node, units, value in zip(*columns, strict=True):
            if what == DOUBLE:
                self._doubled[slot] = value
            elif node < 0:  # the places of its units follow
                self._granted[slot] = []
            else:
                self._granted[slot].append(Allocation(node, units))

    def _round(self) -> Decisions:
        """The decisions since the last call, as of now: jobs that give up units come first."""
        outruns, grants, of_machines = list[JobInstruction](), list[Grant](), list[Instruction]()
        lost = list[int]()
        if self.machines is not None:
            lost, of_machines = self.machines.take()
            self._granted |= {slot: self._placed(slot) for slot in lost}
        decided = self._doubled.keys() | self._granted.keys()
        for slot in sorted(decided, key=lambda slot: self.state.jobs[slot].seq):
            job = self.job_of.get(slot)
            if job is None:
                continue
            if slot in self._doubled:
                outruns.append(Outrun(job, self._doubled[slot]))
            before = self.held.get(job, ())
            places = tuple(self._granted.get(slot, before))
            if places != before:
                moves = slot in lost and len(before) > 0
                grants.append(Grant(job, _units(before), _units(places), places, moves=moves))
                self.held[job] = places
        self._granted, self._doubled = {}, {}
        grants.sort(key=lambda grant: grant.units > grant.before and not grant.moves)
        return Decisions(float(self.state.pool[0].now), (*outruns, *grants, *of_machines))

    def _placed(self, slot: int) -> list[Allocation]:
        """The places of a job's units now."""
        found, at = list[Allocation](), int(self.state.footprints[slot].placed)
        while at >= 0:
            place = self.state.placements[at]
            found.append(Allocation(int(place.node), int(place.tasks)))
            at = int(place.follows)
        return found

    def _name_of(self, slot: int) -> int | None:
        return self.job_of.get(slot)


def _preemptions(driver: Driver, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of times that each of these jobs of a copy has lost all of its units, after a play."""
    done = as_array(driver.trace.outcome)["preemptions"][slots]
    return np.maximum(done, as_array(driver.state.progress)["preemptions"][slots])


def _units(places: Sequence[Allocation]) -> int:
    return sum(place.units for place in places)
