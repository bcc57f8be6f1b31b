"""A simulation on nodes that begins from a state, and the state that it stands in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd

import numpy as np

from betimes.cluster import Cluster
from betimes.cluster.resources import NOWHERE
from betimes.cluster.tasks import JobTasks
from betimes.core.status import NEED_SLOTS
from betimes.errors import InputError
from betimes.kernels import as_array
from betimes.twin.account import Account, account_of, give_account
from betimes.twin.cluster_state import ClusterState, RunningJob, numbers_of, refuse_crowded
from betimes.twin.nodes import entries
from betimes.twin.nodes.driver import Driver
from betimes.twin.nodes.tasks import Tasks
from betimes.workload import Workload

Split = Callable[[Workload, Cluster], Tasks]
"""The tasks of a workload's jobs on a cluster."""


def tasks_as_held(state: ClusterState, workload: Workload, cluster: Cluster, split: Split) -> Tasks:
    """The tasks of the jobs, so that those that run have as many whole ones on each node as they have units there."""
    tasks, units_per_task = split(workload, cluster), workload.units_per_task.copy()
    for row in state.rows(workload):
        job = state.running_by_id.get(str(workload.job_id[row]))
        if job is not None and not tasks.refused[row] and _tasks_on(job, workload, row, tasks) is None:
            units_per_task[row] = gcd(*job.nodes.values())
    if (units_per_task == workload.units_per_task).all():
        return tasks
    return split(replace(workload, units_per_task=units_per_task), cluster)


def begin_from(
    driver: Driver, state: ClusterState, jobs: Workload, tasks: Tasks, cluster: Cluster, *, is_known: bool
) -> list[int]:
    """Let a driver, in which nothing has happened, begin from a state; the policy looks at the first instant.

    tasks: of `jobs`. is_known: what is believed of them is the truth. Returns the rows of the state's jobs in their
    order of submission. Raises InputError for a state that these jobs and this cluster cannot be in.
    """
    arrivals, rows = as_array(driver.trace.arrivals), state.rows(jobs)
    families = cluster.family_numbers(rents=False)[cluster.types]
    labels = as_array(driver.state.nodes)["labels"]
    places: dict[int, list[tuple[int, int]]] = {}
    held: dict[str, list[tuple[int, Sequence[int]]]] = {}
    for row in rows:
        job = state.running_by_id.get(str(jobs.job_id[row]))
        if job is None:
            continue
        on = _tasks_on(job, jobs, row, tasks)
        numbers = numbers_of(cluster, on or ())
        assert on is not None, "they were split so"
        needed = tasks.demand[row] if tasks.by_family is None else tasks.by_family[row, families[numbers]]
        if (needed >= NOWHERE).any():
            raise job.error(
                "a family of its nodes cannot run it; correct where it runs, or its demands by family"
            )
        places[row] = list(zip(numbers, on.values(), strict=True))
        amounts = np.array(list(on.values()))[:, None] * needed
        held[job.job_id] = list(zip(numbers, amounts.tolist(), strict=True))
        for node in numbers:
            if arrivals["labels"][row] & ~labels[node]:
                raise job.error(
                    f"node {cluster.node_names[node]} lacks a label that it requires ({jobs.require[row]}); correct "
                    "where it runs, or the labels"
                )
    refuse_crowded(cluster, state, held)
    for node in numbers_of(cluster, state.closed):
        entries.open_node(driver.state, node, 0)
    for seq, row in enumerate(rows):
        if driver.state.pool[0].free == 0:
            driver.heed(NEED_SLOTS)
        pool, arrival = driver.state.pool[0], driver.trace.arrivals[row]
        pool.now, pool.submitted = state.now_s, seq
        speeds = [1.0]
        if tasks.speeds is not None and row in places:
            speeds = [float(tasks.speeds[row, families[node]]) for node, _ in places[row]]
        account = state.account(
            str(jobs.job_id[row]),
            float(arrival.submit_s),
            float(arrival.runtime_estimate_s),
            float(arrival.run_s),
            rate=min(speeds),
            stall_s=float(arrival.launch_s + arrival.init_s),
            per_work=float(arrival.believed_per_work),
            is_known=is_known,
        )
        slot = entries.take_slot(driver.state, driver.rules, driver.trace, row)
        give_account(driver.state, slot, account, row in places)
        if row in places:
            driver.state.needs[slot].contends = 1
            count = driver.plan(places[row])
            entries.hold(driver.state, slot, count)
            driver.state.needs[slot].began_s = state.running_by_id[str(jobs.job_id[row])].since_s
        else:
            driver.wait(slot)
    driver.state.pool[0].now = state.now_s
    driver.state.cluster[0].logged = 0  # nothing of this was decided now
    driver.row[0] = len(rows)
    if rows:
        driver.look()
    return rows


def cluster_state(driver: Driver, jobs: Workload, tasks: Tasks, cluster: Cluster) -> ClusterState:
    """The state in which a driver is, between two instants. Raises InputError where it has more to it than a state."""
    state, names = driver.state, cluster.node_names
    running, waiting = list[RunningJob](), list[tuple[int, str]]()
    accounts = dict[str, Account]()
    for slot in np.flatnonzero(as_array(state.progress)["served_by"] >= 0).tolist():
        need, progress, row = state.needs[slot], state.progress[slot], int(state.progress[slot].row)
        job_id = str(jobs.job_id[row])
        if need.bound >= 0 or need.rented > 0 or state.evictions[slot].vacate_at < math.inf:
            raise InputError(
                f"job {job_id} is leaving its nodes, waits for others to leave, or runs on a rented machine at "
                f"{state.pool[0].now:g} s, which is no part of a state; choose another instant"
            )
        accounts[job_id] = replace(
            account_of(state, slot),
            work_left_s=float(progress.work_left),
            started_s=None if math.isnan(progress.started_s) else float(progress.started_s),
            stalled_s=float(progress.stalled_s),
        )
        if need.holder < 0:
            waiting.append((int(state.jobs[slot].seq), job_id))
            continue
        on, at = dict[str, int](), need.placed
        while at >= 0:
            on[names[int(state.placements[at].node)]] = int(state.placements[at].tasks)
            at = state.placements[at].follows
        on = dict(sorted(on.items(), key=lambda each: -each[1]))
        units = _job_tasks(jobs, row, tasks).units_in(list(on.values()))
        running.append(RunningJob(job_id, float(need.began_s), dict(zip(on, units, strict=True))))
    closed = [names[node] for node in range(len(names)) if state.nodes[node].up == 0]
    order = [job_id for _, job_id in sorted(waiting)]
    return ClusterState(float(state.pool[0].now), tuple(running), tuple(order), tuple(closed), accounts)


def _tasks_on(job: RunningJob, jobs: Workload, row: int, tasks: Tasks) -> dict[str, int] | None:
    """The tasks of a running job on each of its nodes, the fullest first; None: its units there are not whole ones."""
    on = dict(sorted(job.nodes.items(), key=lambda each: -each[1]))
    if not on:
        raise job.error("it runs on nodes; give its units on each, by the node's name")
    if job.held != jobs.max_units[row]:
        raise job.error(
            f"it holds {job.held:g} units, and its row says {jobs.max_units[row]}; correct one of them"
        )
    counts = _job_tasks(jobs, row, tasks).tasks_in(list(on.values()))
    return None if counts is None else dict(zip(on, counts, strict=True))


def _job_tasks(jobs: Workload, row: int, tasks: Tasks) -> JobTasks:
    units, count = int(jobs.max_units[row]), int(tasks.count[row])
    return JobTasks(units, count, -(-units // count), (0, 0, 0), 0)
