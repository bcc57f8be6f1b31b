"""One workload under one policy on nodes: sets the columns up, drives the loop, collects the outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.labels import mask
from betimes.cluster.resources import PER_UNIT, RESOURCES, charge_of, whole_capacity
from betimes.cluster.tasks import norm_of
from betimes.core.closings import closings_of
from betimes.core.instruction import NAMES, Instruction
from betimes.core.nodes.columns import LARGEST_PRIORITY, Absence, Lease, NodesState
from betimes.core.nodes.growth import new_nodes_state
from betimes.core.nodes.rules import CONSERVATIVE, SKIP, NodesRules
from betimes.core.planning import Refusal
from betimes.core.pool.columns import UNLIMITED, Segment
from betimes.core.status import ASKED, FORESEE, NEED_FATES, NEED_LOG, NEED_SEGMENTS, SELECT
from betimes.errors import ClusterError, InputError, PolicyError, PolicyViolation
from betimes.kernels import Floats, Ints, as_array, blank
from betimes.outcome import (
    AbsenceColumns,
    DecisionColumns,
    JobColumns,
    JobState,
    LeaseColumns,
    ResourceUse,
    Result,
    SegmentColumns,
    SelectionColumns,
    Timing,
    metrics,
)
from betimes.policies import ChosenPolicy
from betimes.policies.loading import mark_proven
from betimes.policies.nodes.hooks import NodesPolicy, sharing
from betimes.twin.cluster_state import ClusterState
from betimes.twin.driving import drive, goes_on
from betimes.twin.history import user_rows
from betimes.twin.nodes import entries, event_loop
from betimes.twin.nodes.begin import Split, begin_from, cluster_state, tasks_as_held
from betimes.twin.nodes.driver import Driver
from betimes.twin.nodes.launching import hardware_of, kinds_of, launching, table_of
from betimes.twin.nodes.planner_rounds import PlannerRounds
from betimes.twin.nodes.renting import (
    check_alone,
    choices_of,
    draw_ahead,
    fates_of,
    leases,
    terms_of,
    with_spot,
)
from betimes.twin.nodes.tasks import (
    Tasks,
    demand_rows,
    refuse_requirements,
    requirements_of,
    tasks_of,
    tasks_on_owned_first,
)
from betimes.twin.nodes.trace_loop import in_rows, new_trace
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes, beliefs
from betimes.workload import Workload
from betimes.workload.speedup import bind

FIRST_SLOTS = 256
FIRST_PLACEMENTS = 1024
RECORDS = 1 << 14
FIRST_PLAN = 1024  # steps of a plan of reservations
LONGEST_IDLE_S = 86_400.0
"""How long machines may be held after the last job: a planner that never releases them would be asked for ever."""


class NodesSimulation:
    """The twin of a cluster of nodes: `run` takes it through a workload; `result` returns the outcome.

    tasks: the jobs' tasks on the nodes, by default those of `tasks_of`. Jobs that the empty cluster cannot hold are
    refused: `tasks.reasons` gives the reasons. observed: the cluster's features when each job began to wait are
    recorded (`core.nodes.wait_features`).
    """

    def __init__(
        self,
        workload: Workload,
        policy: ChosenPolicy[NodesPolicy],
        options: SimulationOptions,
        *,
        tasks: Tasks | None = None,
        observed: bool = False,
    ) -> None:
        options.check("nodes")
        self.workload, self.policy, self.options = workload, policy, options
        cluster = options.nodes_for(workload)
        self.sizes = options.sizes or Sizes("true")
        own, values = policy.policy, policy.values
        in_turn, plans = own.in_turn(values), own.plans(values)
        if plans:
            refuse_requirements(workload, str(policy))
        self.rents = rents = own.rents(values)
        self.shares_rented = own.shares_rented(values)
        if not rents:
            cluster.need_nodes()
        split: Split = partial(tasks_of, rents=rents)
        if own.rents_alone(values):
            if not cluster.offers:
                raise ClusterError(
                    f"policy {policy}: it rents machines, and cluster {cluster.name} offers none; describe some "
                    "([[offers]]) in a cluster file and name it with --cluster FILE.toml"
                )
            if values.get("spot") == "true":
                cluster = with_spot(cluster)
            split = tasks_on_owned_first
        self.cluster, begin = cluster, options.state
        if begin is not None:
            if cluster.interference is not None:
                raise InputError(
                    f"state: how jobs have slowed each other so far is not known; leave [[interference]] of cluster "
                    f"{cluster.name} out"
                )
            tasks = tasks_as_held(begin, workload, cluster, split)
        self.tasks: Tasks = tasks or split(workload, cluster)
        self._begin = None if begin is None else begin.without(workload.job_id[self.tasks.refused])
        self.machines = cluster.shapes(rents=rents)[0]
        self.kept = np.flatnonzero(~self.tasks.refused)
        jobs = workload if len(self.kept) == len(workload) else workload[self.kept]
        table, self.unknown_curves = bind(
            jobs.curve_names, int(jobs.max_units.max(initial=1)), options.curves
        )
        speed = table.at(jobs.curve, jobs.max_units)
        self.killed = np.zeros(len(jobs), dtype=bool)
        if options.overrun == "kill":
            if len(jobs) and np.isnan(jobs.estimate_s).all():
                raise InputError(
                    f"--overrun kill: no job of {workload.name} has an estimate to be ended at; leave it out"
                )
            limit = jobs.estimate_s * speed
            self.killed = jobs.work_s > limit
            jobs = replace(jobs, work_s=np.where(self.killed, limit, jobs.work_s))
        self.jobs, self.run_s = jobs, jobs.work_s / speed
        self.is_rigid = np.ones(len(jobs), dtype=bool)
        rules = policy.policy.rules(policy.values, learns=self.sizes.kind == "last-two")
        if observed:
            rules = rules.replaced(observes=True)
        if options.users is not None:
            if rules.foresees and options.users.has_limits:
                raise PolicyError(
                    f"policy {policy}, parameter waits: a job that is foreseen to wait in vain has rented since it was "
                    "submitted, whatever its user's limits; write waits=simulated, learned or none, or leave the "
                    "limits out"
                )
            rules = sharing(rules)
        self.required = required = requirements_of(jobs)
        bits = required.bits
        self.preempts = policy.policy.preempts(policy.values)
        trace = self._trace(speed, observed, required.masks)
        self.kinds = kinds_of(jobs) if plans else []
        most = 1
        if rules.waits:
            most = check_alone(cluster, jobs, self.tasks, rules.foresees)
        state = new_nodes_state(
            cluster.capacity,
            cluster.types,
            units=float(self.units),
            restart_s=float(options.restart_s),
            seed=options.seed % (1 << 63),
            by_priority=in_turn[0].policy.by_priority,
            guarded=any(each.policy.is_users for each in in_turn),
            params=policy.policy.params(policy.values),
            slots=FIRST_SLOTS,
            placements=max(FIRST_PLACEMENTS, 4 * len(cluster)),
            segments=RECORDS if options.timeline else 0,
            absences=RECORDS if self.preempts else 0,
            steps=FIRST_PLAN if rules.backfill >= CONSERVATIVE else 1,
            offers=terms_of(cluster, bits) if rents else None,
            fates=fates_of(cluster, most) if rents else 0,
            leases=RECORDS if rents else 0,
            rents_alone=own.rents_alone(values),
            log=RECORDS if options.timeline else 0,
            quota=UNLIMITED if cluster.quota is None else cluster.quota,
            observed=rules.observes,
            largest=self.machines.max(axis=0),
            labels=np.array([mask(group.labels, bits) for group in cluster.groups], np.int64)[cluster.types],
            families=cluster.family_numbers(rents=False)[cluster.types],
            family_count=len(cluster.families),
            demands=self._demands,
            interference=table_of(cluster.interference),
            hardware=hardware_of(cluster) if rents else None,
        )
        if cluster.maintenance:
            state = state.replaced(closings=closings_of([(*each, 0) for each in cluster.closings]))
            entries.expect_openings(state)
        if options.users is not None:
            state = state.replaced(users=options.users.records(jobs))
        self.driver = Driver(
            state,
            rules,
            trace,
            np.zeros(1, dtype=np.int64),
            str(policy),
            lambda slot: self.name_of(int(self.state.progress[slot].row)),
            {
                NEED_SEGMENTS: lambda _: self.take_records(),
                NEED_LOG: lambda _: self.take_records(),
                NEED_FATES: lambda driver: draw_ahead(driver.state, cluster),
                ASKED: self._ask_planner,
                SELECT: self._select_policy,
                FORESEE: self._foresee_wait,
            },
        )
        self.predicted: Floats = np.full(len(jobs), np.nan)
        self.select: Callable[[], None] | None = (
            None  # puts other rules in force, where a policy selects among several
        )
        # Decides whether the job in a slot waits, in the run or in a copy of it.
        self.foresee_wait: Callable[[int, NodesState | None], None] | None = None
        self.selections: SelectionColumns | None = None
        self.segment_chunks: list[NDArray[Any]] = []
        self.lease_chunks: list[NDArray[Any]] = []
        self.log_chunks: list[NDArray[Any]] = []
        self.absence_chunks: list[NDArray[Any]] = []
        self.name_of: Callable[[int], object] = self.jobs.job_id.__getitem__
        self.wall_s = 0.0
        self.refused: list[Refusal] = []  # decisions of planners that could not be carried out
        self.idle_since_s = math.inf  # when a planner was asked without any job for the first time
        self._seen = 0  # outcomes that have been taken
        first = [] if self._begin is None else self._begin.rows(jobs)
        seqs = [*np.argsort(first).tolist(), *range(len(first), len(jobs))]
        planners = (each.policy.planner_of(each.values, cluster) for each in in_turn)
        self.rounds_in_turn = [
            PlannerRounds(each, str(policy), self.kinds, seqs) for each in planners if each is not None
        ]
        self.rounds: PlannerRounds | None = None
        if self.rounds_in_turn:
            self.rounds = self.rounds_in_turn[0]
            self.rounds.set_next(self.driver)

    @property
    def state(self) -> NodesState:
        """The cluster as it is now."""
        return self.driver.state

    @property
    def rules(self) -> NodesRules:
        """The rules of the policy in force."""
        return self.driver.rules

    @property
    def trace(self) -> event_loop.Trace:
        """The submissions and the outcomes so far."""
        return self.driver.trace

    @property
    def row(self) -> Ints:
        """(1,) the next row to be submitted."""
        return self.driver.row

    @property
    def job_ids(self) -> NDArray[Any]:
        """The names of the jobs, by row."""
        return self.jobs.job_id

    @property
    def promised_s(self) -> Floats:
        """The promised finish of each job so far, by row; NaN: it has none."""
        return self.predicted

    @property
    def believes(self) -> bool:
        """Whether believed sizes are not the true ones."""
        return self.sizes.kind != "true"

    @property
    def reserves(self) -> bool:
        """Whether nodes are promised by estimates, which are limits then."""
        return self.rules.backfill != SKIP

    @property
    def units(self) -> int:
        """The size of the cluster by its owned nodes; one where it has none."""
        return self.cluster.units if self.cluster.groups else 1

    def run(
        self, step: Callable[[int], int] | None = None, progress: Callable[[int], object] | None = None
    ) -> None:
        """Take the cluster through the whole workload.

        step: submits the jobs up to a row and returns a status, by default the plain loop; progress receives
        the rows done. Raises PolicyViolation when a hook answers something that cannot be used.
        """
        self.begin()
        self.wall_s = drive(self.driver, self.policy, len(self.jobs), step or self.driver.step, progress)
        self.note_unfinished()
        for each in self.policy.policy.in_turn(self.policy.values):
            mark_proven(each.policy)

    def begin(self) -> None:
        """Take over the jobs of the options' state, before anything happens; raises InputError if they cannot be."""
        begin, self._begin = self._begin, None
        if begin is not None:
            cluster, tasks = self.cluster, self.tasks.of(self.kept)
            begin_from(self.driver, begin, self.jobs, tasks, cluster, is_known=not self.believes)
            if self.rounds is not None:
                self.rounds.set_next(self.driver)

    def cluster_state(self) -> ClusterState:
        """The state in which the cluster is now, after `advance_to`.

        Raises InputError where jobs are leaving their nodes for others, or are on rented machines.
        """
        return cluster_state(self.driver, self.jobs, self.tasks.of(self.kept), self.cluster)

    def advance_to(self, until_s: float) -> None:
        """Let everything happen up to and including `until_s`, in seconds of the trace; `state` is then true there.

        Calls at growing times and a last `run` are together the same as `run` alone, and only after `run` there is a
        `result`. The clock (`now_s`) stays at the last thing that happened. Raises InputError for a time before it, and
        PolicyViolation as `run` does.
        """
        if not until_s >= self.now_s:
            raise InputError(
                f"advance_to({until_s:g}): the simulation is already at {self.now_s:g} s; choose a later time"
            )

        self.begin()

        def step(stop: int) -> int:
            return self.driver.step(stop, until_s)

        while goes_on(self.driver, self.policy, step, len(self.jobs)):
            pass

    def advance_before(self, row: int) -> int:
        """Let everything happen before the pass that decides on `row`; returns the first row that it does not know."""
        at_s = float(self.jobs.submit_s[row])
        before_s = math.nextafter(at_s, -math.inf)
        if before_s > self.now_s:
            self.advance_to(before_s)
        return int(np.searchsorted(self.jobs.submit_s, at_s, side="right"))

    def take_ended(self) -> tuple[Ints, Floats]:
        """Rows and finishes, s, of the jobs that have finished since the last call, in order."""
        seen, self._seen = self._seen, int(self.trace.finished[0])
        new, outcomes = slice(seen, self._seen), as_array(self.trace.outcomes)
        return outcomes["row"][new], outcomes["finish_s"][new]

    def believe(self, row: int, run_s: float) -> None:
        """The policy believes this run time of a job to come."""
        self.trace.arrivals[row].runtime_estimate_s = run_s

    def advance_rows(self, stop: int, progress: Callable[[int], object] | None = None) -> float:
        """Submit the jobs up to row `stop`, and after the last of all let everything happen; returns seconds taken."""
        return drive(self.driver, self.policy, stop, self.driver.step, progress)

    @property
    def now_s(self) -> float:
        """The time of the last event, in seconds of the trace."""
        return float(as_array(self.state.pool)["now"][0])

    def result(self, load_s: float = 0.0, compile_s: float = 0.0) -> Result:
        """The outcome of every job, in the workload's order."""
        w, finish_s = self.workload, in_rows(self.trace, "finish_s", math.nan)
        units_s = in_rows(self.trace, "units_s", 0.0)
        state = np.full(len(w), JobState.REFUSED)
        finished = ~np.isnan(finish_s)
        leases = self._leases() if self.rents else None
        state[self.kept] = np.where(
            finished, np.where(self.killed, JobState.KILLED, JobState.FINISHED), JobState.UNFINISHED
        )

        def column(values: NDArray[Any], otherwise: float) -> NDArray[Any]:
            whole = np.full(len(w), otherwise, dtype=values.dtype)
            whole[self.kept] = values
            return whole

        jobs = JobColumns(
            job_id=w.job_id,
            submit_s=w.submit_s,
            start_s=column(in_rows(self.trace, "start_s", math.nan), math.nan),
            finish_s=column(finish_s, math.nan),
            predicted_finish_s=column(self.predicted, math.nan),
            work_s=w.work_s,
            run_alone_s=column(self.run_s, math.nan),
            min_units=w.max_units,
            max_units=w.max_units,
            units_s=column(units_s, 0.0),
            preemptions=column(in_rows(self.trace, "preemptions", 0), 0),
            resizes=np.zeros(len(w), dtype=np.int64),
            restart_s=column(in_rows(self.trace, "stalled_s", 0.0), 0.0),
            contention_mean=np.full(len(w), np.nan),
            user=w.user,
            qos=w.qos,
            status=w.status,
            state=state,
            **self._rented(leases),
        )
        return Result(
            policy=str(self.policy),
            units=self.units,
            seed=self.options.seed,
            fractional=False,
            sizes=str(self.sizes),
            workload_name=w.name,
            fingerprint=w.fingerprint(),
            jobs=jobs,
            segments=self._segments() if self.options.timeline else None,
            timing=Timing(load_s, compile_s, self.wall_s, int(self.state.pool[0].events)),
            absences=self._absences() if self.preempts else None,
            resources=self._resources(units_s, leases, metrics.makespan(self.jobs.submit_s, finish_s)),
            leases=leases,
            decisions=self._decisions() if self.options.timeline else None,
            fixed_usd=self._fixed_usd(),
            migrations=int(self.state.cluster[0].migrations),
            selections=self.selections,
        )

    def _rented(self, leases: LeaseColumns | None) -> dict[str, NDArray[Any]]:
        """The dedicated machines of each job, and their cost."""
        count = len(self.workload)
        usd, types = np.full(count, np.nan), np.zeros(count, dtype=np.str_)
        if self.rules.waits and leases is not None:
            names = np.array([offer.type for offer in self.cluster.offers])
            usd[self.kept] = np.bincount(leases.job, leases.cost_usd, len(self.jobs))
            offer = np.full(count, -1)
            offer[self.kept] = in_rows(self.trace, "offer", -1)
            types = np.where(offer >= 0, names[offer], "")
        return {"cost_usd": usd, "rented": types != "", "instance_type": types}

    def _trace(self, speed: Floats, observed: bool, labels: Ints) -> event_loop.Trace:
        jobs = self.jobs
        if np.any(np.abs(jobs.priority) > LARGEST_PRIORITY):
            row = int(np.argmax(np.abs(jobs.priority)))
            raise InputError(
                f"job {jobs.job_id[row]}, field priority: expected a number from "
                f"{-LARGEST_PRIORITY:,} to {LARGEST_PRIORITY:,}, found {jobs.priority[row]:,}"
            )
        belief = beliefs(self.sizes, jobs, speed, self.options.seed)
        self.without_estimate, self.assumed_s = belief.without_estimate, belief.assumed_s
        users = user_rows(jobs)
        trace = new_trace(len(jobs), max(1, int(users.max(initial=-1)) + 1), observed)
        count, demand = self.tasks.count[self.kept], self.tasks.demand[self.kept]
        by_family = demand[:, None] if self.tasks.by_family is None else self.tasks.by_family[self.kept]
        share = norm_of(count[:, None], np.moveaxis(by_family, 2, 0), self.machines.max(axis=0))
        amounts = count[:, None] * demand / jobs.max_units[:, None]  # a unit's
        self._demands, first_of = demand_rows(self.tasks, self.kept)
        columns = {
            "submit_s": jobs.submit_s,
            "run_s": self.run_s,
            "units": jobs.max_units,
            "tasks": count,
            "gpu": demand[:, 0],
            "cpu": demand[:, 1],
            "memory": demand[:, 2],
            "demands": first_of,
            "labels": labels,
            "share": share.min(axis=1),
            "trial": jobs.qos,
            "priority": jobs.priority,
            "grace_s": jobs.grace_s,
            "runtime_estimate_s": belief.size / speed,
            "believed_per_work": belief.per_work,
            "user": users,
            "longest_s": belief.longest_s,
            "fits_no_owned": 0 if self.tasks.fits_no_owned is None else self.tasks.fits_no_owned[self.kept],
            "choice": choices_of(jobs),
            "charge": charge_of(*(amounts / PER_UNIT).T),
            "unit_memory": amounts[:, 2],
            **launching(jobs, self.cluster),
        }
        if self.options.overrun == "kill":
            columns["limit_s"] = np.nan_to_num(jobs.estimate_s)
        arrivals = as_array(trace.arrivals)
        for name, values in columns.items():
            arrivals[name] = values
        return trace

    def _ask_planner(self, driver: Driver) -> None:
        pool, cluster = driver.state.pool[0], driver.state.cluster[0]
        if self.select is not None and cluster.waiting > 0 and pool.now >= cluster.select_s:
            self.select()
        assert self.rounds is not None
        plan = self.rounds.hold(driver)
        if plan is not None and plan.error is not None:
            if isinstance(plan.error, PolicyViolation) or self.policy.is_users:
                raise self.rounds.violation(plan) from plan.error
            raise plan.error
        self.refused += [] if plan is None else plan.refused
        self._refuse_to_idle()

    def _refuse_to_idle(self) -> None:
        """Raise PolicyViolation for a planner that holds machines `LONGEST_IDLE_S` after the last job."""
        if self.state.pool[0].active > 0 or self.row[0] < len(self.jobs):
            return
        self.idle_since_s = min(self.idle_since_s, self.now_s)
        rented = int(self.state.cluster[0].rented)
        if rented > 0 and self.now_s - self.idle_since_s > LONGEST_IDLE_S:
            raise PolicyViolation(
                f"policy {self.policy} at {self.now_s:g} s: it still holds {rented} machines a day after the last job; "
                "a planner has to release them"
            )

    def _select_policy(self, _: Driver) -> None:
        assert self.select is not None
        self.select()

    def _foresee_wait(self, driver: Driver) -> None:
        assert self.foresee_wait is not None
        self.foresee_wait(int(driver.state.pool[0].offender), None)

    def take_records(self) -> None:
        """Make room for the records of one instant (`event_loop._room_for_an_instant`)."""
        pool, cluster = self.state.pool[0], self.state.cluster[0]
        self.segment_chunks.append(as_array(self.state.segments)[: pool.segments].copy())
        self.absence_chunks.append(as_array(self.state.absences)[: cluster.absences].copy())
        self.lease_chunks.append(as_array(self.state.leases)[: cluster.leases].copy())
        self.log_chunks.append(as_array(self.state.log)[: cluster.logged].copy())
        pool.segments = cluster.absences = cluster.leases = cluster.logged = 0
        if len(self.state.leases) and len(self.state.leases) < 2 * (len(self.state.nodes) + cluster.rented):
            room = 4 * (len(self.state.nodes) + int(cluster.rented))
            self.driver.state = self.state.replaced(leases=blank(Lease, room))
        if len(self.state.log) and len(self.state.log) < 8 * (len(self.state.free) + len(self.state.nodes)):
            room = 16 * (len(self.state.free) + len(self.state.nodes))
            self.driver.state = self.state.replaced(log=blank(Instruction, room))
        if self.options.timeline and len(self.state.segments) < 2 * len(self.state.placements):
            self.driver.state = self.state.replaced(segments=blank(Segment, 4 * len(self.state.placements)))
        if self.preempts and len(self.state.absences) < 2 * len(self.state.free):
            self.driver.state = self.state.replaced(absences=blank(Absence, 4 * len(self.state.free)))

    def _segments(self) -> SegmentColumns:
        self.take_records()
        rows = np.concatenate(self.segment_chunks)
        rows = rows[np.lexsort((rows["row"], rows["start_s"]))]
        return SegmentColumns(
            self.kept[rows["row"]], *(rows[name].copy() for name in ("start_s", "end_s", "units"))
        )

    def _decisions(self) -> DecisionColumns:
        self.take_records()
        lines = np.concatenate(self.log_chunks)
        row = np.where(lines["row"] >= 0, self.kept[lines["row"]], -1)
        return DecisionColumns(
            at_s=lines["at_s"].copy(),
            what=np.array(NAMES)[lines["what"]],
            row=row,
            **{name: lines[name].copy() for name in ("node", "generation", "offer", "tasks", "value")},
        )

    def _leases(self) -> LeaseColumns:
        self.take_records()
        return leases(self.cluster, self.lease_chunks, self.state)

    def _fixed_usd(self) -> float | None:
        """The cost of the owned nodes from the first arrival to the last event."""
        if not any(group.usd_per_h is not None for group in self.cluster.groups) or not len(self.jobs):
            return None
        horizon_s = float(self.state.pool[0].now) - float(self.jobs.submit_s[0])
        return float(self.cluster.owned_usd(max(0.0, horizon_s)))

    def _absences(self) -> AbsenceColumns:
        self.take_records()
        rows = np.concatenate(self.absence_chunks)
        return AbsenceColumns(
            self.kept[rows["row"]], *(rows[name].copy() for name in ("preempted_s", "vacated_s", "resumed_s"))
        )

    def _resources(
        self, units_s: Floats, leases: LeaseColumns | None, makespan_s: float
    ) -> tuple[ResourceUse, ...]:
        """The use of each resource that the cluster has, amount times time held."""
        stays_s = units_s / self.jobs.max_units
        amounts = self.tasks.count[self.kept][:, None] * self.tasks.demand[self.kept]
        amounts[self.tasks.differs[self.kept]] = (
            0  # counted as they leave, on the machines on which they were
        )
        cluster = self.state.cluster[0]
        held_s = (cluster.held_gpu_s, cluster.held_cpu_s, cluster.held_memory_s)
        there = self._amounts_there(leases, makespan_s)
        return tuple(
            ResourceUse(
                name,
                there[at] / PER_UNIT[at],
                math.fsum([*(stays_s * amounts[:, at]).tolist(), float(held_s[at])]) / PER_UNIT[at],
            )
            for at, name in enumerate(RESOURCES)
            if there[at] > 0
        )

    def _amounts_there(self, leases: LeaseColumns | None, makespan_s: float) -> list[float]:
        """(3,) how much of each resource the machines had, on average over the makespan.

        Machines that were rented count for as long as they were up, also beyond it.
        """
        amounts = self.cluster.total.astype(np.float64)
        if leases is not None and len(self.jobs):
            up_s = np.maximum(0.0, leases.ended_s - leases.up_s)
            for offer in self.cluster.offers if makespan_s > 0 else ():
                share = float(up_s[leases.instance_type == offer.type].sum()) / makespan_s
                amounts = amounts + share * whole_capacity(offer.amounts)
        return amounts.tolist()

    def note_unfinished(self) -> None:
        """Jobs that are still there when nothing more can happen: what they had so far."""
        free = set(self.state.free[: self.state.pool[0].free].tolist())
        for slot in range(len(self.state.free)):
            if slot not in free:
                progress = self.state.progress[slot]
                outcome = self.trace.outcomes[self.trace.finished[0]]
                self.trace.finished[0] += 1
                outcome.row = progress.row
                outcome.start_s = progress.started_s
                outcome.finish_s = math.nan
                outcome.units_s = progress.attained
                outcome.stalled_s = progress.stalled_s
                outcome.preemptions = progress.preemptions
