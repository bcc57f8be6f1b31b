"""Live nodes: the core of the nodes engine, driven by real events.

A job's true run time is infinite to the core, so that nothing finishes by itself: the executor reports completions,
and the instant of the report is the finish. A preempted job has left once its exit is reported. What is known by
job is in `jobs_on_nodes`, how the log is read in `instructions`, what a selection starts from in `selection`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Offer
from betimes.cluster.labels import mask
from betimes.cluster.shapes import Shape, Shapes
from betimes.core.closings import closings_of
from betimes.core.nodes.columns import BLOCK, Lease, NodesState
from betimes.core.nodes.growth import new_nodes_state
from betimes.core.nodes.machines.dedicated import machines_for, offer_for
from betimes.core.nodes.machines.rented import FAILED, TAKEN_AWAY
from betimes.core.nodes.machines.reported import add_owned, put_off, remove_owned
from betimes.core.nodes.passes.preemption import nominate_again
from betimes.core.nodes.passes.schedule import change_rules
from betimes.core.nodes.rules import CONSERVATIVE, SKIP, NodesRules
from betimes.core.pool.columns import UNLIMITED
from betimes.core.status import ASKED, FORESEE, NEED_NODES, NEED_SEGMENTS, NEED_SLOTS, SELECT
from betimes.core.work import believed_left
from betimes.foresight.run_times import HALF
from betimes.kernels import as_array, blank, entry
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy, rules_in_turn
from betimes.policies.nodes.portfolio import changes_member
from betimes.service.engines import jobs_on_nodes, rented_machines
from betimes.service.engines.accounts import expected_left, start_and_finish, waiting_account, waits_until_s
from betimes.service.engines.dedicated_machines import known_live, live_terms, plays_out, rooms_of, units_on
from betimes.service.engines.instructions import instructions_in
from betimes.service.engines.jobs_on_nodes import NEW_JOB, PATIENCE_S, JobsOnNodes, are_of
from betimes.service.engines.messages import (
    NOTHING_EXPECTED,
    Closings,
    Decisions,
    Exempt,
    Expected,
    Foreseen,
    Inputs,
    JobRequest,
    LeaseAhead,
    Opening,
    Play,
    Restored,
    Sharing,
    expected_table,
)
from betimes.service.engines.planner_rounds import LiveRounds, planners_for
from betimes.service.engines.rented_machines import RentedMachines
from betimes.service.engines.selection import MemberRules, SelectionSnapshot, snapshot_of
from betimes.twin.account import Account, account_of, give_account
from betimes.twin.nodes import entries
from betimes.twin.nodes.driver import Answers, Driver
from betimes.twin.nodes.event_loop import Outcome
from betimes.twin.nodes.trace_loop import in_rows, new_trace, run_rows

FIRST_SLOTS = 64
FIRST_PLACEMENTS = 256
FIRST_LOG = 2048  # lines
FIRST_LEASES = 64  # of a play-out
FIRST_PLAN = 64  # steps of a plan of reservations
EARLY_OR_LATE_S = 1e-6
MOST_INSTANTS = 200_000  # of a play-out under a policy that rents machines


_believed_left = entry(believed_left, NodesState, int, float)
_offer_for = entry(offer_for, NodesState, int, bool)
_adopt = entry(change_rules, NodesState, NodesRules)
_nominate_again = entry(nominate_again, NodesState, NodesRules, int, int)
_machines_for = entry(machines_for, NodesState, int, int)
_add_owned = entry(add_owned, NodesState, int, int, int, int, int, int)
_remove_owned = entry(remove_owned, NodesState, int)
_put_off = entry(put_off, NodesState, float, float)
ENTRIES = (
    run_rows,
    *entries.ENTRIES,
    expected_left,
    _believed_left,
    _offer_for,
    _machines_for,
    _adopt,
    _nominate_again,
    _add_owned,
    _remove_owned,
    _put_off,
    *jobs_on_nodes.ENTRIES,
    *rented_machines.ENTRIES,
)
"""Entries to compile for live nodes, besides their policy."""


class LiveNodes:
    """Nodes under a policy, in real time.

    machines: the shape of each node; kinds: (nodes,) equal for equal nodes; shapes: of those that take work, by which
    jobs are split into tasks. lease_s, longest_run_s: as in `core.nodes.columns.Cluster`. shared: users share, or have
    limits (`share`).
    """

    def __init__(
        self,
        policy: ChosenPolicy[NodesPolicy],
        machines: Shapes,
        kinds: NDArray[np.int64],
        *,
        shapes: Shapes,
        units: float,
        restart_s: float = 0.0,
        seed: int = 0,
        offers: Sequence[Offer] = (),
        quota: int | None = None,
        lease_s: float = math.inf,
        longest_run_s: float = math.inf,
        member: str | None = None,
        plans_aside: bool = False,
        shared: bool = False,
    ) -> None:
        self.policy = policy
        own, values = policy.policy, policy.values
        in_turn = [known_live(each) for each in own.in_turn(values)]
        self.rents = own.rents_alone(values) and len(offers) > 0
        self.provisions = own.shares_rented(values) and len(offers) > 0
        self.rounds: LiveRounds | None = None
        decides = next((at for at, each in enumerate(in_turn) if each.name == member), 0)
        if own.plans(values):
            planners = planners_for(in_turn, offers, quota)
            self.rounds = LiveRounds(
                planners, str(policy), in_turn[decides].name, offers, restart_s, is_aside=plans_aside
            )
        self.foresees = self.rents and plays_out(values)
        self.jobs = JobsOnNodes(
            machines, shapes, offers, self.rounds, rents=self.rents, shares=self.provisions
        )
        self.machines = RentedMachines(self.jobs)
        self.slot_of, self.job_of = self.jobs.slot_of, self.jobs.job_of
        params = own.params(values)  # with room for those of any member
        first = in_turn[decides].policy.params(in_turn[decides].values)
        params[: len(first)] = first
        rules = rules_in_turn(in_turn, shared=shared)[decides]
        self.selects_every_s: float | None = None
        self.member: str | None = None
        self.changes_member = changes_member(own, values)
        self._selection: SelectionSnapshot | None = None
        if own.members is not None:
            self.selects_every_s = cast("float", values["period"]) * cast("float", values["tick"])
            self.member = in_turn[decides].name
        if not self.rents:  # there is nothing to rent: all jobs wait
            rules = rules.replaced(waits=False)
        elif self.foresees:
            rules = rules.replaced(plays=True)
        self._new_state = partial(
            new_nodes_state,
            units=units,
            restart_s=restart_s,
            seed=seed,
            by_priority=in_turn[0].policy.by_priority,
            guarded=any(each.policy.is_users for each in in_turn),
            slots=FIRST_SLOTS,
            placements=max(FIRST_PLACEMENTS, 4 * len(machines)),
            steps=FIRST_PLAN if rules.backfill >= CONSERVATIVE else 1,
            log=FIRST_LOG,
            quota=UNLIMITED if quota is None else quota,
            lease_s=lease_s,
            longest_run_s=longest_run_s,
            observed=rules.observes,
            rents_alone=own.rents_alone(values) or len(offers) > 0,  # or a job comes with its machines
            largest=np.array(self.jobs.largest),
        )
        state = self._new_state(
            np.array([each.amounts for each in machines], dtype=np.int64).reshape(-1, 3),
            kinds,
            families=np.array([self.jobs.family_of(each) for each in machines], dtype=np.int64),
            family_count=len(self.jobs.families),
            demands=self.jobs.demands.table,
            params=params,
            offers=live_terms(offers, shares=self.provisions),
        )
        answers: Answers = {
            ASKED: self._ask_planner,
            SELECT: self._note_selection,  # the policy in force goes on until something is chosen
            FORESEE: self._foresee_wait,
        }
        nothing = new_trace(0, 1), np.zeros(1, np.int64)  # has been submitted yet
        self.driver = Driver(state, rules, *nothing, str(policy), self.jobs.name_of, answers)
        self.jobs.driver = self.driver
        self.jobs.set_speeds(offers)
        self._coming: Sequence[JobRequest] = ()  # submitted, and not yet registered by slot
        self._first = 0  # the order of submission of the first of them
        if self.selects_every_s is not None:
            state.cluster[0].select_s = 0.0
        self._carried_row = new_trace(1, 1)  # for each restored job in turn

    @property
    def state(self) -> NodesState:
        """The cluster as it is now."""
        return self.driver.state

    @property
    def rules(self) -> NodesRules:
        """The rules of the policy in force."""
        return self.driver.rules

    def share(self, sharing: Sharing) -> None:
        """Set the users' weights and limits, and what they hold and have held; of jobs to come, their users' rows."""
        self.jobs.users = sharing.rows
        self.driver.state = self.state.replaced(users=sharing.users)
        self.jobs.changed = True
        if self.rounds is not None:
            self.rounds.ask_anew()

    def set_speeds(self, offers: Sequence[Offer], now_s: float) -> dict[int, float]:
        """Let machines of these offers run workloads at the offers' speeds from now on; `happen` lets the policy look.

        Returns the speed of each job that works at another now, over that before.
        """
        self.state.pool[0].now = now_s
        if self.rounds is not None:
            self.rounds.set_speeds(offers)
        self.jobs.changed = True
        return self.jobs.set_speeds(offers)

    def next_timer_s(self) -> float:
        """The instant at which the next belief is outrun, or a victim should have left."""
        return float(self.state.timers[0].at_s) if self.state.cluster[0].timers > 0 else math.inf

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off."""
        self._put_off(math.nextafter(now_s, -math.inf))
        return self._until(now_s)

    def _until(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off."""
        rounds: list[Decisions] = []
        while (timer_s := self.next_timer_s()) < now_s:
            self._put_off(timer_s)
            if self.next_timer_s() == timer_s:
                rounds.append(self._instant(timer_s))
        return rounds

    def _put_off(self, until_s: float) -> None:
        """Expect exits and machines that are late by `until_s` later: what is reported does not happen by itself.

        A job keeps its nodes until its exit is reported, however long ago its grace period ended, and no speculative
        run ends before it has begun.
        """
        _put_off(self.state, until_s, until_s + PATIENCE_S)
        for job in self.jobs.booting:
            slot = self.slot_of[job]
            if self.state.needs[slot].alarm_s <= until_s:
                entries.speculate_until(self.state, slot, until_s + PATIENCE_S)

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """As the twin has it: at one instant all that is due, then all submissions, then one pass over the queue.

        A plan comes last: a job that it moves may have ended, or left, meanwhile.
        """
        if what.plan is not None and (what.done or what.gone):
            before = self.happen(now_s, replace(what, plan=None))
            return [*before, *self.happen(now_s, Inputs(plan=what.plan))]
        self._put_off(now_s)
        for job in what.gone:
            entries.expect_leaving(self.state, self.slot_of[job], now_s)
        rounds = self._until(now_s)
        self.state.pool[0].now = now_s
        looks, self.jobs.changed = self.jobs.changed or what.look or len(what.believed) > 0, False
        for job in what.done:
            slot = self.slot_of[job]
            if self.rounds is not None:
                self.rounds.note_end(int(self.state.jobs[slot].seq), now_s)
            if self.state.needs[slot].holder >= 0:
                entries.expect_finish(self.state, slot, now_s)
            else:
                entries.withdraw(self.state, slot)
                looks = True
        for job, left_s in what.believed:
            entries.believe(self.state, self.slot_of[job], left_s)
        if what.plan is not None and self.rounds is not None:
            self.rounds.carry_out(self.driver, what.plan)
            looks = True
        for job in what.done:
            self.jobs.forget(job)
        if looks or what.requests or self.next_timer_s() <= now_s:
            rounds.append(self._instant(now_s, what.requests, looks))
        while True:
            self._put_off(now_s)
            if self.next_timer_s() > now_s:
                return rounds
            rounds.append(self._instant(now_s))

    def lose(self, job: int, now_s: float, cause: int = TAKEN_AWAY) -> None:
        """A job has lost its nodes, or those that it was bound to; `happen` lets the policy look.

        cause: of the loss of its rented machines, `core.nodes.machines.rented.TAKEN_AWAY` or `FAILED`; its work there
        is lost, too.
        """
        self.state.pool[0].now = now_s
        slot = self.slot_of[job]
        need = self.state.needs[slot]
        if need.holder < 0 and need.bound < 0:
            return  # it waits already
        self.driver.lose(slot, cause)
        self.jobs.booting.discard(job)
        self.jobs.changed = True

    def measure(self, job: int, throughput: float, beside: Iterable[int], now_s: float) -> None:
        """Record a job's throughput beside others as a share of that alone, for a planner."""
        if self.rounds is not None and job in self.slot_of:
            slots = frozenset(self.slot_of[each] for each in beside if each in self.slot_of)
            self.rounds.measure(self.slot_of[job], throughput, slots, now_s)

    def refuse_machines(self, job: int, now_s: float, again_s: float) -> None:
        """A job gets no rented machines now; others are rented at `again_s`, if it still waits."""
        self.lose(job, now_s, FAILED)
        entries.wait_until(self.state, self.slot_of[job], again_s)

    def start_alone(self, job: int, now_s: float) -> float:
        """A job's rented machines are up; returns until when it runs there speculatively, infinity: to its end."""
        slot = self.slot_of[job]
        progress = self.state.progress[slot]
        self.jobs.booting.discard(job)
        if abs(progress.since + progress.stall - now_s) > EARLY_OR_LATE_S:
            self.state.pool[0].now = now_s
            units = float(self.state.jobs[slot].max_units) if self.rules.by_core_time else 1.0
            entries.start_alone(self.state, slot, self.rules.speculate_s / units)
        return float(self.state.needs[slot].alarm_s)

    def open_node(self, number: int, is_up: bool) -> None:
        """A node takes new tasks from now on, or none; `happen` lets the policy look."""
        if bool(self.state.nodes[number].up) == is_up:
            return
        entries.open_node(self.state, number, int(is_up))
        self.jobs.changed = True

    def set_closings(self, closings: Closings, exempt: Exempt, now_s: float) -> None:
        """Nodes close at these times, and at no others; `happen` lets the policy look."""
        self.state.pool[0].now = now_s
        self.driver.state = self.state.replaced(closings=closings_of(closings))
        self.jobs.exempt = exempt.by_user
        self.state.pool[0].exempts = int(any(bit for *_, bit in closings))
        for job, slot in self.slot_of.items():
            self.state.needs[slot].exempt = exempt.by_job.get(job, 0)
        entries.expect_openings(self.state)
        self.jobs.changed = True

    def set_limit(self, job: int, limit_s: float) -> None:
        """Set the longest that a run of a job may take from now on, as `JobRequest.limit_s`."""
        slot = self.slot_of[job]
        need = self.state.needs[slot]
        need.limit_s = limit_s
        if need.holder < 0 and need.bound < 0:
            entries.believe(self.state, slot, float(self.state.progress[slot].believed_left))

    def add_node(self, machine: Shape, kind: int) -> int:
        """Add a node that is up; returns its number. `happen` lets the policy look."""
        bits, family = mask(machine.labels, self.jobs.bits), self.jobs.family_of(machine)
        while (number := int(_add_owned(self.state, *machine.amounts, kind, family, bits))) == NEED_NODES:
            self.driver.heed(NEED_NODES)
        self.jobs.labels[number] = machine.labels
        self.jobs.changed = True
        return number

    def remove_node(self, number: int) -> bool:
        """Remove a node; False: something is on it still, or is to be. `happen` lets the policy look."""
        self.jobs.changed = True
        if not _remove_owned(self.state, number):
            return False
        del self.jobs.labels[number]
        return True

    def believed_left(self, job: int, now_s: float) -> float:
        """Believed work left now; below 0 for a job that outran the belief before its timer went off."""
        return float(_believed_left(self.state, self.slot_of[job], now_s))

    @property
    def heeds_beliefs(self) -> bool:
        """Whether the policy decides by what is believed of jobs, not by their order of submission alone."""
        return self.rules.ranked or self.rules.preempts or self.rules.backfill != SKIP

    def sure_to_keep(self, job: int, expected: Expected = NOTHING_EXPECTED) -> tuple[float, float] | None:
        """Start and finish, s, of a job that has just been placed, and keeps its nodes to its end.

        For policies that neither preempt nor plan, without rented machines. None: a play-out is needed.
        """
        slot = self.slot_of.get(job)
        if slot is None or self.rules.preempts or self.rules.planned or self.rents or self.provisions:
            return None
        run_s = expected[job][HALF] if job in expected else None
        return start_and_finish(self.state, slot, run_s) if self.state.needs[slot].holder >= 0 else None

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
        jobs, slots = dict(self.job_of), len(self.state.free)
        trace = new_trace(slots if more is None else slots + 1, 1)
        seqs = [*as_array(self.state.jobs)["seq"].tolist(), int(self.state.pool[0].submitted)]
        rounds = None if self.rounds is None else self.rounds.copied(seqs=seqs)
        if more is not None:
            [tasks] = self.jobs.prepare([more])
            self.jobs.fill(trace.arrivals[slots], more, tasks, now_s)
            grid = expected.get(more.job)  # beliefs are true in a play-out, unless more is known
            trace.arrivals[slots].run_s = more.runtime_estimate_s if grid is None else grid[HALF]
            if rounds is not None:
                rounds.know(slots, more)
        ended: list[Any] = []  # leases

        def take_leases(driver: Driver) -> None:
            cluster = driver.state.cluster[0]
            ended.extend(as_array(driver.state.leases)[: cluster.leases].copy())
            cluster.leases = 0
            if len(driver.state.leases) <= 2 * cluster.rented:
                room = FIRST_LEASES + 4 * int(cluster.rented)
                driver.state = driver.state.replaced(leases=blank(Lease, room))

        answers: Answers = {FORESEE: self._foresee_wait, NEED_SEGMENTS: take_leases}
        if rounds is not None:
            answers[ASKED] = rounds.turn.hold
        driver = self.driver.copy(trace, np.array([slots], dtype=np.int64), answers)
        driver.name_of = lambda slot: jobs.get(slot, NEW_JOB)
        if more is not None and self.rents:
            take_leases(driver)  # which makes room for some
        if rounds is not None and rounds.turn.next_s == math.inf:
            rounds.turn.set_next(driver)
        if expected:
            entries.expect_ends(driver.state, expected_table(expected, jobs, slots))
        waits = as_array(driver.state.needs)["holder"] < 0
        as_array(driver.state.progress)["started_s"][waits] = np.nan  # preempted jobs are to start again
        if self.provisions:  # machines may be rented for ever for a job that does not fit
            driver.state.pool[0].budget = MOST_INSTANTS
        if not may_rent:
            driver.state.cluster[0].quota = 0
            # Nor is a deadline past: where users have limits, a job with such a one asks again, and would for ever.
            as_array(driver.state.rentings)["until_s"][waits] = math.inf
            for slot in waits_until_s(driver.state) if self.rents else ():
                entries.wait_until(driver.state, slot, math.inf)
        if self.selects_every_s is not None:  # another may be put in force meanwhile
            driver.state = driver.state.replaced(params=self.state.params.copy())

        def play() -> Foreseen:
            for one in openings:
                driver.advance(one.at_s)
                driver.state.pool[0].now = one.at_s
                entries.open_node(driver.state, one.node, 1)
                driver.look()
            driver.advance(math.inf)
            found = {**jobs, **({slots: more.job} if more is not None else {})}
            rows = np.array(list(found), dtype=np.int64)
            start_s, finish_s = in_rows(trace, "start_s", math.nan), in_rows(trace, "finish_s", math.nan)
            if more is None or not self.rents:
                return Foreseen(list(found.values()), start_s[rows], finish_s[rows])
            take_leases(driver)
            own = [each for each in ended if each["job"] == slots]
            last = len(own) - 1 if in_rows(trace, "offer", -1)[slots] >= 0 else -1
            leases = [
                LeaseAhead(
                    int(each["offer"]),
                    int(each["count"]),
                    float(each["requested_s"]),
                    float(each["booted_s"]),
                    float(each["ended_s"]),
                    is_last=at == last,
                )
                for at, each in enumerate(own)
            ]
            return Foreseen(list(found.values()), start_s[rows], finish_s[rows], leases)

        return play

    def take_selection(self) -> SelectionSnapshot | None:
        """The snapshot for a selection that has become due; null: none since the last call."""
        found, self._selection = self._selection, None
        return None if found is None else found.named(self.job_of)

    def _note_selection(self, driver: Driver) -> None:
        """A selection is due: snapshot the present state for it, and set the next one's time."""
        state = driver.state
        state.cluster[0].select_s = state.pool[0].now + (self.selects_every_s or math.inf)
        self._selection = snapshot_of(self.jobs, self._new_state)

    def put_in_force(self, member: MemberRules, now_s: float) -> dict[int, float | None] | None:
        """Let other rules decide; None: they do already, or a planner does from the next round on.

        Returns the changed waiting deadlines of jobs, s; None: a wait without end.
        """
        if member.rules is self.rules or member.name == self.member:
            return None
        if self.rounds is not None:
            self.member, self.driver.rules = member.name, member.rules
            self.rounds.let_decide(member.name, self.state, now_s)
            return None
        before = self._waits()
        self.member, self.driver.rules = member.name, member.rules
        self.state.params[: len(member.params)] = member.params
        self.driver.heed(_adopt(self.state, self.rules))
        self.jobs.changed = True
        return {job: until_s for job, until_s in self._waits().items() if until_s != before[job]}

    def _waits(self) -> dict[int, float | None]:
        """Deadlines, s, of jobs that wait before machines are rented for them alone; None: no deadline."""
        if not self.rents:
            return {}
        until_s = waits_until_s(self.state)
        return {job: until_s.get(slot) for job, slot in self.slot_of.items()}

    def restore(self, carried: Restored, now_s: float) -> None:
        """Take over a job as it stands, without a decision or passing time. `settle` follows when all are there."""
        if self.state.pool[0].free == 0:
            self.driver.heed(NEED_SLOTS)
        pool = as_array(self.state.pool)[0]  # items are quicker than attributes
        pool["now"], pool["submitted"] = now_s, carried.account.seq  # in order of submission
        pool["events"] = max(pool["events"], carried.account.seq)
        trace = self._carried_row
        tasks = self.jobs.prepare_restored(carried)
        self.jobs.fill(trace.arrivals[0], carried.request, tasks, now_s)
        slot, account = entries.take_slot(self.state, self.rules, trace, 0), carried.account
        self.jobs.know(slot, carried.request)
        if account.resizes > 0:
            self.jobs.resizes_of[carried.request.job] = account.resizes
        self.state.progress[slot].row = slot
        give_account(self.state, slot, account, carried.units > 0 or carried.alone is not None)
        if len(self.state.rentings) > 0:
            if account.speculated:
                self.state.rentings[slot].speculated = 1
            self.state.rentings[slot].lost = account.taken_away
        if carried.alone is not None:
            alone, need = carried.alone, self.state.needs[slot]
            renting = self.state.rentings[slot]
            renting.offer, need.rented, need.began_s = alone.offer, alone.count, alone.began_s
            entries.resume_alone(self.state, slot, alone.speculates_until_s)
            if not alone.are_up:
                self.jobs.booting.add(carried.request.job)
        elif carried.units:
            self.state.evictions[slot].vacate_at = carried.leave_by_s
            count = self.jobs.plan(tasks, carried.places)
            entries.hold(self.state, slot, count)
        elif carried.owed and self.rounds is None and are_of(tasks, carried.bound):
            count = self.jobs.plan(tasks, carried.bound, carried.owed)
            entries.bind(self.state, slot, count)
        else:
            if carried.bound and not carried.owed and self.rules.backfill == CONSERVATIVE:
                self.jobs.reserve(slot, (carried.start_s, tuple(carried.bound)))
            self.driver.wait(slot)
            if carried.keeps_wait and account.waits_until_s is not None and self.rules.waits:
                entries.wait_until(self.state, slot, max(now_s, account.waits_until_s))
                self.state.rentings[slot].undecided = 0
            if self.selects_every_s is not None and len(self.state.rentings) > 0:
                # Another member may set the wait from then on.
                self.state.rentings[slot].queued_s = account.since_s
        self.state.cluster[0].logged = 0  # nothing of this was decided now

    def settle(self, carried: Sequence[Restored]) -> None:
        """Once all are restored: match victims with bound jobs. A job that is owed nothing begins.

        Another policy before may have taken nominations back; the room that jobs are leaving is their preemptors'.
        """
        evictions, needs = self.state.evictions, self.state.needs
        leaving: dict[int, list[int]] = {}
        for one in carried:
            preemptor = self.slot_of.get(one.makes_room_for) if one.makes_room_for is not None else None
            if preemptor is None:
                continue
            victim = self.slot_of[one.request.job]
            if evictions[preemptor].awaited > 0:
                evictions[victim].preemptor = preemptor
            elif not one.keeps_wait and needs[preemptor].holder < 0 and needs[preemptor].bound < 0:
                leaving.setdefault(preemptor, []).append(victim)
        if self.rules.preempts:
            for preemptor, victims in leaving.items():
                self.state.chosen[: len(victims)] = victims
                _nominate_again(self.state, self.rules, preemptor, len(victims))
        for one in carried:
            slot = self.slot_of[one.request.job]
            if self.state.needs[slot].bound >= 0 and evictions[slot].awaited == 0:
                entries.settle_binding(self.state, slot)

    def account(self, job: int) -> Account:
        """The account of a job; work is in seconds."""
        slot = self.slot_of[job]
        account = account_of(self.state, slot)
        account.resizes = self.jobs.resizes_of.get(job, 0)
        return waiting_account(self.state, slot, account) if self.rules.waits else account

    def keeps_nomination(self, job: int) -> bool:
        """Whether a job is bound to nodes that victims are leaving, or has begun as they have all left."""
        need = self.state.needs[self.slot_of[job]]
        return bool(need.holder >= 0 or need.bound >= 0)

    def first_waiting(self) -> int | None:
        """The first of the queue; None: no job waits, unless for victims to leave."""
        cluster = self.state.cluster[0]
        if cluster.waiting == 0:
            return None
        number = int(self.state.directory[cluster.front].block)
        return self.job_of[int(self.state.queue[number * BLOCK + int(self.state.blocks[number].head)].slot)]

    def _instant(self, until_s: float, requests: Sequence[JobRequest] = (), looks: bool = False) -> Decisions:
        """Let the next instant happen, with these submissions; looks: as in `Driver.instant`."""
        trace = new_trace(len(requests), 1).replaced(outcomes=blank(Outcome, 0))
        for at, (one, tasks) in enumerate(zip(requests, self.jobs.prepare(requests), strict=True)):
            self.jobs.tasks_of[one.job] = tasks
            self.jobs.fill(trace.arrivals[at], one, tasks, until_s)
        self._coming, self._first = requests, int(self.state.pool[0].submitted)
        lines = self.driver.instant(until_s, trace, looks=looks)
        self._enter()
        if self.rounds is not None:
            self.rounds.wake(self.driver, is_job=len(requests) > 0)
        return Decisions(float(self.state.pool[0].now), tuple(instructions_in(lines, self.jobs)))

    def _enter(self) -> None:
        """Register the submitted jobs by slot."""
        if not self._coming:
            return
        requests, self._coming = self._coming, ()
        seqs, marks = as_array(self.state.jobs)["seq"], as_array(self.state.progress)["served_by"]
        new = np.flatnonzero((marks >= 0) & (seqs >= self._first)).tolist()
        for slot, one in zip(sorted(new, key=lambda slot: self.state.jobs[slot].seq), requests, strict=True):
            self.jobs.know(slot, one)
            self.state.progress[slot].row = slot
            if self.rents and not self._can_rent(slot, one):
                entries.wait_until(self.state, slot, math.inf)

    def _ask_planner(self, driver: Driver) -> None:
        assert self.rounds is not None, "a planner is asked only where there is one"
        self._enter()
        cluster = driver.state.cluster[0]
        if cluster.waiting > 0 and driver.state.pool[0].now >= cluster.select_s:
            self._note_selection(driver)
        self.rounds.hold(driver)

    def _can_rent(self, slot: int, request: JobRequest) -> bool:
        """Whether the machines that would be rented for a waiting job hold all of it."""
        if self.state.needs[slot].alarm_s == math.inf:
            return True  # none will be
        offer = _offer_for(self.state, slot, False)
        count = _machines_for(self.state, slot, offer)
        machine = rooms_of(self.jobs.offered)[offer]
        return units_on(self.jobs.tasks_of[request.job], request.unit, machine, count) is not None

    def _foresee_wait(self, driver: Driver) -> None:
        """Let a job begin to wait, unless a play-out shows that the wait would be in vain."""
        slot, slots = int(driver.state.pool[0].offender), len(driver.state.free)
        renting = driver.state.rentings[slot]
        renting.undecided = 0
        ahead = driver.copy(new_trace(slots, 1), np.array([slots], dtype=np.int64), {})
        ahead.rules = driver.rules.replaced(plays=False)
        entries.wait_until(ahead.state, slot, renting.until_s)
        ahead.advance(renting.until_s)
        if ahead.state.rentings[slot].offer < 0:
            entries.wait_until(driver.state, slot, renting.until_s)
