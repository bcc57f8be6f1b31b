"""The packing planners as planners of the core: snapshots become rounds, and plans become decisions.

Tasks of a job are placed separately, and a job moves as a whole. Tasks of jobs that are starting or moving are pinned.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from betimes.cluster import Cluster
from betimes.core.planning import (
    Bind,
    ByFamily,
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    MachineSnapshot,
    Migrate,
    Place,
    Release,
    Rent,
    Snapshot,
    new,
)
from betimes.errors import ClusterError
from betimes.policies.packing.catalogue import Amounts, Catalogue, Demand, fits
from betimes.policies.packing.plan import Bin, Plan, Planner, changes, check
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from betimes.policies.packing.reservation_price import ReservationPrices

_TASKS = 1 << 20  # more than a job has
_NUMBERS = 1 << 32  # more than there are machines at once

_STAYING = (MachinePhase.BOOTING, MachinePhase.SETTING_UP, MachinePhase.UP)


class Rounds:
    """A packing planner that decides every `period_s` on the jobs that a cluster's owned machines do not hold.

    every_round: plan even if nothing has happened since; the plan then depends on the time. profile_s: a job whose
    throughput alone is unknown runs alone on its machines for at most this long, hidden from the planner, for which it
    arrives when that is over. profiled_until_s: the jobs for which it goes on, by their seq.
    """

    def __init__(
        self,
        planner: Planner,
        cluster: Cluster,
        period_s: float,
        *,
        every_round: bool = False,
        profile_s: float = 0.0,
    ) -> None:
        self.planner, self.period_s = planner, period_s
        self.profile_s = profile_s
        self.profiled_until_s: dict[int, float] = {}  # at the latest; infinity: not started
        self._alone_since_s: dict[int, float] = {}  # by seq
        self._profiled_s: dict[int, float] = {}  # by seq: when that was over, of live jobs
        self.every_round = every_round or profile_s > 0
        try:
            self._weigh(Catalogue.of(cluster.offers))
        except ClusterError as error:
            raise ClusterError(f"cluster {cluster.name}: {error}") from None
        self.offers = [offer.type for offer in cluster.offers]
        self._families = cluster.families
        self._demands: dict[tuple[Amounts, ByFamily], Demand] = {}

    def _weigh(self, catalogue: Catalogue) -> None:
        """Plan with these types from now on."""
        self.catalogue, self._prices = catalogue, ReservationPrices(catalogue)
        self._differing = {k for k, each in enumerate(catalogue.types) if each.speeds}

    def plan(self, snapshot: Snapshot) -> Sequence[Decision]:
        """The decisions now; raises ClusterError for a task that fits no type, PolicyViolation for a bad plan."""
        types = self.catalogue.types
        if snapshot.speeds and snapshot.speeds != tuple(each.speeds for each in types):
            pairs = zip(types, snapshot.speeds, strict=True)
            self._weigh(Catalogue(tuple(replace(each, speeds=speeds) for each, speeds in pairs)))
        on_owned, snapshot = owned_first(
            snapshot, partial(self._rent_usd_per_h, snapshot.longest_run_s), self._can_rent
        )
        return [*self._packed(settled(snapshot)), *on_owned]  # packed first: binds name new machines by index

    def _rent_usd_per_h(self, longest_run_s: float, job: JobSnapshot) -> float:
        """The cost of a machine for each task of a job, USD an hour of work; infinite if none is rented for it."""
        if job.lasts_s > longest_run_s:
            return math.inf
        demand = self._demand_of(job)
        found = self._prices.reservation(demand, job.kind)
        return math.inf if found is None else job.tasks * found.usd_per_h

    def _can_rent(self, job: JobSnapshot, rentable: Sequence[int]) -> bool:
        """Whether machines that can be rented now hold each task of a job."""
        demands = [self._demand_of(job)]
        return any(
            count > 0 and fits(each, demands)
            for each, count in zip(self.catalogue.types, rentable, strict=True)
        )

    def _demand_of(self, job: JobSnapshot) -> Demand:
        key = job.demand, job.by_family
        if key not in self._demands:
            named = zip(self._families, job.by_family, strict=False)  # empty if it holds everywhere
            by_family = tuple(sorted((family, each) for family, each in named if each is not None))
            self._demands[key] = Demand(None, by_family) if by_family else Demand(job.demand)
        return self._demands[key]

    def _packed(self, snapshot: Snapshot) -> Sequence[Decision]:
        machines = [each for each in snapshot.machines if each.offer >= 0 and _stays(each)]
        left = dict(zip(self.offers, snapshot.rentable, strict=True))
        catalogue = available(self.catalogue, left, {self.offers[each.offer] for each in machines})
        if catalogue is None:
            return ()
        self._profile(snapshot)
        round_ = self._round(snapshot, machines, catalogue)
        plan = self._planned(round_, self.profiled_until_s)
        check(plan, round_.problem)
        plan = in_time(plan, round_.problem)
        return self._decisions(
            snapshot,
            machines,
            round_.problem,
            within(plan, round_.problem, left, ordered=snapshot.is_ordered),
        )

    def _profile(self, snapshot: Snapshot) -> None:
        """Note which jobs run, or are to run, alone to measure their throughput alone, and those that have done so."""
        if self.profile_s <= 0:
            return
        for seq, _ in snapshot.finished:
            self._profiled_s.pop(seq, None)
        on = defaultdict[int, set[int]](set)
        for job in snapshot.jobs:
            for place in job.bound or job.places:
                on[place.machine].add(job.seq)
        began_s, self._alone_since_s, self.profiled_until_s = self._alone_since_s, {}, {}
        for job in snapshot.jobs:
            is_beside = any(len(on[place.machine]) > 1 for place in job.bound or job.places)
            if is_beside or job.seq in self._profiled_s:
                continue
            since_s = math.inf
            if job.phase == JobPhase.RUNS:
                since_s = self._alone_since_s[job.seq] = began_s.get(job.seq, snapshot.now_s)
            until_s = min(job.profiled_s, since_s + self.profile_s)
            if until_s > snapshot.now_s:
                self.profiled_until_s[job.seq] = since_s + self.profile_s
            else:
                self._profiled_s[job.seq] = until_s

    def _planned(self, round_: Round, profiled: Collection[int]) -> Plan:
        """The planner's plan for all other jobs, with the profiled jobs on their machines added."""
        if not profiled:
            return self.planner.plan(round_)
        problem = round_.problem
        alone = [task for task in problem.tasks if task.job in profiled]
        own = {task.machine for task in alone if task.machine is not None}
        rest = Problem(
            problem.catalogue,
            tuple(task for task in problem.tasks if task.job not in profiled),
            tuple(machine for machine in problem.machines if machine.id not in own),
        )
        plan = self.planner.plan(replace(round_, problem=rest))
        prices = ReservationPrices(problem.catalogue)
        bins = [
            Bin(machine.type, problem.residents[machine.id], machine.id)
            for machine in problem.machines
            if machine.id in own
        ]
        bins += [
            Bin(problem.catalogue.types[prices.of(task).type].name, (task.id,))
            for task in alone
            if task.machine is None
        ]
        return replace(plan, bins=(*plan.bins, *bins))

    def _round(self, snapshot: Snapshot, machines: Sequence[MachineSnapshot], catalogue: Catalogue) -> Round:
        numbers = {each.machine: _id(each) for each in machines}
        type_of = {
            each.machine: self.catalogue.types[each.offer]
            for each in machines
            if each.offer in self._differing
        }
        family_of = {each.machine: each.family for each in snapshot.machines}
        shortest_s = min((each.open_s for each in machines), default=math.inf)
        tasks, reports = list[Task](), dict[int, float]()
        # Machines that a job is leaving: the throughput next to its tasks is temporary, so reports there do not count.
        left = {place.machine for job in snapshot.jobs if _is_going(job) for place in job.places}
        for job in snapshot.jobs:
            places = [place.machine for place in job.bound or job.places for _ in range(place.tasks)]
            demand = self._demand_of(job)
            if job.phase == JobPhase.WAITS and job.lasts_s > snapshot.longest_run_s:
                continue  # nothing is rented for it
            if (
                catalogue is not self.catalogue
                and job.phase == JobPhase.WAITS
                and catalogue.cheapest_holding([demand]) is None
                and self.catalogue.cheapest_holding([demand]) is not None
            ):
                continue  # the job waits until a machine for it is available
            # Normalise by the slowest machine, so that neighbours are not blamed for its speed.
            speed = (
                min((type_of[at].speed(job.kind) for at in places if at in type_of), default=1.0)
                if type_of
                else 1.0
            )
            if job.speeds and places:
                speed *= min(job.speeds[family_of[at]] for at in places)
            can_move = _can_move(job) and job.lasts_s <= shortest_s
            pause_s = job.launch_s + job.stop_s + job.init_s
            shows = (
                job.launched and job.speed > 0.0 and not any(place.machine in left for place in job.places)
            )
            for number in range(job.tasks):
                at = numbers.get(places[number]) if places else None
                one = Task(
                    job.seq * _TASKS + number,
                    job.seq,
                    job.kind,
                    demand,
                    at,
                    at is not None and not can_move,
                    max(job.submit_s, self._profiled_s.get(job.seq, -math.inf)),
                    job.left_s,
                    pause_s,
                    job.lasts_s,
                )
                tasks.append(one)
                if shows:
                    reports[one.id] = job.speed / speed
        rented = tuple(
            Machine(_id(each), self.offers[each.offer], each.phase == MachinePhase.UP, each.open_s)
            for each in machines
        )
        problem = Problem(catalogue, tuple(tasks), rented)
        return Round(snapshot.now_s, problem, dict(snapshot.finished), reports)

    def _decisions(
        self, snapshot: Snapshot, machines: Sequence[MachineSnapshot], problem: Problem, plan: Plan
    ) -> list[Decision]:
        needed = changes(plan, problem)
        decisions: list[Decision] = [
            Rent(self.offers.index(plan.bins[number].type)) for number in needed.rented
        ]
        number_of = {_id(each): each.machine for each in machines}
        ready = {each.machine for each in machines if each.phase == MachinePhase.UP}
        machine_of = {number: new(k) for k, number in enumerate(needed.rented)}
        machine_of |= {
            number: number_of[each.machine]
            for number, each in enumerate(plan.bins)
            if each.machine is not None
        }
        bin_of = {task: number for number, each in enumerate(plan.bins) for task in each.tasks}
        for job in snapshot.jobs:
            if job.seq not in needed.jobs:
                continue
            tasks = (job.seq * _TASKS + number for number in range(job.tasks))
            counts = Counter(machine_of[bin_of[task]] for task in tasks)
            places = tuple(Place(machine, count) for machine, count in counts.items())
            if job.phase == JobPhase.WAITS:
                decisions.append(Bind(job.job, places))
            else:
                keep = plan.keep_running and _may_wait(places, ready)
                decisions.append(Migrate(job.job, places, keep=keep))
        decisions += [Release(number_of[each]) for each in needed.released]
        return decisions


def _id(machine: MachineSnapshot) -> int:
    """An id that no earlier machine has had."""
    return machine.generation * _NUMBERS + machine.machine


def _stays(machine: MachineSnapshot) -> bool:
    """Whether a machine stays: one that is up and takes no new tasks is about to be taken away."""
    return machine.phase in _STAYING and (machine.is_open or machine.phase != MachinePhase.UP)


def _may_wait(places: Sequence[Place], ready: set[int]) -> bool:
    """Whether a job may stay until its new machines are up: it needs no room on running ones.

    A job that needs room on a running machine leaves at once: two jobs might else wait for each other's room, or a job
    for its own.
    """
    return all(place.machine not in ready for place in places)


def _is_going(job: JobSnapshot) -> bool:
    """Whether a job is about to leave its machines."""
    return bool(job.places) and (bool(job.bound) or job.phase == JobPhase.LEAVES)


def _can_move(job: JobSnapshot) -> bool:
    return job.phase == JobPhase.RUNS and job.launched and not job.bound


# --- machines whose lease ends before a job would be done ---


def in_time(plan: Plan, problem: Problem) -> Plan:
    """The plan with new machines for the waiting tasks that would outlast the lease of theirs.

    Tasks that are placed are pinned where one of the machines would not see them done.
    """
    bins = list[Bin]()
    for each in plan.bins:
        machine = None if each.machine is None else problem.machine[each.machine]
        late = [task for task in each.tasks if machine is not None and is_late(problem.task[task], machine)]
        if len(late) < len(each.tasks):
            bins.append(replace(each, tasks=tuple(task for task in each.tasks if task not in late)))
        if late:
            bins.append(Bin(each.type, tuple(late)))
    return replace(plan, bins=tuple(bins))


def is_late(task: Task, machine: Machine) -> bool:
    """Whether a task that would come to a machine is not done before that takes none any more."""
    return task.machine != machine.id and task.lasts_s > machine.open_s


# --- limits of the cloud's supply ---


def available(catalogue: Catalogue, left: Mapping[str, int], rented: Collection[str]) -> Catalogue | None:
    """The catalogue of a round: types that are rented or have machines left to rent; None: there are none.

    left: the number of rentable machines of each type; rented: the types of present machines.
    """
    types = tuple(each for each in catalogue.types if left[each.name] > 0 or each.name in rented)
    if len(types) == len(catalogue.types):
        return catalogue
    return Catalogue(types) if types else None


def within(plan: Plan, problem: Problem, left: Mapping[str, int], *, ordered: bool = False) -> Plan:
    """The plan with the next choice for each new machine whose type is used up.

    ordered: the first of the problem's tasks get the new machines that there are.

    The next choice is a machine that the plan would give back, preferably the one with most of the tasks; else a new
    one of the available type that holds them and does their work at least cost. If there is neither, waiting jobs wait
    on; if placed jobs are affected, all placed jobs stay where they are, and each task of a waiting job gets a machine.
    """
    remaining = dict(left)
    kept = {each.machine for each in plan.bins}
    idle = {machine.id: machine.type for machine in problem.machines if machine.id not in kept}
    bins, missing = list[Bin](), list[Bin]()
    wanted: Sequence[Bin] = plan.bins
    if ordered:
        place = {task.id: at for at, task in enumerate(problem.tasks)}
        wanted = sorted(
            wanted, key=lambda each: min((place[task] for task in each.tasks), default=len(place))
        )
    for each in wanted:
        if each.machine is None and remaining[each.type] == 0:
            missing.append(each)
            continue
        remaining[each.type] -= each.machine is None
        bins.append(each)
    if not missing:
        return plan
    waiting = set[int]()  # jobs for which no machine is available
    for each in missing:
        found = _on_idle(each.tasks, problem, idle) or _of_next_type(each.tasks, problem, remaining)
        if found is None:
            waiting |= {problem.task[task].job for task in each.tasks}
        elif found.machine is None:
            remaining[found.type] -= 1
            bins.append(found)
        else:
            del idle[found.machine]
            bins.append(found)
    if any(problem.task[task].machine is not None for job in waiting for task in problem.jobs[job]):
        return replace(plan, bins=(*_as_they_are(problem), *_each_alone(problem, left)))
    without = (
        replace(each, tasks=tuple(t for t in each.tasks if problem.task[t].job not in waiting))
        for each in bins
    )
    return replace(plan, bins=tuple(each for each in without if each.tasks))


def _as_they_are(problem: Problem) -> list[Bin]:
    on = problem.residents
    return [Bin(each.type, on[each.id], each.id) for each in problem.machines if on[each.id]]


def _each_alone(problem: Problem, left: Mapping[str, int]) -> list[Bin]:
    """A new machine for each task of waiting jobs, as far as available."""
    remaining, bins = dict(left), list[Bin]()
    for tasks in problem.jobs.values():
        if any(problem.task[task].machine is not None for task in tasks):
            continue
        after, own = dict(remaining), list[Bin]()
        for task in tasks:
            found = _of_next_type((task,), problem, after)
            if found is None:
                break
            after[found.type] -= 1
            own.append(found)
        else:
            remaining, bins = after, bins + own
    return bins


def _on_idle(tasks: tuple[int, ...], problem: Problem, idle: Mapping[int, str]) -> Bin | None:
    """The tasks on a machine that the plan would give back; None: none holds them."""
    demands = [problem.task[task].demand for task in tasks]
    holding = [
        id_
        for id_, type_ in idle.items()
        if fits(problem.catalogue.named(type_), demands)
        and not any(is_late(problem.task[task], problem.machine[id_]) for task in tasks)
    ]
    if not holding:
        return None

    def stay(machine: int) -> int:
        return sum(problem.task[task].machine == machine for task in tasks)

    best = max(
        holding, key=lambda machine: (stay(machine), -problem.catalogue.named(idle[machine]).usd_per_h)
    )
    return Bin(idle[best], tasks, best)


def _of_next_type(tasks: tuple[int, ...], problem: Problem, left: Mapping[str, int]) -> Bin | None:
    """The tasks on a new machine of an available type; None: none holds them."""
    prices = ReservationPrices(problem.catalogue)
    obtainable = {name for name, count in left.items() if count > 0}
    k = prices.cheapest_holding([problem.task[task] for task in tasks], obtainable)
    return None if k is None else Bin(problem.catalogue.types[k].name, tasks)


# --- owned machines before rented ones: their price is paid already ---


def owned_first(
    snapshot: Snapshot,
    rent_usd_per_h: Callable[[JobSnapshot], float],
    can_rent: Callable[[JobSnapshot, Sequence[int]], bool],
) -> tuple[list[Decision], Snapshot]:
    """The decisions that fill owned machines, and the snapshot without the jobs on, or waiting for, these.

    The job with the highest rent goes first, among equals the first of the snapshot; a job goes as a whole. Where users
    share, jobs for which no machine can be rented now go before all others, in their order. Jobs on owned machines
    stay there, and jobs that no rented machine holds wait for them (`rent_usd_per_h` is infinite). Interference does
    not count here: a paid machine is worth filling.
    """
    owned = {each.machine: each for each in snapshot.machines if each.offer < 0}
    if not owned:
        return [], snapshot
    empty = {number: each.capacity for number, each in owned.items()}
    room = {
        number: each.free for number, each in owned.items() if each.phase == MachinePhase.UP and each.is_open
    }
    family = {number: each.family for number, each in owned.items()}
    for job in snapshot.jobs:
        occupy(room, family, job, job.bound)  # the snapshot shows its room as free until the job starts
    settled = {
        job.job for job in snapshot.jobs if any(at.machine in owned for at in (*job.places, *job.bound))
    }
    decisions: list[Decision] = []
    waiting = [(rent_usd_per_h(job), job) for job in snapshot.jobs if job.phase == JobPhase.WAITS]
    closes = any(each.open_s < math.inf for each in owned.values())
    # For the remaining room, as many waiting jobs are alike.
    too_large = set[tuple[Amounts, ByFamily, int, float]]()

    def dearest_first(each: tuple[float, JobSnapshot]) -> float:
        is_scarce = snapshot.is_ordered and not can_rent(each[1], snapshot.rentable)
        return -math.inf if is_scarce else -each[0]

    for usd_per_h, job in sorted(waiting, key=dearest_first):
        need = (job.demand, job.by_family, job.tasks, job.lasts_s if closes else 0.0)
        there = room
        if closes:
            there = {number: free for number, free in room.items() if owned[number].outlasts(job)}
        places = () if need in too_large else places_for(job, there, family)
        if places:
            decisions.append(Bind(job.job, places))
            occupy(room, family, job, places)
        else:
            too_large.add(need)
        if places or (usd_per_h == math.inf and places_for(job, empty, family)):
            settled.add(job.job)
    return decisions, snapshot._replace(jobs=tuple(job for job in snapshot.jobs if job.job not in settled))


def settled(snapshot: Snapshot) -> Snapshot:
    """The snapshot without jobs that are bound to machines which do not hold them beside all others there.

    A job stays where it is if the machine that it was to move to does not come: it keeps the room that others wait for.
    """
    room = {each.machine: each.capacity for each in snapshot.machines}
    family = {each.machine: each.family for each in snapshot.machines}
    waiting = set[int]()
    for job in sorted(snapshot.jobs, key=lambda each: (bool(each.bound), each.seq)):
        before = {place.machine: room[place.machine] for place in job.bound if place.machine in room}
        occupy(room, family, job, job.bound or job.places)
        if any(min(room[machine]) < 0 for machine in before):
            room.update(before)
            waiting.add(job.job)
    return (
        snapshot._replace(jobs=tuple(job for job in snapshot.jobs if job.job not in waiting))
        if waiting
        else snapshot
    )


def occupy(
    room: dict[int, Amounts], family: Mapping[int, int], job: JobSnapshot, places: Sequence[Place]
) -> None:
    """Take what a job's tasks need at these places from the room of each machine that is in `room`."""
    for machine, tasks in places:
        demand = job.demand_on(family[machine]) if machine in room else None
        if demand is not None:
            gpu, cpu, memory = (has - tasks * needs for has, needs in zip(room[machine], demand, strict=True))
            room[machine] = gpu, cpu, memory


def places_for(job: JobSnapshot, room: Mapping[int, Amounts], family: Mapping[int, int]) -> tuple[Place, ...]:
    """Places for all tasks of a job: the fullest machine that holds them all, or the emptiest ones; () if none."""
    holds = {number: _count(job, family[number], free) for number, free in room.items()}
    whole = [number for number, count in holds.items() if count == job.tasks]
    if whole:
        return (Place(min(whole, key=lambda number: (room[number], number)), job.tasks),)
    found = list(_spread(job.tasks, sorted(holds.items(), key=lambda each: (-each[1], each[0]))))
    return tuple(found) if sum(place.tasks for place in found) == job.tasks else ()


def _spread(tasks: int, holds: Sequence[tuple[int, int]]) -> Iterator[Place]:
    for number, count in holds:
        if tasks and count:
            yield Place(number, min(count, tasks))
            tasks -= min(count, tasks)


def _count(job: JobSnapshot, family: int, free: Amounts) -> int:
    """The number of a job's tasks that fit on a machine of a family, at most all of them."""
    demand = job.demand_on(family)
    if demand is None:
        return 0
    return min([job.tasks, *(has // needs for has, needs in zip(free, demand, strict=True) if needs)])
