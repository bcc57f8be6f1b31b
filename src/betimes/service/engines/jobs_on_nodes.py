"""The jobs of a live engine of nodes: slots, tasks, demands, and the reservations that it has reported.

Outside, jobs hold units; inside, tasks are placed. The core matches both with nodes by numbers: bits of labels, numbers
of families, rows of demands. They are dealt here, anew as jobs come, and as nodes come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Cluster, Offer
from betimes.cluster.interference import workload_of
from betimes.cluster.labels import NONE, Labels, bits_for, mask
from betimes.cluster.resources import Amounts
from betimes.cluster.shapes import Shape, Shapes, roomiest, suiting
from betimes.cluster.tasks import SPREAD, JobTasks, job_tasks, norm_of
from betimes.core.nodes.columns import ANYTHING, NodesState
from betimes.core.nodes.demands import DemandRows, Needed
from betimes.core.nodes.passes.schedule import rank_again
from betimes.core.nodes.rules import NodesRules
from betimes.errors import BetimesError
from betimes.kernels import Ints, as_array, entry
from betimes.service.engines.dedicated_machines import shapes_of
from betimes.service.engines.job_rows import JobRows, needed_on
from betimes.service.engines.messages import Allocation, Asked, JobRequest, Restored
from betimes.service.engines.planner_rounds import LiveRounds
from betimes.twin.nodes import entries
from betimes.twin.nodes.driver import Driver
from betimes.twin.nodes.event_loop import Arrival
from betimes.twin.nodes.launching import hardware_of
from betimes.twin.nodes.trace_loop import new_trace

Promise = tuple[float, tuple[Allocation, ...]]
"""From when, s, a job has a reservation, and where."""

PATIENCE_S = 1.0  # for a job that should have left by now, before it is looked at again
NEW_JOB = "that has just been submitted"
"""In messages, a job that has no slot of its own yet."""

_rank_again = entry(rank_again, NodesState, NodesRules)
ENTRIES = (_rank_again,)


class JobsOnNodes:
    """The jobs of an engine.

    machines: the shape of each owned node; shapes: of those that take work, by which jobs are split into tasks. rents:
    machines may be rented for jobs alone; shares: for several jobs. rounds: of a planner, to which jobs are reported.
    """

    driver: Driver  # of the cluster that is made of these numbers

    def __init__(
        self,
        machines: Shapes,
        shapes: Shapes,
        offers: Sequence[Offer],
        rounds: LiveRounds | None,
        *,
        rents: bool,
        shares: bool,
    ) -> None:
        self.rounds = rounds
        self.shapes, self.offers, self.offered = shapes, tuple(offers), shapes_of(offers)
        self._rents, self._uses_offers = rents, rents or shares
        # Of owned nodes, by number.
        self.labels = {number: machine.labels for number, machine in enumerate(machines)}
        # Offers' families come first, as planners count these alone.
        families = dict.fromkeys([offer.family for offer in offers] + [each.family for each in machines])
        self.families = {family: number for number, family in enumerate(families or ("",))}
        self.bits: dict[tuple[str, str], int] = {}  # of each label that was required lately
        self.demands = DemandRows(len(self.families), 0)
        capacity = np.array([each.amounts for each in machines], dtype=np.int64).reshape(-1, 3)
        self.largest: list[int] = self._largest(capacity).tolist()
        self.users: dict[str, int] = {}  # rows of users, where they share
        self.exempt: Mapping[str, int] = {}  # bits of closings that do not concern users' jobs
        self.workloads: dict[str, int] = {}  # the rows of those for which offers have speeds
        self._workload_of: dict[int, str] = {}  # of jobs that name one
        self.slot_of: dict[int, int] = {}
        self.job_of: dict[int, int] = {}
        self.tasks_of: dict[int, JobTasks] = {}
        self.asked: dict[int, Asked] = {}
        self._alike: dict[Asked, set[int]] = {}  # jobs with equal requests
        self._tasks_for: dict[Asked, JobTasks] = {}  # the tasks of each request, unless outdated
        # Jobs that hold nodes in other tasks than a split now would give.
        self._outdated: set[int] = set()
        self.required: dict[int, Labels] = {}  # of jobs that require any
        self._by_family: set[int] = set()  # jobs whose demand depends on the family
        self.booting: set[int] = set()  # jobs whose rented machines are not up
        self.promised: dict[int, Promise] = {}  # the reservation that was reported last
        self.resizes_of: dict[int, int] = {}  # of jobs that have come from a pool, as counted there
        self.changed = False  # jobs have lost nodes, or nodes have changed, and no pass has followed yet

    def know(self, slot: int, request: JobRequest) -> None:
        """Register a job in this slot."""
        self.slot_of[request.job], self.job_of[slot] = slot, request.job
        if request.require:
            self.required[request.job] = request.require
        self.asked[request.job] = request.asked
        if request.asked not in self._alike:
            self._alike[request.asked], self._tasks_for[request.asked] = set(), self._split(request.asked)
        self._alike[request.asked].add(request.job)
        if request.by_family:
            self._by_family.add(request.job)
        if request.workload:
            self._workload_of[request.job] = workload_of(request.workload)
        if self.rounds is not None:
            self.rounds.know(slot, request)

    def forget(self, job: int) -> None:
        """A job has left the engine."""
        for jobs in (self.booting, self._by_family, self._outdated):
            jobs.discard(job)
        for by_job in (self.required, self.resizes_of, self.promised, self._workload_of):
            by_job.pop(job, None)
        asked = self.asked.pop(job)
        self._alike[asked].discard(job)
        if not self._alike[asked]:
            del self._alike[asked], self._tasks_for[asked]
        del self.job_of[self.slot_of.pop(job)], self.tasks_of[job]

    def name_of(self, slot: int) -> object:
        """The job in a slot, for messages."""
        return self.job_of.get(slot, NEW_JOB)

    def tasks(self, request: JobRequest) -> JobTasks:
        """The tasks of a job, or those it would have if submitted now."""
        return self.tasks_of.get(request.job) or self._split(request.asked)

    def prepare(self, requests: Sequence[JobRequest]) -> list[JobTasks]:
        """The tasks of jobs to be submitted; all that they need has its numbers from now on."""
        self._learn_labels([one.require for one in requests])
        tasks = [self._split(one.asked) for one in requests]
        self._learn_demands(tasks)
        return tasks

    def prepare_restored(self, carried: Restored) -> JobTasks:
        """The same for a job that is taken over; single units where a pool has given it what it holds."""
        request = carried.request
        self._learn_labels([request.require])
        tasks = whole = self._tasks_for.get(request.asked) or self._split(request.asked)
        if carried.units:
            rooms = suiting(self.shapes, request.require)
            tasks = job_tasks(request.unit, request.max_units, carried.units_per_task, rooms)
            if not are_of(tasks, carried.places):
                tasks = job_tasks(request.unit, request.max_units, SPREAD, rooms)
        self._learn_demands([tasks])
        self.tasks_of[request.job] = tasks
        if tasks != whole:
            self._outdated.add(request.job)
        return tasks

    def _split(self, asked: Asked) -> JobTasks:
        """Split for the nodes, or for offers, too, where the nodes do not hold the job, as in the twin."""
        tasks = self.rows.split(asked)
        if not self._fits_no_owned(tasks, asked.require):
            return tasks
        rooms = roomiest([*suiting(self.shapes, asked.require), *suiting(self.offered, asked.require)])
        return job_tasks(asked.unit, asked.units, asked.units_per_task, rooms)

    def fill(self, arrival: Arrival, request: JobRequest, tasks: JobTasks, now_s: float) -> None:
        """Write a job with these tasks, submitted now, into a row."""
        self.rows.fill(arrival, request, tasks, now_s)
        arrival.fits_no_owned = self._fits_no_owned(tasks, request.require)
        arrival.exempt = self.exempt.get(request.user, 0)
        if self.rounds is not None:  # a moving job has left once that is reported, not at once
            arrival.stop_s = max(request.grace_s, PATIENCE_S)

    def _fits_no_owned(self, tasks: JobTasks, required: Labels) -> int:
        """1: machines may be rented for jobs alone, and owned ones with these labels do not hold this job when empty.

        The labels have bits. Machines count though they may take no work now.
        """
        if not self._rents or tasks.units_each <= 0:
            return int(self._rents)
        nodes, machines = as_array(self.driver.state.nodes), as_array(self.driver.state.machines)
        bits, held = mask(required, self.bits), 0
        suit = (machines["offer"] < 0) & (nodes["labels"] & bits == bits)
        amounts = np.stack([nodes[name][suit] for name in ("gpu", "cpu", "memory")], axis=1)
        for family, number in self.families.items():
            demand = tasks.demand_on(family)
            if demand is not None:
                need, there = np.array(demand), amounts[machines["family"][suit] == number]
                room = (there[:, need > 0] // need[need > 0]).min(axis=1, initial=tasks.count)
                held += int(room.sum())
        return int(held < tasks.count)

    @property
    def rows(self) -> JobRows:
        """Makes rows of jobs."""
        return JobRows(
            *(self.shapes, self.bits, self.families, self.demands, self.largest, self.workloads, self.users)
        )

    def is_alike(self, number: int, machine: Shape) -> bool:
        """Whether a node has these labels, and is of this family."""
        family = self.families.get(machine.family)
        return self.labels[number] == machine.labels and self.driver.state.machines[number].family == family

    def family_of(self, machine: Shape) -> int:
        """The number of a machine's family."""
        if machine.family not in self.families:
            self.families[machine.family] = len(self.families)
            self._deal_demands(())
        return self.families[machine.family]

    def _learn_demands(self, tasks: Iterable[JobTasks]) -> None:
        """Give rows to the demands of these jobs on each family."""
        coming = [(needed_on(each, self.families), each.demand) for each in tasks if each.by_family]
        if any(self.demands.first_of(*each) is None for each in coming):
            self._deal_demands(coming)

    def _deal_demands(self, coming: Iterable[tuple[Needed, Amounts]]) -> None:
        """Assign all rows again, to the demands of present and coming jobs."""
        state, tasks = self.driver.state, {job: self.tasks_of[job] for job in self._by_family}
        here = {job: (needed_on(each, self.families), each.demand) for job, each in tasks.items()}
        distinct = {*here.values(), *coming}
        self.demands = rows = DemandRows(len(self.families), 2 * len(distinct))
        for each in distinct:
            rows.first_of(*each)
        for job, each in here.items():
            state.needs[self.slot_of[job]].demands = rows.first_of(*each) or 0
        self.driver.state = state.replaced(demands=rows.table)
        state.cluster[0].families = len(self.families)

    def set_speeds(self, offers: Sequence[Offer]) -> dict[int, float]:
        """Let machines of these offers run workloads at the offers' speeds from now on.

        Returns the speed of each job that works at another now, over that before.
        """
        if not offers:
            return {}
        cluster = Cluster("offers", (), offers=tuple(offers))
        self.workloads = {workload: row for row, workload in enumerate(cluster.workloads)}
        self.driver.state = state = self.driver.state.replaced(hardware=hardware_of(cluster))
        found: dict[int, float] = {}
        for job, workload in self._workload_of.items():
            slot = self.slot_of[job]
            state.needs[slot].workload = self.workloads.get(workload, -1)
            before = float(state.progress[slot].rate)
            entries.re_rate_job(state, slot)
            after = float(state.progress[slot].rate)
            if after != before:
                found[job] = after / before
        return found

    def _learn_labels(self, required: Sequence[Labels]) -> None:
        """Give labels required by these and by present jobs bits on all nodes and offers."""
        if all(label in self.bits for labels in required for label in labels):
            return
        self.bits = bits = bits_for([*self.required.values(), *required])
        state = self.driver.state
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

    def _measure(self) -> None:
        """Measure all jobs by the largest present machines (`Need.share`)."""
        state, rules = self.driver.state, self.driver.rules
        nodes = as_array(state.nodes)[as_array(state.machines)["offer"] < 0]
        largest = self._largest(np.stack([nodes[name] for name in ("gpu", "cpu", "memory")], axis=1)).tolist()
        if largest == self.largest and not self._by_family:
            return
        self.largest = largest
        cluster, needs = state.cluster[0], as_array(state.needs)
        cluster.most_gpu, cluster.most_cpu, cluster.most_memory = (max(1, most) for most in largest)
        amounts = [needs[name] for name in ("gpu", "cpu", "memory")]
        needs["share"] = norm_of(needs["tasks"], amounts, largest)  # of jobs with one demand for all machines
        for job in self._by_family:
            state.needs[self.slot_of[job]].share = self.rows.share(self.tasks_of[job])
        if rules.ranked and not rules.dynamic and not rules.requeues_last:
            self.driver.heed(_rank_again(state, rules))

    def _largest(self, owned: NDArray[np.int64]) -> NDArray[np.int64]:
        """(3,) the maximum of each resource on any machine that can run jobs; owned: (nodes, 3)."""
        offered = [machine.amounts for machine in self.offered] if self._uses_offers else []
        return np.concatenate([owned, np.array(offered, dtype=np.int64).reshape(-1, 3)]).max(
            axis=0, initial=0
        )

    def fit_to(self, shapes: Shapes, now_s: float) -> list[int]:
        """Split waiting jobs into tasks for nodes of these shapes, after nodes have come or gone.

        Returns jobs that were bound to nodes and wait again. Jobs that hold nodes keep their tasks while they do.
        """
        before, self.shapes = self.shapes, shapes
        self.driver.state.pool[0].now = now_s
        self._measure()
        outdated, self._outdated = self._outdated, set()
        needs = as_array(self.driver.state.needs)
        holder, in_vain = needs["holder"], needs["fits_no_owned"]
        changed: list[tuple[Asked, JobTasks, Ints]] = []
        for asked, jobs in self._alike.items():
            alike = not self._rents and suiting(shapes, asked.require) == suiting(before, asked.require)
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
        state, slots = self.driver.state, np.concatenate([of for _, _, of in changed])
        bound = as_array(state.needs)["bound"][slots] >= 0
        unbound = sorted(self.job_of[slot] for slot in slots[bound].tolist())
        trace, at = new_trace(len(slots), 1), 0
        arrivals, reserved = as_array(trace.arrivals), list[tuple[int, Promise]]()
        for asked, tasks, of in changed:
            self.rows.fill_tasks(trace.arrivals[at], tasks)
            trace.arrivals[at].fits_no_owned = self._fits_no_owned(tasks, asked.require)
            arrivals[at : at + len(of)] = arrivals[at]
            at += len(of)
            for slot in of.tolist():
                job = self.job_of[slot]
                promised = self.promised.pop(job, None)
                if promised is not None:
                    reserved.append((slot, promised))
                self.tasks_of[job] = tasks
        self.driver.heed(entries.split_anew(state, self.driver.rules, trace, slots))
        for slot, promised in reserved:
            self.reserve(slot, promised)
        self.changed = True
        return unbound

    def reserve(self, slot: int, promise: Promise) -> None:
        """Keep a waiting job's reservation if its tasks can be there; the next pass reviews it."""
        job, (start_s, places) = self.job_of[slot], promise
        if are_of(self.tasks_of[job], places):
            count = self.plan(self.tasks_of[job], places)
            entries.book(self.driver.state, slot, count, start_s)
            self.driver.state.cluster[
                0
            ].must_replan = ANYTHING  # the nodes may have changed since it was made
            self.promised[job] = promise

    def plan(
        self, tasks: JobTasks, places: Sequence[Allocation], owed: Sequence[tuple[int, int, int]] = ()
    ) -> int:
        """Write places of a job where the core takes them from; returns their number. owed: at each, by victims."""
        counts = tasks.tasks_in([place.units for place in places])
        if counts is None:
            raise BetimesError(f"internal: {places} are not {tasks.count} tasks of {tasks.units_each} units")
        self.driver.plan([(place.node, count) for place, count in zip(places, counts, strict=True)])
        state = self.driver.state
        for at, (gpu, cpu, memory) in enumerate(reversed(owed)):
            sketch = state.sketch[at]
            sketch.free_gpu, sketch.free_cpu, sketch.free_memory = gpu, cpu, memory
        return len(places)


def are_of(tasks: JobTasks, places: Sequence[Allocation]) -> bool:
    """Whether these places hold whole tasks, all of a job's."""
    return tasks.tasks_in([place.units for place in places]) is not None
