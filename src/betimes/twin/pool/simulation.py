"""One workload under one policy on a pool of units: sets the columns up, drives the loop, collects the outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Cluster
from betimes.cluster.resources import PER_UNIT, RESOURCES, charge_of
from betimes.core.closings import closings_of
from betimes.core.pool.columns import UNLIMITED, PoolRules, Segment, State, new_state
from betimes.core.status import DONE, NEED_SEGMENTS
from betimes.errors import ClusterError, InputError
from betimes.kernels import Floats, FloatTable, Ints, as_array, blank
from betimes.outcome import JobColumns, JobState, ResourceUse, Result, SegmentColumns, Timing, metrics
from betimes.policies import ChosenPolicy, Policy, Setting
from betimes.policies.hooks import Prepared
from betimes.policies.loading import mark_proven
from betimes.policies.pool.renting import RentingRule, check_offers, renting_rule
from betimes.twin.cluster_state import ClusterState
from betimes.twin.driving import drive
from betimes.twin.history import user_rows
from betimes.twin.nodes.tasks import refuse_requirements, unit_demand
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.begin import begin_from, cluster_state
from betimes.twin.pool.driver import Driver
from betimes.twin.pool.event_loop import Trace
from betimes.twin.pool.reach import Reach
from betimes.twin.pool.rented import Prepare, RentedMachines
from betimes.twin.pool.trace_loop import new_trace
from betimes.twin.sizes import Sizes, beliefs
from betimes.workload import Workload
from betimes.workload.speedup import bind

FIRST_SLOTS = 256
SEGMENT_ROWS = 1 << 16


@dataclass(frozen=True)
class Fitted:
    """A workload made to fit a pool: (jobs,) masks of what was clipped or left out."""

    workload: Workload
    clipped: int
    dropped: np.ndarray[Any, np.dtype[np.bool_]]
    narrowed: int = 0  # jobs that could use more units than there can ever be of them


def fit(
    workload: Workload,
    units: int,
    on_wide: str = "refuse",
    cluster: Cluster | None = None,
    rule: RentingRule | None = None,
) -> Fitted:
    """Deal with jobs whose minimum is more than there can be: refuse them all with an error, clip, or drop them.

    There are `units`; the empty nodes of `cluster`, if one is given, may hold fewer of one job's kind, and machines
    that are rented by `rule` more; a job that could use more than all that is narrowed. A clipped job keeps its work
    and needs at most all there is. Raises ClusterError naming the first such job.
    """
    if units < 1:
        raise ClusterError(f"--units {units}: a pool has at least one unit")
    demand = np.zeros((len(workload), 3), np.int64) if cluster is None else unit_demand(workload, cluster)
    reach = Reach.of(units, cluster, rule)
    most = reach.most_units(demand)
    wide = workload.min_units > most
    none = np.zeros(len(workload), dtype=bool)
    if not wide.any():
        return _narrowed(workload, most, cluster, 0, none)
    if on_wide == "refuse" or (on_wide == "clip" and most.min() == 0):
        first = int(np.argmax(wide if on_wide == "refuse" else most == 0))
        least = int(workload.min_units[first])
        why = None if rule is None else reach.why_no_more(demand[first : first + 1], least)
        if why is not None:
            raise ClusterError(
                f"{workload.name}: job {workload.job_id[first]}: {why} (such jobs: {int(wide.sum())}); or --on-wide "
                "clip or drop"
            )
        there = f"{most[first]} fit into {cluster.name}" if cluster is not None else f"the pool has {units}"
        more = "give a larger cluster" if cluster is not None else "give more --units"
        raise ClusterError(
            f"{workload.name}: job {workload.job_id[first]} needs {workload.min_units[first]} units and {there} "
            f"(such jobs: {int(wide.sum())}); {more}, or --on-wide clip or drop"
        )
    if on_wide == "drop":
        return _narrowed(workload[~wide], most[~wide], cluster, 0, wide)
    clipped = replace(
        workload,
        min_units=np.minimum(workload.min_units, most),
        max_units=np.where(wide, most, workload.max_units),
    )
    return _narrowed(clipped, most, cluster, int(wide.sum()), none)


def _narrowed(
    workload: Workload,
    most: np.ndarray[Any, Any],
    cluster: Cluster | None,
    clipped: int,
    dropped: np.ndarray[Any, np.dtype[np.bool_]],
) -> Fitted:
    """A policy divides all units; on nodes it must not give a job more of them than can ever be placed."""
    wide = workload.max_units > most
    if cluster is None or not wide.any():
        return Fitted(workload, clipped, dropped)
    narrowed = replace(workload, max_units=np.minimum(workload.max_units, most))
    return Fitted(narrowed, clipped, dropped, int(wide.sum()))


class Simulation:
    """The twin of a pool: `run` takes it through a workload; `result` returns the outcome.

    Raises InputError for options that mean nothing on a pool.
    """

    reserves = False  # nothing is promised by estimates as limits

    def __init__(self, workload: Workload, policy: ChosenPolicy[Policy], options: SimulationOptions) -> None:
        options.check("pool")
        self.options, units, cluster = options, options.pool_units(workload), options.cluster
        refuse_requirements(workload, str(policy))
        self.workload = self.jobs = workload
        self.policy, self.units = policy, units
        self.is_rigid = workload.min_units == workload.max_units
        self.sizes = options.sizes or Sizes("true")
        widest = int(workload.max_units.max(initial=1))
        table, self.unknown_curves = bind(workload.curve_names, widest, options.curves)
        self.full_speed = table.at(workload.curve, workload.max_units)
        self.run_s = workload.work_s / self.full_speed
        rents = renting_rule(str(policy), policy.values) is not None
        alone = workload.max_units if rents else np.minimum(workload.max_units, units)
        self.alone_speed = table.at(workload.curve, alone)
        belief = beliefs(self.sizes, workload, self.full_speed, options.seed)
        self.without_estimate, self.assumed_s = belief.without_estimate, belief.assumed_s
        users = user_rows(workload)
        trace = new_trace(len(workload), max(1, int(users.max(initial=-1)) + 1), FIRST_SLOTS)
        arrivals = as_array(trace.arrivals)
        arrivals["submit_s"] = workload.submit_s
        arrivals["work"] = workload.work_s
        arrivals["min_units"] = workload.min_units
        arrivals["max_units"] = workload.max_units
        arrivals["curve"] = workload.curve
        arrivals["believed"] = belief.size
        arrivals["believed_per_work"] = belief.per_work
        arrivals["user"] = users
        arrivals["longest_s"] = belief.longest_s
        demand = np.zeros((len(workload), 3)) if cluster is None else unit_demand(workload, cluster)
        if cluster is not None:
            for at, name in enumerate(("gpu", "cpu", "memory")):
                arrivals[name] = demand[:, at]
        sizes = _floats(belief.size)

        def prepare(units: int, speedup: FloatTable) -> Prepared:
            setting = Setting(float(units), options.fractional, speedup, sizes, float(options.restart_s))
            return policy.policy.prepared(policy.values, setting)

        self.machines = self._rented(prepare)
        prepared = prepare(units, table.speedup)
        rules = policy.policy.rules(learns=self.sizes.kind == "last-two")
        arrivals["priority"], arrivals["charge"] = workload.priority, 1.0
        if options.users is not None:
            rules = policy.policy.sharing(rules)
            if cluster is not None:
                arrivals["charge"] = charge_of(*(demand / PER_UNIT).T)
        state = new_state(
            FIRST_SLOTS,
            prepared.groups,
            units=float(units),
            fractional=options.fractional,
            restart_s=float(options.restart_s),
            speedup=table.speedup,
            params=prepared.params,
            table=prepared.table,
            segments=SEGMENT_ROWS if options.timeline else 0,
            resize_interval_s=float(options.resize_interval_s),
            resize_gain=options.resize_gain,
            capacity=None if cluster is None else cluster.capacity,
        )
        if cluster is not None and cluster.maintenance:
            state = state.replaced(closings=closings_of([(*each, 0) for each in cluster.closings]))
        if options.users is not None:
            state = state.replaced(users=options.users.records(workload))
        self.driver = Driver(
            *(state, rules, trace, np.zeros(1, dtype=np.int64), str(policy)),
            lambda slot: workload.job_id[self.state.progress[slot].row],
            {NEED_SEGMENTS: lambda _: self.take_segments()},
            machines=self.machines,
        )
        self.predicted: Floats = np.full(len(workload), np.nan)
        self.chunks: list[NDArray[Any]] = []
        self.wall_s = 0.0
        self._active: Ints = np.zeros(0, dtype=np.int64)  # submitted rows whose finish was not taken
        self._begin = options.state

    def _rented(self, prepare: Prepare) -> RentedMachines | None:
        """The machines that the policy's rule rents; null: it rents none. Raises PolicyError, InputError."""
        rule, options = renting_rule(str(self.policy), self.policy.values), self.options
        if rule is None:
            return None
        for name, given in (
            ("as-trials", options.as_trials),
            ("fair", options.fair),
            ("interval", options.interval is not None),
            ("state", options.state is not None),
        ):
            if given:
                raise InputError(f"--{name}: not where a pool rents machines ({self.policy}); leave it out")
        if options.cluster is None:
            raise InputError(f"policy {self.policy}: it rents machines; give --cluster FILE with [[offers]]")
        cluster, name = options.cluster, str(self.policy)
        if not cluster.offers:
            raise ClusterError(
                f"policy {name}: it rents machines, and {cluster.name} offers none; describe some ([[offers]]) in the "
                "cluster file, or leave rent_within out"
            )
        check_offers(name, cluster.offers)
        by = 0 if cluster.total[0] > 0 else 1
        return RentedMachines(rule, cluster.offers, cluster.quota, cluster.units, by, prepare, name)

    @property
    def state(self) -> State:
        """The pool as it is now."""
        return self.driver.state

    @property
    def rules(self) -> PoolRules:
        """The arguments of the loop and of the policy's hooks."""
        return self.driver.rules

    @property
    def trace(self) -> Trace:
        """The submissions and the outcomes so far."""
        return self.driver.trace

    @property
    def row(self) -> Ints:
        """(1,) the next row to be submitted."""
        return self.driver.row

    def run(
        self, step: Callable[[int], int] | None = None, progress: Callable[[int], object] | None = None
    ) -> None:
        """Take the pool through the whole workload.

        step: submits the jobs up to a row and returns a status, by default the plain loop; progress receives
        the rows done. Raises PolicyViolation when the policy decides something the core refuses.
        """
        self.begin()
        self.wall_s = drive(self.driver, self.policy, len(self.workload), step or self.step, progress)
        self._note_unfinished()
        mark_proven(self.policy.policy)

    def step(self, stop: int) -> int:
        """Submit the jobs up to a row, as `Driver.step` does; machines are rented where the policy rents."""
        return self.driver.step(stop) if self.machines is None else self.step_renting(stop)

    def step_renting(self, stop: int, submitted: Callable[[int], object] | None = None) -> int:
        """As `Driver.step` where machines are rented; submitted: called with each row after its decision."""
        as_array(self.state.pool)["budget"][0] = UNLIMITED
        while self.row[0] < stop:
            row = int(self.row[0])
            self._submit(row)
            if submitted is not None:
                submitted(row)
        if self.row[0] == len(self.jobs):
            self.driver.advance(math.inf)
        return DONE

    def _submit(self, row: int) -> None:
        """Let everything happen up to the submission of a job, and submit it."""
        self.driver.advance(float(self.jobs.submit_s[row]))
        self.driver.queue_up(self.driver.take_in(row))
        if self.machines is not None:
            self.machines.order(self.driver)
        if len(self.state.segments) > 0:
            self.take_segments()
        self.driver.ask()
        self.row[0] = row + 1

    def begin(self) -> None:
        """Take over the jobs of the options' state, before anything happens; raises InputError if they cannot be."""
        begin, self._begin = self._begin, None
        if begin is not None:
            is_known = self.sizes.kind == "true"
            rows = begin_from(self.driver, begin, self.jobs, self.options.cluster, is_known=is_known)
            self._active = np.array(sorted(rows), dtype=np.int64)

    def advance_to(self, until_s: float) -> None:
        """Let everything happen up to and including `until_s`, in seconds of the trace; `state` is then true there.

        Calls at growing times and a last `run` are together the same as `run` alone. The clock stays at the last thing
        that happened. Raises InputError for a time before it, and PolicyViolation as `run` does.
        """
        self.begin()
        now_s = float(self.state.pool[0].now)
        if not until_s >= now_s:
            raise InputError(
                f"advance_to({until_s:g}): the simulation is already at {now_s:g} s; choose a later time"
            )
        while self.row[0] < len(self.jobs) and self.jobs.submit_s[self.row[0]] <= until_s:
            self._submit(int(self.row[0]))
        self.driver.advance(until_s)

    def cluster_state(self) -> ClusterState:
        """The state in which the pool is now, after `advance_to`."""
        return cluster_state(self.driver, self.jobs, self.options.cluster)

    def advance_before(self, row: int) -> int:
        """Let everything happen before `row` is submitted; returns the row after it."""
        of_pool = as_array(self.state.pool)["budget"]
        budget, of_pool[0] = int(of_pool[0]), UNLIMITED
        self.driver.advance(self.jobs.submit_s[row])
        as_array(self.state.pool)["budget"][0] = budget
        return row + 1

    def take_ended(self) -> tuple[Ints, Floats]:
        """Rows and finishes, s, of the jobs that have finished since the last call, in order; before a submission."""
        finish_s = as_array(self.trace.outcome)["finish_s"][self._active]
        order = np.argsort(finish_s, kind="stable")[: np.count_nonzero(~np.isnan(finish_s))]
        rows, self._active = self._active[order], np.append(self._active[np.isnan(finish_s)], self.row[0])
        return rows, finish_s[order]

    def believe(self, row: int, run_s: float) -> None:
        """The policy believes this run time at full width of a job to come."""
        self.trace.arrivals[row].believed = run_s * self.full_speed[row]

    def result(self, load_s: float = 0.0, compile_s: float = 0.0) -> Result:
        """The outcome of every job."""
        w, o = self.workload, as_array(self.trace.outcome)
        finished = ~np.isnan(o["finish_s"])
        jobs = JobColumns(
            job_id=w.job_id,
            submit_s=w.submit_s,
            start_s=o["start_s"],
            finish_s=o["finish_s"],
            predicted_finish_s=self.predicted,
            work_s=w.work_s,
            run_alone_s=w.work_s / self.alone_speed,
            min_units=w.min_units,
            max_units=w.max_units,
            units_s=o["units_s"],
            preemptions=o["preemptions"],
            resizes=o["resizes"],
            restart_s=o["stalled_s"],
            contention_mean=o["contention"],
            user=w.user,
            qos=w.qos,
            status=w.status,
            state=np.where(finished, JobState.FINISHED, JobState.UNFINISHED),
            cost_usd=np.full(len(w), np.nan),
        )
        timing = Timing(load_s, compile_s, self.wall_s, int(self.state.pool[0].events))
        now_s = float(self.state.pool[0].now)
        return Result(
            policy=str(self.policy),
            units=self.units,
            seed=self.options.seed,
            fractional=self.options.fractional,
            sizes=str(self.sizes),
            workload_name=w.name,
            fingerprint=w.fingerprint(),
            jobs=jobs,
            segments=self._segments() if self.options.timeline else None,
            timing=timing,
            resources=self._resources(o["finish_s"], o["units_s"]),
            leases=None if self.machines is None else self.machines.leases(now_s),
            fixed_usd=self._fixed_usd(now_s),
        )

    def _resources(self, finish_s: Floats, units_s: Floats) -> tuple[ResourceUse, ...]:
        """The use of the units where some were rented: those of the cluster over the makespan, and these while up."""
        cluster, makespan_s = self.options.cluster, metrics.makespan(self.workload.submit_s, finish_s)
        if self.machines is None or cluster is None or not makespan_s > 0.0:
            return ()
        name = RESOURCES[0 if cluster.total[0] > 0 else 1]
        rented = self.machines.unit_s(float(self.state.pool[0].now)) / makespan_s
        return (ResourceUse(name, self.units + rented, math.fsum(units_s.tolist())),)

    def _fixed_usd(self, now_s: float) -> float | None:
        """The cost of the owned nodes from the first arrival to the last event, where machines are rented beside."""
        cluster = self.options.cluster
        if self.machines is None or cluster is None or all(each.usd_per_h is None for each in cluster.groups):
            return None
        return float(cluster.owned_usd(max(0.0, now_s - float(self.jobs.submit_s[0]))))

    def take_segments(self) -> None:
        """Make room: at least twice as many segments as jobs hold units must fit."""
        pool = self.state.pool[0]
        self.chunks.append(as_array(self.state.segments)[: pool.segments].copy())
        pool.segments = 0
        if len(self.state.segments) < 4 * pool.holders:
            self.driver.state = self.state.replaced(segments=blank(Segment, 8 * int(pool.holders)))

    def _segments(self) -> SegmentColumns:
        self.take_segments()
        all_rows = np.concatenate(self.chunks)
        ordered = all_rows[np.lexsort((all_rows["row"], all_rows["start_s"]))]
        return SegmentColumns(*(ordered[name].copy() for name in ("row", "start_s", "end_s", "units")))

    def _note_unfinished(self) -> None:
        """Jobs that are still in the pool when nothing more can happen: what they had so far."""
        for number in range(len(self.state.groups)):
            group = self.state.groups[number]
            for slot in self.state.order[number, group.head : group.tail]:
                progress = self.state.progress[slot]
                outcome = self.trace.outcome[progress.row]
                outcome.start_s = progress.started_s
                outcome.units_s = progress.attained
                outcome.preemptions = progress.preemptions
                outcome.resizes = progress.resizes
                outcome.stalled_s = progress.stalled_s


def _floats(values: Any) -> Floats:
    # A copy: the loop's signature asks for a writable array, and a workload's columns are read-only.
    return np.array(values, dtype=np.float64)
