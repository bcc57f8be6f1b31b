"""Admission of jobs: a job that no node will ever hold, or that its user's budget forbids, is refused.

A specification becomes one job, each element of an array, or an array as one job with trials.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from betimes.cluster import Offer
from betimes.cluster.billing import Prices, lease_usd
from betimes.cluster.labels import as_texts, bits_for, suits, why_none_suits
from betimes.cluster.resources import PER_UNIT
from betimes.cluster.shapes import Room, Shape, roomiest, suiting
from betimes.cluster.tasks import job_tasks
from betimes.errors import ClusterError, Refused
from betimes.foresight.engines import NODES
from betimes.service.engines.dedicated_machines import (
    is_held_by,
    machines_holding,
    rooms_of,
    shapes_of,
    times_on,
)
from betimes.service.engines.named_policies import heeds_labels, rule_of
from betimes.service.machines.machine import REAL
from betimes.service.scheduling import reasons
from betimes.service.scheduling.arrays import ComingArray, limit_reached
from betimes.service.scheduling.engine_factory import kept_nodes, pool_resource
from betimes.service.scheduling.job import Job, TrialSet, spec_text
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.node import LOST, Node
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.users import Users
from betimes.service.scheduling.waiting_for import first_unmet
from betimes.service.spec.job_spec import (
    JobSpec,
    full_run_s,
    parse_after,
    parse_array,
    set_spec,
    slurm_variables,
    trial_spec,
    trials_of,
)
from betimes.twin.nodes.tasks import Integers
from betimes.twin.pool.reach import Reach

FIELDS = ("gpu", "cpu", "memory_gib")
NAMES = (("GPU", "GPUs"), ("core", "cores"), ("GiB of memory", "GiB of memory"))
NAMED = 3  # machines in a note
ARRAY = "array"
"""The step of a turn that takes a slice of an array."""
ELEMENTS_A_TURN = 250  # of an array that become jobs: more would keep the requests of others waiting


def check_possible(
    spec: JobSpec,
    known: Mapping[Shape, int],
    engine: str,
    offers: Sequence[Offer] | None = None,
    shared: Sequence[Offer] = (),
    reach: Reach | None = None,
) -> None:
    """Raise Refused, naming field and limit, if neither the empty cluster nor the offers could run the job.

    known: how many nodes of each shape there are, without those rented for one job alone. offers: of machines that the
    policy rents for one job alone; null: it rents none. shared: of those that it rents for several jobs. reach: of a
    pool that rents these by a rule.
    """
    if spec.as_one and engine == NODES:
        raise Refused(
            "a set of trials needs a policy for a pool; the one in force is for nodes, where a job's width does not "
            f"change. Leave --as-one out (`--array {spec.array}` runs each trial as a job), or put a policy for a pool "
            "in force (`betimes policy set srsf`)",
            "as_one",
        )
    if spec.demand and engine != NODES:
        raise Refused(
            "a unit of a pool needs the same on all machines; leave it out, or put a policy for nodes in force "
            "(`betimes policy set nodes:fifo`)",
            "demand",
        )
    if offers is None and spec.rent == "now":
        raise Refused(
            "the policy in force rents for all jobs together, not for one; leave it out, or put another in force "
            "(`betimes policy set sww`)"
            if shared
            else "the policy in force rents no machines; leave it out, or put another in force "
            "(`betimes policy set sww`)",
            "rent",
        )
    if offers and spec.rent != "never" and can_be_rented(spec, offers):
        return
    if reach is not None:
        why = reach.why_no_more(unit_of(spec), spec.min_units)
        if why is None:
            return
        if can_be_rented(spec.model_copy(update={"min_units": 1, "max_units": 1}), shared):
            raise Refused(why, "min_units")
    elif shared and can_be_rented(spec, shared):
        return
    try:
        check_nodes(spec, known, engine)
        if shared and not known:
            lacking = why_none_suits(spec.required, [offer.labels for offer in shared], "offer", "offers")
            if lacking is not None:
                raise Refused(lacking, "require")
            raise Refused("no machine holds what a unit needs; ask for less", "cpu")
    except Refused as error:
        if not offers and not shared:
            raise
        why = str(error).removeprefix(f"{error.field}: ")
        none = (
            "it is not to be rented for" if spec.rent == "never" else "no offer of the cloud holds it either"
        )
        raise Refused(f"{why}; {none}", error.field) from None


def unit_of(spec: JobSpec) -> Integers:
    """The demand of a unit of a job for a pool, which is the same on all machines, (1, 3)."""
    return np.array([spec.unit.amounts_on("")], np.int64)


def can_be_rented(spec: JobSpec, offers: Sequence[Offer]) -> bool:
    """Whether machines of one of these offers hold the job, and have all labels that it requires."""
    machines = rooms_of(shapes_of([offer for offer in offers if suits(offer.labels, spec.required)]))
    tasks = job_tasks(spec.unit, spec.max_units, spec.task_choice, roomiest(machines))
    return is_held_by(tasks, spec.unit, machines)


def made_up_note(spec: JobSpec, nodes: Iterable[Node], offers: Sequence[Offer]) -> str | None:
    """The note that made-up machines may take a job, whose command is not run; null: they cannot.

    offers: of machines that are rented for such a job.
    """
    real, made_up = list[str](), list[str]()
    for node in nodes:
        demand, machine = spec.unit.amounts_on(node.family), Room(node.capacity, node.family)
        if node.takes_work and suits(node.labels, spec.required) and times_on(machine, demand):
            (real if node.machine.kind in REAL else made_up).append(node.machine.name)
    made_up += [f"a rented {offer.type}" for offer in offers if can_be_rented(spec, [offer])]
    if not made_up:
        return None
    named = ", ".join(made_up[:NAMED]) + (", ..." if len(made_up) > NAMED else "")
    if real:
        return f"on made-up machines ({named}) this job only takes time: its command is not run there"
    return f"this job only takes time, and its command is not run: its machines are made up ({named})"


def _with(spec: JobSpec) -> str:
    """Words for the labels that a job requires."""
    return f" with {' and '.join(as_texts(spec.required))}" if spec.require else ""


def check_nodes(spec: JobSpec, known: Mapping[Shape, int], engine: str) -> None:
    """Raise Refused if the nodes could not run the job when nothing else is there."""
    if not known:
        return  # nodes may come; until then the job waits, with a reason
    lacking = why_none_suits(spec.required, [shape.labels for shape in known])
    if lacking is not None:
        raise Refused(lacking, "require")
    there = Counter[Room]()
    for (amounts, labels, family), nodes_alike in known.items():
        if suits(labels, spec.required):
            there[Room(amounts, family)] += nodes_alike
    if spec.demand:
        _check_families(spec, there)
    else:
        _check_unit(spec, there)
    if engine == NODES:
        _check_tasks(spec, there, suiting(tuple(sorted(known)), spec.required))
        return
    held = sum(alike * times_on(room, spec.unit.amounts_on(room.family)) for room, alike in there.items())
    if spec.min_units > held:
        raise Refused(
            f"{spec.min_units} units cannot fit: the cluster has {held} unit{'' if held == 1 else 's'} in all",
            "min_units",
        )


def _check_families(spec: JobSpec, there: Collection[Room]) -> None:
    """Raise Refused if a unit of the job fits on no node of any family."""
    has = sorted({room.family for room in there})
    named = [family for family in has if family in spec.demand]
    if not named:
        raise Refused(
            f"no machine here{_with(spec)} is of family {' or '.join(sorted(spec.demand))}; they are of "
            f"{', '.join(has)}",
            "demand",
        )
    found: list[Refused] = []
    for family in named:
        try:
            _check_unit(spec, [room for room in there if room.family == family], family)
        except Refused as error:
            found.append(error)
    if len(found) == len(named):
        others = f"; nor does it fit on {' or '.join(named[1:])}" if len(named) > 1 else ""
        why = str(found[0]).removeprefix(f"{found[0].field}: ")
        raise Refused(f"{why}{others}", found[0].field)


def _check_unit(spec: JobSpec, there: Collection[Room], family: str | None = None) -> None:
    """Raise Refused if a unit fits on none of these nodes; family: all of them are of that one."""
    demand = spec.unit.amounts_on(next(iter(there)).family) or (0, 0, 0)
    of, where = (f" of family {family}", f"demand.{family}.") if family is not None else ("", "")
    for at, field in enumerate(FIELDS):
        most = max(room.amounts[at] for room in there)
        if demand[at] > most:
            has, asked, (one, several) = most / PER_UNIT[at], demand[at] / PER_UNIT[at], NAMES[at]
            here = f"machine here{of}{_with(spec)}"
            if most == 0:
                text = f"No {here} has {'memory' if at == 2 else f'a {one}'}"
            else:
                text = f"The largest {here} has {has:g} {one if has == 1 else several}"
            each = "this job" if spec.max_units == 1 else "each unit of this job"
            raise Refused(f"{text}; {each} asks for {asked:,g}{' GiB' if at == 2 else ''}", where + field)
    if not any(times_on(room, demand) for room in there):
        raise Refused(
            f"no machine here{of}{_with(spec)} has all that a unit needs at once; ask for less, or add such a node",
            f"{where}cpu",
        )


def _check_tasks(spec: JobSpec, there: Mapping[Room, int], largest: tuple[Room, ...]) -> None:
    """Raise Refused if the job's tasks, at full width, do not fit on so many nodes of each kind.

    largest: of them, as `cluster.shapes.roomiest` has it.
    """
    units = spec.max_units
    tasks = job_tasks(spec.unit, units, spec.task_choice, largest)
    if tasks.units_each > tasks.together:
        raise Refused(
            f"no machine here holds {tasks.units_each} units together; the largest holds {tasks.together}",
            "units_per_task",
        )
    room = sum(alike * times_on(one, tasks.demand_on(one.family)) for one, alike in there.items())
    if tasks.count <= room:
        return
    cluster = f"the cluster{_with(spec) and f', on nodes{_with(spec)},'} has room for {room} in all"
    if tasks.units_each == 1:
        raise Refused(
            f"{units} units cannot fit: {cluster}, and on nodes a job starts with all of them", "max_units"
        )
    raise Refused(
        f"{tasks.count} tasks of {tasks.units_each} units cannot fit: {cluster}; ask for fewer units, or for smaller "
        "tasks (units_per_task)",
        "max_units",
    )


def rented_usd(spec: JobSpec, offer: Offer, run_s: float) -> float:
    """Cost of machines that run one job alone for `run_s`, from the request until they are gone."""
    (machine,) = rooms_of(shapes_of([offer]))
    count = machines_holding(job_tasks(spec.unit, spec.max_units, spec.task_choice, (machine,)), machine)
    until_s = offer.boot_s + offer.setup_s + run_s + offer.release_s
    since_s = offer.billing.since_s(0.0, offer.boot_s)
    return float(count * lease_usd(offer.billing, Prices(offer.charged_usd_per_h), since_s, until_s))


class LargeArrays(Part):
    """Makes jobs of specifications, of the elements of a large array in slices: others are answered between these."""

    name = "arrays"

    def __init__(self, state: SchedulerState, jobs: Jobs) -> None:
        self._state, self._jobs = state, jobs

    @property
    def coming(self) -> list[ComingArray]:
        """Those of which not all elements are jobs yet; the fewest missing first; none that cannot be taken."""
        left_out = self._state.left_out
        able = [each for each in self._state.ledger.arrays if (ARRAY, each.first) not in left_out]
        return sorted(able, key=lambda each: len(each.missing))

    def next_at(self) -> float:
        """At once, while there is one."""
        return self._state.now_at if self.coming else math.inf

    def before_decision(self) -> None:
        """Let some more elements be jobs: of the array with the fewest left, so that a small one need not wait."""
        for array in self.coming[:1]:
            some = range(array.there, array.elements)[:ELEMENTS_A_TURN]
            asked = {"user": array.user, "believed_s": array.believed_s, "basis": array.basis}
            take = partial(self._take, array.whole, some, array.indices, array.first, asked)
            self._state.take_step(ARRAY, array.first, take)

    def submit(self, spec: JobSpec, user: str) -> list[int]:
        """Accept a job, or an array that is no set; returns the job numbers, of which some may be no jobs yet."""
        ledger = self._state.ledger
        believed = ledger.runtime_estimates.believed(user, spec)
        asked = {"user": user, "believed_s": believed.seconds, "basis": believed.basis}
        indices = parse_array(spec.array)[0] if spec.array else []
        first, elements = ledger.next_job, len(indices) or 1
        numbers = list(range(first, first + elements))
        if elements > ELEMENTS_A_TURN:
            data = {**asked, "spec": spec_text(spec), "first": first, "elements": elements}
            self._state.log("array-submitted", f"user:{user}", first, **data)
        else:
            self._take(spec, range(elements), indices, first, asked)
        return numbers

    def _take(
        self, spec: JobSpec, some: range, indices: Sequence[int], first: int, asked: Mapping[str, Any]
    ) -> None:
        """Make a job of one alone, or of some elements of an array; first: its number; asked: the same of all."""
        user, most = asked["user"], 0
        alone = spec
        if spec.array:
            most = parse_array(spec.array)[1]
            of_slurm = slurm_variables(spec.array, indices) if "SLURM_SUBMIT_DIR" in spec.env else {}
            alone = spec.model_copy(update={"array": None, "env": {**spec.env, **of_slurm}})
        text, follows = spec_text(alone), first_unmet(self._state, spec)
        is_by_element = any(parse_after(each)[1] == "corr" for each in spec.after)
        for at in some:
            if is_by_element:
                text = spec_text(_of_element(alone, at))
            data: dict[str, Any] = {**asked, "spec": text}
            if spec.array:
                data |= {"array_id": first, "array_index": indices[at], "array_most": most}
            if follows is not None:
                data["reason"] = follows
            elif most and at >= most:
                data["reason"] = limit_reached(first, most)
            job = self._state.log("submitted", f"user:{user}", first + at, **data)
            if spec.hold and job is not None:
                self._state.log("held", f"user:{user}", first + at, reason=reasons.by_user(user))
        for at in some:
            self._jobs.admit(self._state.ledger.jobs[first + at])


class Admission:
    """Turns specifications into jobs of the ledger.

    refuse: raises Refused or Unknown for a job of a user that a part of the scheduler does not let in.
    """

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        jobs: Jobs,
        arrays: LargeArrays,
        users: Users,
        refuse: Callable[[JobSpec, str], None],
    ) -> None:
        self._state, self._engine, self._jobs = state, engine, jobs
        self._arrays, self._users = arrays, users
        self.refuse = refuse

    def check(self, spec: JobSpec, user: str) -> None:
        """Raise Refused or Unknown for a job that this user cannot submit."""
        engine = self._engine
        if spec.require:
            self.check_labels([spec])
        check_possible(
            spec,
            self._state.nodes_in_brief.shapes,
            engine.kind or "pool",
            engine.offers_for_jobs,
            engine.shared_offers,
            self._reach() if engine.is_pool else None,
        )
        self.refuse(spec, user)

    def _reach(self) -> Reach | None:
        """How wide jobs can become where a pool rents by a rule; null: it rents nothing."""
        rule, settings = rule_of(self._state.ledger.policy), self._engine.settings
        if rule is None or not settings.offers:
            return None
        # What the policy has rented is part of what it may rent.
        kept = kept_nodes(self._state.ledger.nodes, settings.offers)
        owned = [node for node in kept.values() if node.status != LOST]
        by = pool_resource(owned)
        alike = Counter(node.capacity for node in owned)
        units = sum(node.capacity[by] for node in owned) // PER_UNIT[by]
        capacity = np.array(list(alike), np.int64).reshape(-1, 3)
        counts = np.array(list(alike.values()), np.int64)
        return Reach(units, by, capacity, counts, rule, settings.offers, settings.quota)

    def narrower_note(self, spec: JobSpec) -> str | None:
        """The note that a job can use more units than a pool that rents can ever give it; null: it cannot."""
        reach = self._reach() if self._engine.is_pool else None
        if reach is None:
            return None
        most = int(reach.most_units(unit_of(spec))[0])
        if spec.max_units <= most:
            return None
        return (
            f"of the {spec.max_units} units that it can use it gets {most} at most, rented machines included"
        )

    def check_labels(self, specs: Sequence[JobSpec]) -> None:
        """Raise Refused for required labels under a policy that ignores them, or for too many different ones."""
        jobs, policy = self._state.ledger.jobs, self._state.ledger.policy
        required = [spec.required for spec in specs if spec.require]
        if not required:
            return
        if not heeds_labels(policy):
            raise Refused(
                f"policy {policy} does not choose nodes by their labels; leave it out, or put a policy for nodes that "
                "places jobs itself in force (`betimes policy set nodes:fifo`)",
                "require",
            )
        try:
            bits_for([*(jobs[number].spec.required for number in self._state.job_index.requiring), *required])
        except ClusterError as error:
            raise Refused(f"{error}; require fewer, or wait for jobs to end", "require") from None

    def submit(self, spec: JobSpec, user: str) -> list[int]:
        """Accept a job or an array; returns the job numbers. Raises Refused, Unknown."""
        self._check_new(spec, user)
        return self.accept(spec, user)

    def unsubmitted(self, spec: JobSpec, user: str, at: float) -> Job:
        """The job that this would be if it were submitted now, number 0. Raises Refused, Unknown."""
        self._check_new(spec, user)
        seconds, basis = self._state.ledger.runtime_estimates.believed(user, spec)
        if not spec.as_one:
            return Job(0, spec, user, at, seconds, basis)
        whole, trials = _set_of(spec, seconds)
        return Job(0, whole, user, at, full_run_s(seconds, spec), basis, trials=trials)

    def _check_new(self, spec: JobSpec, user: str) -> None:
        self._users.check_queue([spec], user)
        self.check(spec, user)

    def accept(self, spec: JobSpec, user: str) -> list[int]:
        """Accept a job that has passed `check`."""
        return self._submit_set(spec, user) if spec.as_one else self._arrays.submit(spec, user)

    def _submit_set(self, spec: JobSpec, user: str) -> list[int]:
        """Take an array as one job; its trials have the numbers that follow."""
        ledger = self._state.ledger
        number = ledger.next_job
        believed = ledger.runtime_estimates.believed(user, spec)
        indices, _ = parse_array(spec.array or "")
        common: dict[str, Any] = {"user": user, "basis": believed.basis, "array_id": number}
        whole, trials = _set_of(spec, believed.seconds)
        data: dict[str, Any] = {
            **common,
            "spec": spec_text(whole),
            "believed_s": full_run_s(believed.seconds, spec),
            "trials": asdict(trials),
        }
        follows = first_unmet(self._state, spec)
        if follows is not None:
            data["reason"] = follows
        job = self._state.log("submitted", f"user:{user}", number, **data)
        each = {
            **common,
            "spec": spec_text(trial_spec(spec)),
            "believed_s": believed.seconds,
            "set_id": number,
        }
        for index in indices:
            self._state.log("submitted", f"user:{user}", ledger.next_job, **each, array_index=index)
        for trial in range(number + 1, ledger.next_job):
            self._jobs.admit(ledger.jobs[trial])
        if spec.hold:
            self._state.log("held", f"user:{user}", number, reason=reasons.by_user(user))
        elif job is not None:
            self._jobs.admit(job)
        return [number]


def _set_of(spec: JobSpec, trial_s: float) -> tuple[JobSpec, TrialSet]:
    """A set as the policy knows it, and its trials, each believed to take so long."""
    whole = set_spec(spec)
    return whole, TrialSet(trials_of(spec), trial_s, whole.max_units, whole.max_units)


def _of_element(spec: JobSpec, at: int) -> JobSpec:
    """An element of an array that waits for the element at the same place of another."""
    each = [(*parse_after(text), text) for text in spec.after]
    after = [f"{number + at}:ok" if on == "corr" else text for number, on, text in each]
    return spec.model_copy(update={"after": after})
