"""Live nodes: the core of the nodes engine, driven by real events.

A job's true run time is infinite to the core, so that nothing finishes by itself: the executor reports completions,
and the instant of the report is the finish. A preempted job has left once its exit is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Offer
from betimes.cluster.labels import NONE, Labels, bits_for, mask
from betimes.cluster.resources import Amounts
from betimes.cluster.shapes import Shape, Shapes, roomiest, suiting
from betimes.cluster.tasks import SPREAD, JobTasks, job_tasks
from betimes.core.instruction import BIND, DOUBLE, MIGRATE, PREEMPT, RELEASE, RENT, RESERVE, START
from betimes.core.nodes.columns import BLOCK, NodesState
from betimes.core.nodes.growth import new_nodes_state, room_to_play
from betimes.core.nodes.machines.dedicated import machines_for, offer_for
from betimes.core.nodes.machines.rented import FAILED, TAKEN_AWAY
from betimes.core.nodes.machines.reported import add_owned, remove_owned
from betimes.core.nodes.passes.schedule import change_rules, rank_again
from betimes.core.nodes.rules import CONSERVATIVE, NodesRules
from betimes.core.pool.columns import UNLIMITED
from betimes.core.status import ASKED, FORESEE, NEED_NODES, NEED_PLACEMENTS, NEED_SLOTS, SELECT
from betimes.core.work import believed_left
from betimes.errors import BetimesError
from betimes.foresight.portfolio.submitted import EmptyCluster
from betimes.foresight.run_times import HALF
from betimes.kernels import Floats, Ints, as_array, blank, entry
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy, rules_in_turn
from betimes.service.engines import rented_machines
from betimes.service.engines.accounts import (
    Account,
    account_of,
    expected_left,
    give_account,
    start_and_finish,
    waiting_account,
    waits_until_s,
)
from betimes.service.engines.dedicated_machines import (
    known_live,
    live_terms,
    plays_out,
    rooms_of,
    shapes_of,
    units_on,
)
from betimes.service.engines.job_rows import DemandRows, JobRows, Needed, needed_on, norm_of
from betimes.service.engines.messages import (
    NOTHING_EXPECTED,
    Allocation,
    Asked,
    Bind,
    Decisions,
    Expected,
    Foreseen,
    Grant,
    Inputs,
    JobRequest,
    Migrate,
    Move,
    Opening,
    Outrun,
    Play,
    Preempt,
    Rent,
    Reserve,
    Restored,
    StopSpeculating,
    expected_table,
)
from betimes.service.engines.planner_rounds import PlannerRounds, SnapshotRounds, planners_for
from betimes.service.engines.rented_machines import RentedMachines
from betimes.service.engines.selection import MemberRules, SelectionSnapshot
from betimes.twin.nodes import entries
from betimes.twin.nodes.driver import Answers, Driver
from betimes.twin.nodes.event_loop import EVERYTHING, Arrival, Outcome
from betimes.twin.nodes.splitting import split_anew
from betimes.twin.nodes.trace_loop import in_rows, new_trace, run_rows

FIRST_SLOTS = 64
FIRST_PLACEMENTS = 256
FIRST_LOG = 2048  # lines
FIRST_PLAN = 64  # steps of a plan of reservations
EARLY_OR_LATE_S = 1e-6
MOST_INSTANTS = 200_000  # of a play-out under a policy that rents machines
PATIENCE_S = 1.0  # for a job that should have left by now, before it is looked at again

Promise = tuple[float, tuple[Allocation, ...]]
"""From when, s, a job has a reservation, and where."""
NOTHING_PROMISED: Promise = (math.inf, ())

_believed_left = entry(believed_left, NodesState, int, float)
_offer_for = entry(offer_for, NodesState, int, bool)
_adopt = entry(change_rules, NodesState, NodesRules)
_machines_for = entry(machines_for, NodesState, int, int)
_add_owned = entry(add_owned, NodesState, int, int, int, int, int, int)
_remove_owned = entry(remove_owned, NodesState, int)
_split_anew = entry(split_anew)
_rank_again = entry(rank_again, NodesState, NodesRules)
ENTRIES = (
    run_rows,
    *entries.ENTRIES,
    expected_left,
    _believed_left,
    _offer_for,
    _machines_for,
    _adopt,
    _add_owned,
    _remove_owned,
    _split_anew,
    _rank_again,
    *rented_machines.ENTRIES,
)
"""Entries to compile for live nodes, besides their policy."""


class LiveNodes:
    """Nodes under a policy, in real time.

    machines: the shape of each node; kinds: (nodes,) equal for equal nodes; shapes: of those that take work, by which
    jobs are split into tasks. Outside, jobs hold units; inside, tasks are placed.
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
        member: str | None = None,
        plans_aside: bool = False,
    ) -> None:
        self.policy, self.shapes = policy, shapes
        own, values = policy.policy, policy.values
        in_turn = [known_live(each) for each in own.in_turn(values)]
        self.rents = own.rents_alone(values) and len(offers) > 0
        self.provisions = own.shares_rented(values) and len(offers) > 0
        self.machines = RentedMachines(self)
        self.rounds: PlannerRounds | None = None
        decides = next((at for at, each in enumerate(in_turn) if each.name == member), 0)
        if own.plans(values):
            planners = planners_for(in_turn, offers, quota)
            self.rounds = PlannerRounds(
                planners, in_turn[decides].name, offers, restart_s, is_aside=plans_aside
            )
        self.foresees = self.rents and plays_out(values)
        self.offers, self.offered = tuple(offers), shapes_of(offers)
        # Of owned nodes, by number.
        self.labels = {number: machine.labels for number, machine in enumerate(machines)}
        # Offers' families come first, as planners count these alone.
        families = dict.fromkeys([offer.family for offer in offers] + [each.family for each in machines])
        self.families = {family: number for number, family in enumerate(families or ("",))}
        self.by_family: set[int] = set()  # jobs whose demand depends on the family
        self._rows = DemandRows(len(self.families), 0)
        self.required: dict[int, Labels] = {}  # of jobs that require any
        self._bits: dict[tuple[str, str], int] = {}  # of each label that was required lately
        self.booting: set[int] = set()  # jobs whose rented machines are not up
        self.tasks_of: dict[int, JobTasks] = {}
        self.asked: dict[int, Asked] = {}
        self._alike: dict[Asked, set[int]] = {}  # jobs with equal requests
        self._tasks_for: dict[Asked, JobTasks] = {}  # the tasks of each request, unless outdated
        # Jobs that hold nodes in other tasks than a split now would give.
        self._outdated: set[int] = set()
        self.slot_of: dict[int, int] = {}
        self.job_of: dict[int, int] = {}
        self.resizes_of: dict[int, int] = {}  # of jobs that have come from a pool, as counted there
        params = own.params(values)  # with room for those of any member
        first = in_turn[decides].policy.params(in_turn[decides].values)
        params[: len(first)] = first
        rules = rules_in_turn(in_turn)[decides]
        self.selects_every_s: float | None = None
        self.member: str | None = None
        self._selection: SelectionSnapshot | None = None
        if own.members is not None:
            self.selects_every_s = cast("float", values["period"]) * cast("float", values["tick"])
            self.member = in_turn[decides].name
        if not self.rents:  # there is nothing to rent: all jobs wait
            rules = rules.replaced(waits=False)
        elif self.foresees:
            rules = rules.replaced(plays=True)
        capacity = np.array([each.amounts for each in machines], dtype=np.int64).reshape(-1, 3)
        largest = self._largest(capacity)
        self._new_state = partial(
            new_nodes_state,
            units=units,
            restart_s=restart_s,
            seed=seed,
            by_priority=in_turn[0].policy.by_priority,
            guarded=any(each.policy.is_users for each in in_turn),
            slots=FIRST_SLOTS,
            placements=max(FIRST_PLACEMENTS, 4 * len(machines)),
            steps=FIRST_PLAN if rules.backfill == CONSERVATIVE else 1,
            log=FIRST_LOG,
            quota=UNLIMITED if quota is None else quota,
            observed=rules.observes,
            largest=largest,
        )
        state = self._new_state(
            capacity,
            kinds,
            families=np.array([self.families[each.family] for each in machines], dtype=np.int64),
            family_count=len(self.families),
            demands=self._rows.table,
            params=params,
            offers=live_terms(offers),
        )
        answers: Answers = {
            ASKED: self._ask_planner,
            SELECT: self._note_selection,  # the policy in force goes on until something is chosen
            FORESEE: self._foresee_wait,
        }
        self.driver = Driver(
            state,
            rules,
            new_trace(0, 1),
            np.zeros(1, np.int64),
            str(policy),
            self._name_of,
            answers,
        )
        self._coming: Sequence[JobRequest] = ()  # submitted, and not yet registered by slot
        self._first = 0  # the order of submission of the first of them
        if self.selects_every_s is not None:
            state.cluster[0].select_s = 0.0
        self.largest: list[int] = largest.tolist()
        self.promised: dict[int, Promise] = {}  # by job, the reservation that was reported last
        self.changed = False  # nodes were opened or closed, and no pass has followed yet
        self._carried_row = new_trace(1, 1)  # for each restored job in turn

    @property
    def state(self) -> NodesState:
        """The cluster as it is now."""
        return self.driver.state

    @property
    def rules(self) -> NodesRules:
        """The rules of the policy in force."""
        return self.driver.rules

    def _name_of(self, slot: int) -> object:
        return _named(self.job_of, slot)

    def next_timer_s(self) -> float:
        """When the next belief is outrun, or a victim should have left."""
        return float(self.state.timers[0].at_s) if self.state.cluster[0].timers > 0 else math.inf

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off."""
        self._be_patient(math.nextafter(now_s, -math.inf), set())
        return self._until(now_s)

    def _until(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off."""
        rounds: list[Decisions] = []
        while (timer_s := self.next_timer_s()) < now_s:
            if self.provisions:
                self.machines.put_off(timer_s)
                if self.next_timer_s() != timer_s:
                    continue
            rounds.append(self._instant(timer_s))
        return rounds

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """As the twin has it: at one instant all that is due, then all submissions, then one pass over the queue."""
        rounds = list[Decisions]()
        gone = {self.slot_of[job] for job in what.gone}
        for slot in gone:
            entries.expect_leaving(self.state, slot, now_s)
        self._be_patient(now_s, gone)
        rounds += self._until(now_s)
        for job in what.done:
            if self.state.needs[self.slot_of[job]].holder >= 0:
                entries.expect_finish(self.state, self.slot_of[job], now_s)
            if self.rounds is not None:
                self.rounds.note_end(int(self.state.jobs[self.slot_of[job]].seq), now_s)
        again = self._intervene(now_s, what)
        if what.plan is not None and self.rounds is not None:
            self.rounds.carry_out(self.driver, what.plan)
            again = True
        for job in what.done:
            self.booting.discard(job)
            self.required.pop(job, None)
            self.by_family.discard(job)
            self._outdated.discard(job)
            asked = self.asked.pop(job)
            self._alike[asked].discard(job)
            if not self._alike[asked]:
                del self._alike[asked], self._tasks_for[asked]
            del self.job_of[self.slot_of.pop(job)], self.tasks_of[job]
            self.resizes_of.pop(job, None)
            self.promised.pop(job, None)
        if again or what.wanted or self.next_timer_s() <= now_s:
            rounds.append(self._instant(now_s, what.wanted, again))
        while True:
            self._be_patient(now_s, set())
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
        need, logged = self.state.needs[slot], int(self.state.cluster[0].logged)
        if need.holder < 0 and need.bound < 0:
            return  # it waits already
        if need.bound >= 0:
            entries.unbind(self.state, slot)
        if need.rented > 0:
            entries.stop_alone(self.state, slot, cause)
        elif need.holder >= 0:
            entries.lose(self.state, slot)
        self._wait(slot)
        self._strike_out(slot, logged)
        self.booting.discard(job)
        self.changed = True

    def _strike_out(self, slot: int, since: int) -> None:
        """Drop a job's lines from the log's lines since `since`: nothing was decided about it.

        Lines of other jobs stay: one that was owed only this job's nodes has begun.
        """
        cluster = self.state.cluster[0]
        lines = as_array(self.state.log)[since : cluster.logged]
        others = lines[lines["job"] != slot].copy()
        lines[: len(others)] = others
        cluster.logged = since + len(others)

    def unbind(self, slot: int) -> None:
        """The job of a slot gives up what it is bound to: it waits again, or stays where it is."""
        entries.unbind(self.state, slot)
        if self.state.needs[slot].holder < 0:
            self._wait(slot)
        self.changed = True

    def _wait(self, slot: int) -> None:
        """Let a job in a slot, and on no node, wait from now on."""
        self.driver.heed(entries.wait(self.state, self.rules, slot))

    def measure(self, job: int, throughput: float, beside: Iterable[int]) -> None:
        """Record a job's throughput beside others as a share of that alone, for a planner."""
        if self.rounds is not None and job in self.slot_of:
            slots = frozenset(self.slot_of[each] for each in beside if each in self.slot_of)
            self.rounds.measure(self.slot_of[job], throughput, slots)

    def know_refused(self, offer: int) -> None:
        """The cloud has no machine of an offer now: planners heed that."""
        if self.rounds is not None:
            self.rounds.know_refused(offer, float(self.state.pool[0].now))

    def refuse_machines(self, job: int, now_s: float, again_s: float) -> None:
        """A job gets no rented machines now; others are rented at `again_s`, if it still waits."""
        self.lose(job, now_s, FAILED)
        entries.wait_until(self.state, self.slot_of[job], again_s)

    def start_alone(self, job: int, now_s: float) -> float:
        """A job's rented machines are up; returns until when it runs there speculatively, infinity: to its end."""
        slot = self.slot_of[job]
        progress = self.state.progress[slot]
        self.booting.discard(job)
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
        self.changed = True

    def fit_to(self, shapes: Shapes, now_s: float) -> list[int]:
        """Split waiting jobs into tasks for nodes of these shapes, after nodes have come or gone.

        Returns jobs that were bound to nodes and wait again. Jobs that hold nodes keep their tasks while they do.
        """
        before, self.shapes = self.shapes, shapes
        self.state.pool[0].now = now_s
        self._measure()
        outdated, self._outdated = self._outdated, set()
        needs = as_array(self.state.needs)
        holder, in_vain = needs["holder"], needs["fits_no_owned"]
        changed: list[tuple[Asked, JobTasks, Ints]] = []
        for asked, jobs in self._alike.items():
            alike = not self.rents and suiting(shapes, asked.require) == suiting(before, asked.require)
            some = list(jobs & outdated if alike else jobs)
            if not some:
                continue
            tasks = self._split(asked)
            fits_none = self._fits_no_owned(tasks, asked.require)
            slots = np.fromiter(map(self.slot_of.__getitem__, some), np.int64, len(some))
            is_other, self._tasks_for[asked] = not tasks.is_split_as(self._tasks_for[asked]), tasks
            others = np.full(len(some), is_other)
            if outdated:  # each of these has its own tasks
                others[:] = [
                    not tasks.is_split_as(self.tasks_of[job]) if job in outdated else is_other for job in some
                ]
            for job, differs in zip(some, others.tolist(), strict=True):
                if not differs:
                    self.tasks_of[job] = tasks
            holds = holder[slots] >= 0
            again = slots[~holds & (others | (in_vain[slots] != fits_none))]
            if len(again):
                changed.append((asked, tasks, again))
            in_vain[slots[holds]] = fits_none
            for slot in slots[holds & others].tolist():
                job = self.job_of[slot]
                self._outdated.add(job)
                in_vain[slot] = self._fits_no_owned(self.tasks_of[job], asked.require)
        return self._split_anew(changed) if changed else []

    def _split_anew(self, changed: Sequence[tuple[Asked, JobTasks, Ints]]) -> list[int]:
        """Give waiting jobs in these slots their new tasks; returns jobs that were bound to nodes."""
        self._learn_demands(tasks for _, tasks, _ in changed)
        slots = np.concatenate([of for _, _, of in changed])
        bound = as_array(self.state.needs)["bound"][slots] >= 0
        unbound = sorted(self.job_of[slot] for slot in slots[bound].tolist())
        trace, at = new_trace(len(slots), 1), 0
        arrivals, reserved = as_array(trace.arrivals), list[tuple[int, Promise]]()
        for asked, tasks, of in changed:
            self._job_rows.fill_tasks(trace.arrivals[at], tasks)
            trace.arrivals[at].fits_no_owned = self._fits_no_owned(tasks, asked.require)
            arrivals[at : at + len(of)] = arrivals[at]
            at += len(of)
            for slot in of.tolist():
                job = self.job_of[slot]
                promised = self.promised.pop(job, None)
                if promised is not None:
                    reserved.append((slot, promised))
                self.tasks_of[job] = tasks
        self.driver.heed(_split_anew(self.state, self.rules, trace, slots))
        for slot, promised in reserved:
            self._reserve(slot, promised)
        self.changed = True
        return unbound

    def _reserve(self, slot: int, promise: Promise) -> None:
        """Keep a waiting job's reservation if its tasks can be there; the next pass reviews it."""
        job, (start_s, places) = self.job_of[slot], promise
        if _are_of(self.tasks_of[job], places):
            entries.book(self.state, slot, self._plan(self.tasks_of[job], places), start_s)
            self.state.cluster[0].must_replan = 1  # the nodes may have changed since it was made
            self.promised[job] = promise

    def _measure(self) -> None:
        """Measure all jobs by the largest present machines (`Need.share`)."""
        nodes = as_array(self.state.nodes)[as_array(self.state.machines)["offer"] < 0]
        largest = self._largest(np.stack([nodes[name] for name in ("gpu", "cpu", "memory")], axis=1)).tolist()
        if largest == self.largest and not self.by_family:
            return
        self.largest = largest
        cluster, needs = self.state.cluster[0], as_array(self.state.needs)
        cluster.most_gpu, cluster.most_cpu, cluster.most_memory = (max(1, most) for most in largest)
        needs["share"] = _shares(needs, largest)
        for job in self.by_family:
            tasks = self.tasks_of[job]
            self.state.needs[self.slot_of[job]].share = self._job_rows.share(tasks)
        if self.rules.ranked and not self.rules.dynamic and not self.rules.requeues_last:
            self.driver.heed(_rank_again(self.state, self.rules))

    def is_alike(self, number: int, machine: Shape) -> bool:
        """Whether a node has these labels, and is of this family."""
        family = self.families.get(machine.family)
        return self.labels[number] == machine.labels and self.state.machines[number].family == family

    def add_node(self, machine: Shape, kind: int) -> int:
        """Add a node that is up; returns its number. `happen` lets the policy look."""
        bits, family = mask(machine.labels, self._bits), self._number_of(machine.family)
        while (number := int(_add_owned(self.state, *machine.amounts, kind, family, bits))) == NEED_NODES:
            self.driver.heed(NEED_NODES)
        self.labels[number] = machine.labels
        self.changed = True
        return number

    def remove_node(self, number: int) -> bool:
        """Remove a node; False: something is on it still, or is to be. `happen` lets the policy look."""
        self.changed = True
        if not _remove_owned(self.state, number):
            return False
        del self.labels[number]
        return True

    def _largest(self, owned: NDArray[np.int64]) -> NDArray[np.int64]:
        """(3,) the maximum of each resource on any machine that can run jobs; owned: (nodes, 3)."""
        offered = [machine.amounts for machine in self.offered] if self.rents or self.provisions else []
        return np.concatenate([owned, np.array(offered, dtype=np.int64).reshape(-1, 3)]).max(
            axis=0, initial=0
        )

    def believed_left(self, job: int, now_s: float) -> float:
        """Believed work left now; below 0 for a job that outran the belief before its timer went off."""
        return float(_believed_left(self.state, self.slot_of[job], now_s))

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
    ) -> Play:
        """A copy of the beliefs, to be played forward; with one more job, submitted now, if one is given."""
        tasks = None
        if more is not None:
            self._learn_labels([more.require])
            tasks = self._split(more.asked)
            self._learn_demands([tasks])
        jobs, slots = dict(self.job_of), len(self.state.free)
        trace = new_trace(slots if more is None else slots + 1, 1)
        if more is not None and tasks is not None:
            self._fill(trace.arrivals[slots], more, tasks, now_s)
            grid = expected.get(more.job)  # beliefs are true in a play-out, unless more is known
            trace.arrivals[slots].run_s = more.runtime_estimate_s if grid is None else grid[HALF]
        rounds = None if self.rounds is None else self.rounds.copied()
        if rounds is not None and more is not None:
            rounds.know(slots, more)
        seqs = [*as_array(self.state.jobs)["seq"].tolist(), int(self.state.pool[0].submitted)]

        def ask(driver: Driver) -> None:
            assert rounds is not None, "a planner is asked only where there is one"
            rounds.hear_of(trace, seqs)
            rounds.hold(driver)

        row = np.array([slots], dtype=np.int64)
        driver = self.driver.copy(trace, row, {ASKED: ask, FORESEE: self._foresee_wait})
        driver.name_of = lambda slot: _named(jobs, slot)
        if expected:
            entries.expect_ends(driver.state, expected_table(expected, jobs, slots))
        waits = as_array(driver.state.needs)["holder"] < 0
        as_array(driver.state.progress)["started_s"][waits] = np.nan  # preempted jobs are to start again
        if self.provisions:  # machines may be rented for ever for a job that does not fit
            driver.state.pool[0].budget = MOST_INSTANTS
        if self.selects_every_s is not None:  # another may be put in force meanwhile
            driver.state = driver.state.replaced(params=self.state.params.copy())

        def play() -> Foreseen:
            for one in openings:
                driver.advance(one.at_s)
                driver.state.pool[0].now = one.at_s
                entries.open_node(driver.state, one.node, 1)
                driver.state.cluster[0].pending = EVERYTHING
            driver.advance(math.inf)
            found = {**jobs, **({slots: more.job} if more is not None else {})}
            rows = np.array(list(found), dtype=np.int64)
            start_s, finish_s = in_rows(trace, "start_s", math.nan), in_rows(trace, "finish_s", math.nan)
            offer = in_rows(trace, "offer", -1)[rows].tolist() if self.rents else None
            return Foreseen(list(found.values()), start_s[rows], finish_s[rows], offer)

        return play

    def take_selection(self) -> SelectionSnapshot | None:
        """The snapshot for a selection that has become due; null: none since the last call."""
        found, self._selection = self._selection, None
        if found is None:
            return None
        slots, needs = range(len(found.state.free)), as_array(found.state.needs)
        waits = np.flatnonzero(
            (as_array(found.state.progress)["served_by"] >= 0) & (needs["holder"] < 0) & (needs["bound"] < 0)
        )
        since = [
            (self.job_of[slot], float(found.state.jobs[slot].submit_s))
            for slot in waits.tolist()
            if slot in self.job_of
        ]
        return replace(found, job_ids=[self.job_of.get(slot, 0) for slot in slots], waits=sorted(since))

    def _note_selection(self, driver: Driver) -> None:
        """A selection is due: snapshot the present state for it, and set the next one's time."""
        state = driver.state
        state.cluster[0].select_s = state.pool[0].now + (self.selects_every_s or math.inf)
        self._selection = self._snapshot(state)

    def _snapshot(self, state: NodesState) -> SelectionSnapshot:
        """A copy of the beliefs before a pass or a round, in which jobs are rows by their slots."""
        copy = room_to_play(state)
        entries.copy_into(state, copy, True)
        slots = len(copy.free)
        as_array(copy.progress)["row"] = np.arange(slots)
        trace = new_trace(slots, 1)
        as_array(trace.arrivals)["submit_s"] = as_array(copy.jobs)["submit_s"]
        at_s = float(state.pool[0].now)
        empty, job_rows = self._empty()
        return SelectionSnapshot(at_s, copy, trace, empty, job_rows, self._rounds_of_members(copy))

    def _rounds_of_members(self, state: NodesState) -> Sequence[SnapshotRounds]:
        """The rounds of planning members for a copy of the state."""
        if self.rounds is None:
            return ()
        policy, seqs = str(self.policy), as_array(state.jobs)["seq"].tolist()
        return [SnapshotRounds(policy, self.rounds.copied(name), seqs) for name in self.rounds.members]

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
        self.changed = True
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
        self._learn_labels([carried.wanted.require])
        asked = carried.wanted.asked
        whole = self._tasks_for.get(asked) or self._split(asked)
        tasks = self._held_tasks(carried) if carried.units else whole
        self._learn_demands([tasks])
        self._fill(trace.arrivals[0], carried.wanted, tasks, now_s)
        self.tasks_of[carried.wanted.job] = tasks
        if carried.units and tasks != whole:
            self._outdated.add(carried.wanted.job)
        slot, account = entries.take_slot(self.state, self.rules, trace, 0), carried.account
        self._know(slot, carried.wanted)
        if account.resizes > 0:
            self.resizes_of[carried.wanted.job] = account.resizes
        give_account(self.state, slot, account, carried.units > 0 or carried.alone is not None)
        if account.speculated:
            self.state.needs[slot].speculated = 1
        if carried.alone is not None:
            alone, need = carried.alone, self.state.needs[slot]
            need.offer, need.rented, need.began_s = alone.offer, alone.count, alone.began_s
            entries.resume_alone(self.state, slot, alone.speculates_until_s)
            if not alone.are_up:
                self.booting.add(carried.wanted.job)
        elif carried.units:
            self.state.needs[slot].vacate_at = carried.leave_by_s
            count = self._plan(tasks, carried.places)
            entries.hold(self.state, slot, count)
        elif carried.owed and self.rounds is None and _are_of(tasks, carried.bound):
            count = self._plan(tasks, carried.bound, carried.owed)
            entries.bind(self.state, slot, count)
        else:
            if carried.bound and not carried.owed and self.rules.backfill == CONSERVATIVE:
                self._reserve(slot, (carried.start_s, tuple(carried.bound)))
            self._wait(slot)
            if carried.keeps_wait and account.waits_until_s is not None and self.rules.waits:
                entries.wait_until(self.state, slot, max(now_s, account.waits_until_s))
                self.state.needs[slot].undecided = 0
            if self.selects_every_s is not None:  # other members may set the wait from then
                self.state.needs[slot].queued_s = account.since_s
        self.state.cluster[0].logged = 0  # nothing of this was decided now

    def settle(self, carried: Sequence[Restored]) -> None:
        """Once all are restored: match victims with bound jobs. A job that is owed nothing begins."""
        needs = self.state.needs
        for one in carried:
            preemptor = self.slot_of.get(one.makes_room_for) if one.makes_room_for is not None else None
            if preemptor is not None and needs[preemptor].awaited > 0:
                needs[self.slot_of[one.wanted.job]].preemptor = preemptor
        for one in carried:
            slot = self.slot_of[one.wanted.job]
            if needs[slot].bound >= 0 and needs[slot].awaited == 0:
                entries.settle_binding(self.state, slot)

    def tasks(self, wanted: JobRequest) -> JobTasks:
        """The tasks of a job, or those it would have if submitted now."""
        return self.tasks_of.get(wanted.job) or self._split(wanted.asked)

    def _split(self, asked: Asked) -> JobTasks:
        """Split for the nodes, or for offers, too, where the nodes do not hold the job, as in the twin."""
        tasks = self._job_rows.split(asked)
        if not self._fits_no_owned(tasks, asked.require):
            return tasks
        rooms = roomiest([*suiting(self.shapes, asked.require), *suiting(self.offered, asked.require)])
        return job_tasks(asked.unit, asked.units, asked.units_per_task, rooms)

    @property
    def _job_rows(self) -> JobRows:
        return JobRows(self.shapes, self._bits, self.families, self._rows, self.largest)

    def _empty(self) -> tuple[EmptyCluster, JobRows]:
        """The cluster with nothing rented, and nothing on the owned nodes that take jobs now; rows for it."""
        owned = [number for number in sorted(self.labels) if self.state.nodes[number].up == 1]
        nodes, machines = (as_array(each)[owned] for each in (self.state.nodes, self.state.machines))
        capacity = np.stack([nodes[name] for name in ("gpu", "cpu", "memory")], axis=1)
        names = list(self.families)
        held = [
            (Shape((gpu, cpu, memory), self.labels[number], names[family]), 1.0)
            for number, (gpu, cpu, memory), family in zip(
                owned, capacity.tolist(), machines["family"].tolist(), strict=True
            )
        ]
        quota = int(self.state.cluster[0].quota)
        for offer, machine in zip(self.offers, self.offered, strict=True):
            held.append((machine, float(min(quota, offer.capacity or quota))))
        terms = live_terms(self.offers)
        as_array(terms)["labels"] = as_array(self.state.offers)["labels"]
        state = self._new_state(
            capacity,
            machines["kind"],
            families=machines["family"],
            family_count=len(self.families),
            demands=self._rows.table,
            params=self.state.params.copy(),
            offers=terms,
            labels=nodes["labels"],
        )
        return EmptyCluster(state, new_trace(0, 1)), replace(self._job_rows, machines=held)

    def _fits_no_owned(self, tasks: JobTasks, required: Labels) -> int:
        """1: machines may be rented for jobs alone, and owned ones with these labels do not hold this job."""
        return int(self.rents and not is_held(tasks, self._owned(required)))

    def _owned(self, required: Labels) -> Owned:
        """Amounts of each owned machine with these labels, which have bits."""
        nodes, machines = as_array(self.state.nodes), as_array(self.state.machines)
        bits = mask(required, self._bits)
        suit = (machines["offer"] < 0) & (nodes["labels"] & bits == bits)
        amounts = np.stack([nodes[name][suit] for name in ("gpu", "cpu", "memory")], axis=1)
        of = machines["family"][suit]
        return {family: amounts[of == number] for family, number in self.families.items()}

    def _number_of(self, family: str) -> int:
        """The number of a family of machines."""
        if family not in self.families:
            self.families[family] = len(self.families)
            self._deal_demands(())
        return self.families[family]

    def _learn_demands(self, tasks: Iterable[JobTasks]) -> None:
        """Give rows to the demands of these jobs on each family."""
        coming = [(needed_on(each, self.families), each.demand) for each in tasks if each.by_family]
        if any(self._rows.first_of(*each) is None for each in coming):
            self._deal_demands(coming)

    def _deal_demands(self, coming: Iterable[tuple[Needed, Amounts]]) -> None:
        """Assign all rows again, to the demands of present and coming jobs."""
        tasks = {job: self.tasks_of[job] for job in self.by_family}
        here = {job: (needed_on(each, self.families), each.demand) for job, each in tasks.items()}
        distinct = {*here.values(), *coming}
        self._rows = rows = DemandRows(len(self.families), 2 * len(distinct))
        for each in distinct:
            rows.first_of(*each)
        for job, each in here.items():
            self.state.needs[self.slot_of[job]].demands = rows.first_of(*each) or 0
        self.driver.state = self.state.replaced(demands=rows.table)
        self.state.cluster[0].families = len(self.families)

    def _learn_labels(self, required: Iterable[Labels]) -> None:
        """Give labels required by these and by present jobs bits on all nodes and offers."""
        required = list(required)
        if all(label in self._bits for labels in required for label in labels):
            return
        self._bits = bits = bits_for([*self.required.values(), *required])
        state = self.state
        for terms, offer in zip(as_array(state.offers), self.offers, strict=True):
            terms["labels"] = mask(offer.labels, bits)
        nodes, offers = as_array(state.nodes), as_array(state.machines)["offer"].tolist()
        nodes["labels"] = [
            state.offers[offer].labels if offer >= 0 else mask(self.labels.get(number, NONE), bits)
            for number, offer in enumerate(offers)
        ]
        for job, labels in self.required.items():
            if job in self.slot_of:
                state.needs[self.slot_of[job]].labels = mask(labels, bits)

    def _held_tasks(self, carried: Restored) -> JobTasks:
        """The tasks in which a job holds its places; single units where a pool has given them."""
        unit, units = carried.wanted.unit, carried.wanted.max_units
        rooms = suiting(self.shapes, carried.wanted.require)
        tasks = job_tasks(unit, units, carried.units_per_task, rooms)
        return tasks if _are_of(tasks, carried.places) else job_tasks(unit, units, SPREAD, rooms)

    def _plan(
        self, tasks: JobTasks, places: Sequence[Allocation], owed: Sequence[tuple[int, int, int]] = ()
    ) -> int:
        counts = tasks.tasks_in([place.units for place in places])
        if counts is None:
            raise BetimesError(f"internal: {places} are not {tasks.count} tasks of {tasks.units_each} units")
        while self.state.cluster[0].unused < len(places) + len(self.state.nodes):
            self.driver.heed(NEED_PLACEMENTS)
        # Lists of placements are read from their end.
        for at, (place, count) in enumerate(reversed(list(zip(places, counts, strict=True)))):
            self.state.plan[at].node, self.state.plan[at].tasks = place.node, count
        for at, (gpu, cpu, memory) in enumerate(reversed(owed)):
            sketch = self.state.sketch[at]
            sketch.free_gpu, sketch.free_cpu, sketch.free_memory = gpu, cpu, memory
        return len(places)

    def account(self, job: int) -> Account:
        """The account of a job; work is in seconds."""
        slot = self.slot_of[job]
        account = account_of(self.state, slot)
        account.resizes = self.resizes_of.get(job, 0)
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

    def _be_patient(self, now_s: float, gone: set[int]) -> None:
        """A job keeps its nodes until the executor reports its exit, however long ago its grace period ended."""
        needs = as_array(self.state.needs)
        late = np.flatnonzero((needs["vacate_at"] <= now_s) & (needs["holder"] >= 0))
        for slot in late.tolist():
            if slot in self.job_of and slot not in gone:
                entries.expect_leaving(self.state, slot, now_s + PATIENCE_S)
        if self.provisions:
            self.machines.put_off(now_s)
        for job in self.booting:  # no speculative run ends before it has begun
            slot = self.slot_of[job]
            if self.state.needs[slot].alarm_s <= now_s:
                entries.speculate_until(self.state, slot, now_s + PATIENCE_S)

    def _intervene(self, now_s: float, what: Inputs) -> bool:
        """Carry out inputs that the loop does not know; returns whether all jobs need a new look."""
        self.state.pool[0].now = now_s
        waiting = [slot for job in what.done if self.state.needs[slot := self.slot_of[job]].holder < 0]
        for slot in waiting:
            entries.withdraw(self.state, slot)
        for job in what.lost:
            self.lose(job, now_s)
        for job, left_s in what.believed:
            slot = self.slot_of[job]
            entries.believe(self.state, slot, left_s)
        changed, self.changed = self.changed, False
        return bool(waiting or what.lost or what.believed or what.look or changed)

    def _instant(self, until_s: float, wanted: Sequence[JobRequest] = (), again: bool = False) -> Decisions:
        """Run the next instant, with these submissions; its changes."""
        trace = new_trace(len(wanted), 1).replaced(outcomes=blank(Outcome, 0))
        self._learn_labels([one.require for one in wanted])
        for one in wanted:
            self.tasks_of[one.job] = self._split(one.asked)
        self._learn_demands(self.tasks_of[one.job] for one in wanted)
        for at, one in enumerate(wanted):
            self._fill(trace.arrivals[at], one, self.tasks_of[one.job], until_s)
        self._coming, self._first = wanted, int(self.state.pool[0].submitted)
        self.driver.trace, self.driver.row = trace, np.zeros(1, dtype=np.int64)
        self.state.pool[0].budget = 0 if again else 1  # a job preempted now has not left yet
        if again:
            self.state.cluster[0].pending = EVERYTHING
        self.driver.advance(until_s)
        self._enter()
        if self.rounds is not None:
            self.rounds.wake(self.state)
        return self._round()

    def _enter(self) -> None:
        """Register the submitted jobs by slot."""
        if not self._coming:
            return
        wanted, self._coming = self._coming, ()
        seqs, marks = as_array(self.state.jobs)["seq"], as_array(self.state.progress)["served_by"]
        new = np.flatnonzero((marks >= 0) & (seqs >= self._first)).tolist()
        for slot, one in zip(sorted(new, key=lambda slot: self.state.jobs[slot].seq), wanted, strict=True):
            self._know(slot, one)
            self.state.progress[slot].row = slot
            if self.rents and not self._can_rent(slot, one):
                entries.wait_until(self.state, slot, math.inf)

    def _know(self, slot: int, wanted: JobRequest) -> None:
        """Register a job in this slot."""
        self.slot_of[wanted.job], self.job_of[slot] = slot, wanted.job
        if wanted.require:
            self.required[wanted.job] = wanted.require
        self.asked[wanted.job] = wanted.asked
        if wanted.asked not in self._alike:
            self._alike[wanted.asked], self._tasks_for[wanted.asked] = set(), self._split(wanted.asked)
        self._alike[wanted.asked].add(wanted.job)
        if wanted.by_family:
            self.by_family.add(wanted.job)
        if self.rounds is not None:
            self.rounds.know(slot, wanted)

    def _ask_planner(self, driver: Driver) -> None:
        assert self.rounds is not None, "a planner is asked only where there is one"
        self._enter()
        cluster = driver.state.cluster[0]
        if cluster.waiting > 0 and driver.state.pool[0].now >= cluster.select_s:
            self._note_selection(driver)
        self.rounds.hold(driver)

    def _can_rent(self, slot: int, wanted: JobRequest) -> bool:
        """Whether the machines that would be rented for a waiting job hold all of it."""
        if self.state.needs[slot].alarm_s == math.inf:
            return True  # none will be
        offer = _offer_for(self.state, slot, False)
        count = _machines_for(self.state, slot, offer)
        machine = rooms_of(self.offered)[offer]
        return units_on(self.tasks_of[wanted.job], wanted.unit, machine, count) is not None

    def _foresee_wait(self, driver: Driver) -> None:
        """Let a job begin to wait, unless a play-out shows that the wait would be in vain."""
        slot, slots = int(driver.state.pool[0].offender), len(driver.state.free)
        need = driver.state.needs[slot]
        need.undecided = 0
        ahead = driver.copy(new_trace(slots, 1), np.array([slots], dtype=np.int64), {})
        ahead.rules = driver.rules.replaced(plays=False)
        entries.wait_until(ahead.state, slot, need.until_s)
        ahead.advance(need.until_s)
        if ahead.state.needs[slot].offer < 0:
            entries.wait_until(driver.state, slot, need.until_s)

    def _round(self) -> Decisions:
        """Read the log: the decisions since the last read."""
        cluster, moves = self.state.cluster[0], list[Move]()
        lines = as_array(self.state.log)[: cluster.logged]
        decided: dict[int, set[int]] = {}
        for slot, what in zip(lines["job"].tolist(), lines["what"].tolist(), strict=True):
            if slot in self.job_of:  # else its job is over, and there is none in its place
                decided.setdefault(slot, set()).add(what)
        cluster.logged = 0
        for slot in sorted(decided, key=lambda slot: self.state.jobs[slot].seq):
            moves += self._moves(slot, decided[slot])
        machines = tuple(self.machines.decided(lines)) if self.provisions else ()
        granted = {move.job for move in moves if isinstance(move, Grant)}
        moves.sort(key=lambda move: (isinstance(move, Preempt) and move.job in granted, _order(move)))
        return Decisions(float(self.state.pool[0].now), tuple(moves), machines)

    def _moves(self, slot: int, decided: set[int]) -> Iterator[Move]:
        """The moves that carry out these decisions about a job."""
        job, need = self.job_of[slot], self.state.needs[slot]
        holds = need.holder >= 0
        if RELEASE in decided:
            yield StopSpeculating(job)
        if RENT in decided and need.rented > 0:
            self.booting.add(job)
            yield self._rented(job, slot)
        if DOUBLE in decided:
            yield Outrun(job, float(self.state.jobs[slot].size_s))
        if START in decided and holds and need.rented == 0:
            tasks, places = self.tasks_of[job], self._held(job, int(need.placed))
            yield Grant(job, 0, tasks.units, places, tasks.units_each)
        elif BIND in decided and need.bound >= 0:
            yield Bind(job, self._held(job, int(need.bound)), self._owed(int(need.bound)))
        if RESERVE in decided or holds:
            before = self.promised.pop(job, NOTHING_PROMISED)
            start_s, places = float(need.reserved_s), self._held(job, int(need.reservation))
            if (start_s, places) != before and not holds:
                yield Reserve(job, start_s, places)
            if start_s < math.inf:
                self.promised[job] = start_s, places
        if MIGRATE in decided and holds and need.bound >= 0:
            expected = None if self.rounds is None else self.rounds.expected.get(slot)
            yield Migrate(job, self._held(job, int(need.bound)), bool(need.moves_when_free == 1), expected)
        if PREEMPT in decided and holds and need.vacate_at < math.inf:
            yield Preempt(job, float(need.vacate_at), self.job_of.get(int(need.preemptor)))

    def _rented(self, job: int, slot: int) -> Rent:
        need, tasks = self.state.needs[slot], self.tasks_of[job]
        machine = rooms_of(self.offered)[need.offer]
        found = units_on(tasks, self.asked[job].unit, machine, int(need.rented))
        if found is None:
            raise BetimesError(
                f"internal: {need.rented} machines are rented for job {job}, and do not hold it"
            )
        units, each = found
        return Rent(job, int(need.offer), units, each, float(need.alarm_s))

    def _held(self, job: int, at: int) -> tuple[Allocation, ...]:
        """The list of placements that begins at `at`, in units of the job."""
        nodes: list[int] = []
        counts: list[int] = []
        while at >= 0:
            placement = self.state.placements[at]
            nodes.append(int(placement.node))
            counts.append(int(placement.tasks))
            at = int(placement.follows)
        return tuple(map(Allocation, nodes, self.tasks_of[job].units_in(counts)))

    def _owed(self, at: int) -> tuple[tuple[int, int, int], ...]:
        owed: list[tuple[int, int, int]] = []
        while at >= 0:
            placement = self.state.placements[at]
            owed.append((int(placement.owed_gpu), int(placement.owed_cpu), int(placement.owed_memory)))
            at = int(placement.follows)
        return tuple(owed)

    def _fill(self, arrival: Arrival, wanted: JobRequest, tasks: JobTasks, now_s: float) -> None:
        self._job_rows.fill(arrival, wanted, tasks, now_s)
        arrival.fits_no_owned = self._fits_no_owned(tasks, wanted.require)
        if self.rounds is not None:  # a moving job has left once that is reported, not at once
            arrival.stop_s = max(wanted.grace_s, PATIENCE_S)


def _named(job_of: Mapping[int, int], slot: int) -> object:
    return job_of.get(slot, "that has just been submitted")


Owned = dict[str, NDArray[np.int64]]
"""Amounts of machines, (machines, 3), by family."""


def is_held(tasks: JobTasks, machines: Owned) -> bool:
    """Whether these machines, when empty, hold a job's tasks; some may take no work now."""
    if tasks.units_each <= 0:
        return False
    held = 0
    for family, amounts in machines.items():
        demand = tasks.demand_on(family)
        if demand is not None:
            need = np.array(demand)
            room = (amounts[:, need > 0] // need[need > 0]).min(axis=1, initial=tasks.count)
            held += int(room.sum())
    return held >= tasks.count


def _shares(needs: NDArray[Any], largest: Sequence[int]) -> Floats:
    """`Need.share` of all jobs with one demand for all machines."""
    return norm_of(needs["tasks"], [needs[name] for name in ("gpu", "cpu", "memory")], largest)


def _are_of(tasks: JobTasks, places: Sequence[Allocation]) -> bool:
    return tasks.tasks_in([place.units for place in places]) is not None


def _order(move: Move) -> int:
    """Within one instant: exits first, then reservations, then starts.

    Last come exits from grants of the same instant.
    """
    return (Outrun, Migrate, Preempt, StopSpeculating, Reserve, Bind, Rent, Grant).index(type(move))
