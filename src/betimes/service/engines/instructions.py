"""The instructions of live nodes, read from the lines that the core has logged since the last time.

Neighbouring lines of one kind about one job are one decision: a line for each of its nodes. Within one look of the
policy the last decision about a job holds. A job that begins is not bound to nodes and has no reservation any more; a
moving job that is also to leave does not wait for its new nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from betimes.core.instruction import BIND, DOUBLE, MIGRATE, PREEMPT, RELEASE, RENT, RESERVE, START
from betimes.errors import BetimesError
from betimes.kernels import as_array
from betimes.service.engines.dedicated_machines import rooms_of, units_on
from betimes.service.engines.jobs_on_nodes import JobsOnNodes, Promise
from betimes.service.engines.messages import (
    Allocation,
    Bind,
    Grant,
    Instruction,
    JobInstruction,
    Migrate,
    Outrun,
    Preempt,
    ReleaseMachine,
    Rent,
    RentMachine,
    Reserve,
    StopSpeculating,
)
from betimes.twin.nodes.driver import Lines

ORDER = (
    *(Outrun, Migrate, Preempt, StopSpeculating, Reserve, Bind, Rent, Grant),  # exits, reservations, starts
    *(RentMachine, ReleaseMachine),
)
NOTHING_PROMISED: Promise = (math.inf, ())


def instructions_in(lines: Lines, jobs: JobsOnNodes) -> list[Instruction]:
    """The instructions in these lines, in the order in which they can be carried out."""
    whats, slots, seqs, nodes = (lines[name].tolist() for name in ("what", "job", "seq", "node"))
    live = as_array(jobs.driver.state.jobs)["seq"]
    decided, machines, before = dict[tuple[int, int], dict[int, list[int]]](), list[Instruction](), (-1, -1)
    for at, (what, slot, seq, node) in enumerate(zip(whats, slots, seqs, nodes, strict=True)):
        if slot < 0:
            machines += _of_machine(lines[at])
        elif slot in jobs.job_of and live[slot] == seq:  # else it is over
            of_job = decided.setdefault((seq, slot), {})
            if (what, seq) == before and min(node, nodes[at - 1]) >= 0:
                of_job[what].append(at)
            else:
                of_job[what] = [at]
        before = what, seq
    found = list[JobInstruction]()
    for (_, slot), of_job in sorted(decided.items()):
        found += _of_job(slot, {what: lines[numbers] for what, numbers in of_job.items()}, jobs)
    granted = {one.job for one in found if isinstance(one, Grant)}
    # Exits from grants of the same look come last.
    found.sort(key=lambda one: (isinstance(one, Preempt) and one.job in granted, ORDER.index(type(one))))
    return [*found, *machines]


def _of_machine(line: np.void) -> Iterator[Instruction]:
    number, generation = int(line["node"]), int(line["generation"])
    if line["what"] == RENT:
        yield RentMachine(number, generation, int(line["offer"]))
    elif line["what"] == RELEASE:
        yield ReleaseMachine(number, generation)


def _of_job(slot: int, decided: Mapping[int, Lines], jobs: JobsOnNodes) -> Iterator[JobInstruction]:
    """The instructions about a job; decided: the lines of the last decision of each kind."""
    job = jobs.job_of[slot]
    tasks = jobs.tasks_of[job]

    def places(what: int) -> tuple[Allocation, ...]:
        nodes, counts = decided[what]["node"].tolist(), decided[what]["tasks"].tolist()
        return tuple(map(Allocation, nodes, tasks.units_in(counts)))

    def value(what: int) -> float:
        return float(decided[what]["value"][0])

    if RELEASE in decided:
        yield StopSpeculating(job)
    if RENT in decided:
        jobs.booting.add(job)
        yield _rented(job, decided[RENT][0], jobs)
    if DOUBLE in decided:
        yield Outrun(job, value(DOUBLE))
    if START in decided:
        jobs.promised.pop(job, None)
        yield Grant(job, 0, tasks.units, places(START), tasks.units_each)
    elif BIND in decided:
        owed = decided[BIND][["owed_gpu", "owed_cpu", "owed_memory"]].tolist()
        yield Bind(job, places(BIND), tuple(owed))
    if RESERVE in decided and START not in decided:
        before = jobs.promised.pop(job, NOTHING_PROMISED)
        promise = NOTHING_PROMISED if value(RESERVE) == math.inf else (value(RESERVE), places(RESERVE))
        if promise != before:  # the core makes some again as they were
            yield Reserve(job, *promise)
        if promise != NOTHING_PROMISED:
            jobs.promised[job] = promise
    if MIGRATE in decided:
        expected = None if jobs.rounds is None else jobs.rounds.expected.get(slot)
        yield Migrate(job, places(MIGRATE), value(MIGRATE) == 1.0 and PREEMPT not in decided, expected)
    if PREEMPT in decided:
        yield Preempt(job, value(PREEMPT), jobs.job_of.get(int(decided[PREEMPT]["other"][0])))


def _rented(job: int, line: np.void, jobs: JobsOnNodes) -> Rent:
    offer, count = int(line["offer"]), int(line["count"])
    found = units_on(jobs.tasks_of[job], jobs.asked[job].unit, rooms_of(jobs.offered)[offer], count)
    if found is None:
        raise BetimesError(f"internal: {count} machines are rented for job {job}, and do not hold it")
    units, each = found
    return Rent(job, offer, units, each, float(line["value"]))
