"""Waiting policies, slow and obvious, from the specification (A.2 to A.6) and without the core.

`free_times` is the heap of A.12, for jobs of one core that come first come, first served. `simulate` has jobs of
several cores, all options, and follows the events of A.2 one by one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """Times are seconds; `believed` is the run time that the scheduler believes, by default the true one."""

    submit: float
    run: float
    cores: int = 1
    believed: float | None = None

    @property
    def estimate(self) -> float:
        return self.run if self.believed is None else self.believed


@dataclass(frozen=True)
class Rules:
    """A policy with its options, named as on the command line."""

    policy: str
    t: float = 900.0
    b: float = 86_400.0
    lengths: str = "oracle"
    waits: str = "oracle"
    short_uses_owned: bool = True
    length: str = "run_time"
    order: str = "fifo"
    backfill: str = "skip-over"
    placement: str = "best-cores"

    @property
    def knows_short(self) -> bool:
        return self.policy in ("ljw", "compound")

    @property
    def foresees(self) -> bool:
        return self.policy in ("sww", "compound") and self.waits == "oracle"

    @property
    def patience(self) -> float:
        """How long a job waits that is not short."""
        if self.policy in ("ajw-t", "sww", "compound"):
            return self.b
        return 0.0 if self.policy == "njw" else math.inf

    def is_short(self, job: Job) -> bool:
        length = job.run if self.lengths == "oracle" else job.estimate
        if self.length == "core_time":
            length *= job.cores
        return length <= self.t


@dataclass
class Came:
    """What came of a job: its last start, its end, whether that was on a rented machine, and all it had rented."""

    start: float = math.nan
    finish: float = math.nan
    rented: bool = False
    stays: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])


def free_times(jobs: Sequence[Job], machines: int, rules: Rules) -> list[Came]:
    """Jobs of one core, in order of arrival, on machines of one core: a heap of when each machine is free."""
    free, came = [-math.inf] * machines, list[Came]()
    for job in jobs:
        short = rules.knows_short and rules.is_short(job)
        apart = short and not rules.short_uses_owned
        patience = 0.0 if short else rules.patience
        start = max(job.submit, free[0])
        if not apart and start <= job.submit + patience:
            heapq.heapreplace(free, start + job.run)
            came.append(Came(start, start + job.run))
            continue
        at = job.submit if apart or short or rules.foresees else job.submit + patience
        came.append(Came(at, at + job.run, True, [(at, at + job.run)]))
    return came


@dataclass
class Waiter:
    """A job in the queue."""

    number: int
    key: tuple[float, float]
    since: float
    until: float


class Pool:
    """Owned machines of some cores."""

    def __init__(self, machines: int, cores: int) -> None:
        self.idle = [cores] * machines
        self.running = list[tuple[float, int, int]]()  # (finish, job, machine)

    def place(self, cores: int, rule: str) -> int | None:
        fitting = [number for number, idle in enumerate(self.idle) if idle >= cores]
        if not fitting:
            return None
        sign = {"first": 0, "best": 1, "best-cores": 1, "worst": -1}[rule]
        return min(fitting, key=lambda number: (sign * self.idle[number], number))


def simulate(jobs: Sequence[Job], machines: int, cores: int, rules: Rules) -> list[Came]:
    """Every job of the sequence, which is in order of arrival, on machines of so many cores each."""
    pool, came = Pool(machines, cores), [Came() for _ in jobs]
    queue, speculating = list[Waiter](), list[tuple[float, int]]()
    coming, speculated = list(range(len(jobs))), set[int]()

    def join(number: int, now: float) -> None:
        """The job waits from now on, or runs on a rented machine at once."""
        job, patience, apart = jobs[number], rules.patience, False
        asked = rules.knows_short and number not in speculated
        if asked and (rules.lengths == "speculate" or rules.is_short(job)):
            patience, apart = 0.0, not rules.short_uses_owned
        if apart:
            rent(Waiter(number, (0.0, 0.0), now, now), now)
            return
        queue.append(
            Waiter(number, (job.estimate if rules.order == "sjf" else 0.0, number), now, now + patience)
        )

    def rent(waiter: Waiter, now: float) -> None:
        number, at = waiter.number, waiter.since if rules.foresees else now
        job, one = jobs[number], came[number]
        limit = rules.t / job.cores if rules.length == "core_time" else rules.t
        if (
            rules.knows_short
            and rules.lengths == "speculate"
            and number not in speculated
            and job.run > limit
        ):
            one.stays.append((at, at + limit))
            speculating.append((at + limit, number))
            return
        one.start, one.finish, one.rented = at, at + job.run, True
        one.stays.append((at, at + job.run))

    def start_those_that_fit(now: float) -> None:
        for waiter in sorted(queue, key=lambda each: each.key):
            job = jobs[waiter.number]
            machine = pool.place(job.cores, rules.placement)
            if machine is not None:
                queue.remove(waiter)
                pool.idle[machine] -= job.cores
                pool.running.append((now + job.run, waiter.number, machine))
                one = came[waiter.number]
                one.start, one.finish = now, now + job.run
            elif rules.backfill == "strict":
                return

    def expire(now: float) -> None:
        """One after another, each after the starts that the one before it allows."""
        while any(waiter.until <= now for waiter in queue):
            start_those_that_fit(now)
            due = [waiter for waiter in queue if waiter.until <= now]
            if due:
                first = min(due, key=lambda waiter: waiter.number)
                queue.remove(first)
                rent(first, now)

    while coming or speculating or pool.running or queue:
        now = min(
            [finish for finish, _, _ in pool.running]
            + [waiter.until for waiter in queue]
            + [end for end, _ in speculating]
            + [jobs[number].submit for number in coming[:1]]
        )
        if now == math.inf:
            break  # what waits is never served
        for entry in sorted(pool.running):
            if entry[0] <= now:
                pool.running.remove(entry)
                pool.idle[entry[2]] += jobs[entry[1]].cores
        expire(now)
        for entry in sorted(speculating, key=lambda each: each[1]):
            if entry[0] <= now:
                speculating.remove(entry)
                speculated.add(entry[1])
                join(entry[1], now)
        while coming and jobs[coming[0]].submit <= now:
            join(coming.pop(0), now)
        start_those_that_fit(now)
        expire(now)
    return came
