"""A simulation of a pool that begins from a state, and the state that it stands in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from betimes.cluster import Cluster
from betimes.core.pool.transitions import SLACK_FRAC
from betimes.core.status import NEED_SLOTS
from betimes.errors import InputError
from betimes.kernels import Floats, as_array
from betimes.twin.account import Account, account_of, give_account
from betimes.twin.cluster_state import ClusterState, RunningJob, numbers_of, refuse_crowded
from betimes.twin.pool import entries
from betimes.twin.pool.driver import Driver
from betimes.workload import Workload


def begin_from(
    driver: Driver, state: ClusterState, jobs: Workload, cluster: Cluster | None, *, is_known: bool
) -> list[int]:
    """Let a driver, in which nothing has happened, begin from a state; the policy decides at the first instant.

    is_known: what is believed of jobs is the truth. Returns the rows of the state's jobs in their order of submission.
    Raises InputError for a state that these jobs and this pool cannot be in.
    """
    rows, held = state.rows(jobs), dict[str, list[tuple[int, Sequence[int]]]]()
    arrivals, units = as_array(driver.trace.arrivals), float(driver.state.pool[0].units)
    for row in rows:
        job = state.running_by_id.get(str(jobs.job_id[row]))
        if job is None:
            continue
        least = jobs.min_units[row]
        if driver.state.pool[0].fractional == 0 and job.held != int(job.held):
            raise job.error(f"{job.held:g} units of a pool of whole ones; give a whole number")
        if job.held > jobs.max_units[row] or (job.held < least and (least > 1 or job.held == int(job.held))):
            raise job.error(
                f"it holds {job.held:g} units, and its row says {least} to {jobs.max_units[row]}; correct one of them"
            )
        if bool(job.nodes) != (cluster is not None):
            where = (
                "no nodes; give its units" if cluster is None else "nodes; give its units on each, by name"
            )
            raise job.error(f"the pool has {where}")
        if cluster is not None:
            demand = np.array([arrivals[name][row] for name in ("gpu", "cpu", "memory")])
            numbers = numbers_of(cluster, job.nodes)
            amounts = np.array(list(job.nodes.values()))[:, None] * demand
            held[job.job_id] = list(zip(numbers, amounts.tolist(), strict=True))
    in_all = sum(job.held for job in state.running)
    if in_all > units * (1.0 + SLACK_FRAC):
        raise InputError(
            f"state: its jobs hold {in_all:g} units, the pool has {units:g}; correct one of them"
        )
    if cluster is not None:
        refuse_crowded(cluster, state, held)
    for seq, row in enumerate(rows):
        job = state.running_by_id.get(str(jobs.job_id[row]))
        if driver.state.pool[0].free == 0:
            driver.heed(NEED_SLOTS)
        arrival, has = driver.trace.arrivals[row], 0.0 if job is None else job.held
        driver.state.pool[0].submitted = seq
        slot = driver.take_in(row)
        driver.state.pool[0].now = state.now_s
        account = state.account(
            str(jobs.job_id[row]),
            float(arrival.submit_s),
            float(arrival.believed),
            float(arrival.work),
            rate=_speed(driver, row, has),
            per_work=float(arrival.believed_per_work),
            is_known=is_known,
        )
        progress = driver.state.progress[slot]
        progress.resizes, progress.units_before, progress.stall_before = account.resizes, has, account.stall_s
        progress.resized_s = progress.resized_before_s = account.since_s
        give_account(driver.state, slot, account, job is not None)
        driver.queue_up(slot)
        if job is None:
            continue
        if cluster is not None:
            places = zip(numbers_of(cluster, job.nodes), job.nodes.values(), strict=True)
            for node, count in reversed(list(places)):  # lists of placements are read from their end
                entries.place_on(driver.state, slot, node, count)
        entries.count_held(driver.state, slot, 0.0, has)
        entries.hold(driver.state, slot, has)
    pool = driver.state.pool[0]
    for slot in np.flatnonzero(as_array(driver.state.progress)["served_by"] >= 0).tolist():
        account = state.accounts.get(str(jobs.job_id[driver.state.progress[slot].row]))
        if account is not None and account.seen_events > 0.0:
            driver.state.jobs[slot].seen_count = pool.events - account.seen_events
            driver.state.jobs[slot].seen_sum = pool.contention - account.seen_active
    pool.now, pool.logged = state.now_s, 0
    driver.row[0], pool.pending = len(rows), int(len(rows) > 0)
    return rows


def cluster_state(driver: Driver, jobs: Workload, cluster: Cluster | None) -> ClusterState:
    """The state in which a driver is, between two instants."""
    state, pool = driver.state, driver.state.pool[0]
    running, waiting, accounts = list[RunningJob](), list[tuple[int, str]](), dict[str, Account]()
    names = [] if cluster is None else cluster.node_names
    for slot in np.flatnonzero(as_array(state.progress)["served_by"] >= 0).tolist():
        job, progress = state.jobs[slot], state.progress[slot]
        job_id = str(jobs.job_id[progress.row])
        accounts[job_id] = replace(
            account_of(state, slot),
            seen_events=float(pool.events - job.seen_count),
            seen_active=float(pool.contention - job.seen_sum),
            work_left_s=float(progress.work_left),
            started_s=None if math.isnan(progress.started_s) else float(progress.started_s),
            stalled_s=float(progress.stalled_s),
        )
        if not job.units > 0.0:
            waiting.append((int(job.seq), job_id))
            continue
        on, at = dict[str, int](), -1 if cluster is None else state.footprints[slot].placed
        while at >= 0:
            on[names[int(state.placements[at].node)]] = int(state.placements[at].tasks)
            at = state.placements[at].follows
        running.append(RunningJob(job_id, float(progress.since), on, None if on else float(job.units)))
    order = [job_id for _, job_id in sorted(waiting)]
    return ClusterState(float(pool.now), tuple(running), tuple(order), (), accounts)


def _speed(driver: Driver, row: int, units: float) -> float:
    """Work a second of the job in a row on `units`, as `core.work.speed` has it."""
    line: Floats = driver.state.speedup[int(driver.trace.arrivals[row].curve)]
    return float(np.interp(units, np.arange(len(line)), line))
