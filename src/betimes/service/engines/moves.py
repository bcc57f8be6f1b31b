"""What the core of the nodes engine has decided about jobs, read from its log as moves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from betimes.core.instruction import BIND, DOUBLE, MIGRATE, PREEMPT, RELEASE, RENT, RESERVE, START
from betimes.core.nodes.columns import NodesState
from betimes.errors import BetimesError
from betimes.kernels import as_array
from betimes.service.engines.dedicated_machines import rooms_of, units_on
from betimes.service.engines.jobs_on_nodes import JobsOnNodes, Promise, listed_from
from betimes.service.engines.messages import (
    Bind,
    Grant,
    Migrate,
    Move,
    Outrun,
    Preempt,
    Rent,
    Reserve,
    StopSpeculating,
)

NOTHING_PROMISED: Promise = (math.inf, ())


def strike_out(state: NodesState, slot: int, since: int) -> None:
    """Drop a job's lines from the log's lines since `since`: nothing was decided about it.

    Lines of other jobs stay: one that was owed only this job's nodes has begun.
    """
    cluster = state.cluster[0]
    lines = as_array(state.log)[since : cluster.logged]
    others = lines[lines["job"] != slot].copy()
    lines[: len(others)] = others
    cluster.logged = since + len(others)


def moves_in(lines: np.ndarray, jobs: JobsOnNodes) -> list[Move]:
    """The moves that carry out the decisions in these lines, in the order in which they can be carried out."""
    state, decided = jobs.driver.state, dict[int, set[int]]()
    for slot, what in zip(lines["job"].tolist(), lines["what"].tolist(), strict=True):
        if slot in jobs.job_of:  # else its job is over, and there is none in its place
            decided.setdefault(slot, set()).add(what)
    moves = list[Move]()
    for slot in sorted(decided, key=lambda slot: state.jobs[slot].seq):
        moves += _moves(slot, decided[slot], jobs)
    granted = {move.job for move in moves if isinstance(move, Grant)}
    return sorted(moves, key=lambda move: (isinstance(move, Preempt) and move.job in granted, _order(move)))


def _order(move: Move) -> int:
    """Within one instant: exits first, then reservations, then starts.

    Last come exits from grants of the same instant.
    """
    return (Outrun, Migrate, Preempt, StopSpeculating, Reserve, Bind, Rent, Grant).index(type(move))


def _moves(slot: int, decided: set[int], jobs: JobsOnNodes) -> Iterator[Move]:
    """The moves that carry out these decisions about a job."""
    state, job = jobs.driver.state, jobs.job_of[slot]
    need = state.needs[slot]
    eviction = state.evictions[slot]
    holds = need.holder >= 0
    if RELEASE in decided:
        yield StopSpeculating(job)
    if RENT in decided and need.rented > 0:
        jobs.booting.add(job)
        yield _rented(job, slot, jobs)
    if DOUBLE in decided:
        yield Outrun(job, float(state.jobs[slot].size_s))
    if START in decided and holds and need.rented == 0:
        tasks, places = jobs.tasks_of[job], jobs.places(job, int(need.placed))
        yield Grant(job, 0, tasks.units, places, tasks.units_each)
    elif BIND in decided and need.bound >= 0:
        yield Bind(job, jobs.places(job, int(need.bound)), _owed(state, int(need.bound)))
    if RESERVE in decided or holds:
        before = jobs.promised.pop(job, NOTHING_PROMISED)
        start_s, places = float(need.reserved_s), jobs.places(job, int(need.reservation))
        if (start_s, places) != before and not holds:
            yield Reserve(job, start_s, places)
        if start_s < math.inf:
            jobs.promised[job] = start_s, places
    if MIGRATE in decided and holds and need.bound >= 0:
        expected = None if jobs.rounds is None else jobs.rounds.expected.get(slot)
        yield Migrate(job, jobs.places(job, int(need.bound)), bool(eviction.moves_when_free == 1), expected)
    if PREEMPT in decided and holds and eviction.vacate_at < math.inf:
        yield Preempt(job, float(eviction.vacate_at), jobs.job_of.get(int(eviction.preemptor)))


def _rented(job: int, slot: int, jobs: JobsOnNodes) -> Rent:
    need, tasks = jobs.driver.state.needs[slot], jobs.tasks_of[job]
    renting = jobs.driver.state.rentings[slot]
    machine = rooms_of(jobs.offered)[renting.offer]
    found = units_on(tasks, jobs.asked[job].unit, machine, int(need.rented))
    if found is None:
        raise BetimesError(f"internal: {need.rented} machines are rented for job {job}, and do not hold it")
    units, each = found
    return Rent(job, int(renting.offer), units, each, float(need.alarm_s))


def _owed(state: NodesState, at: int) -> tuple[tuple[int, int, int], ...]:
    """Amounts that victims are still to give up, at each of the list of placements that begins at `at`."""
    owing = (state.placements[each] for each in listed_from(state, at))
    return tuple((int(each.owed_gpu), int(each.owed_cpu), int(each.owed_memory)) for each in owing)
