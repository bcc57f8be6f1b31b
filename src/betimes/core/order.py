"""The active jobs of a group, kept sorted by (key, seq) in one row of an array.

The jobs lie between a head and a tail that both move, and a change shifts the shorter side. What happens near
the head - a job that runs there finishes, or overtakes its neighbour - costs the number of jobs that hold
units, however many wait behind them.
"""

from __future__ import annotations

from betimes.core.columns import HEAD, TAIL, Ints, Jobs, Queue
from betimes.core.kernel import kernel


@kernel
def goes_before(jobs: Jobs, a: int, b: int) -> bool:
    """Whether job `a` ranks before job `b`: the smaller key, then the earlier submission."""
    key = jobs.key
    return key[a] < key[b] or (key[a] == key[b] and jobs.seq[a] < jobs.seq[b])


@kernel
def first_behind(jobs: Jobs, line: Ints, low: int, high: int, job: int) -> int:
    """The first place in line[low:high] whose job ranks behind `job`."""
    while low < high:
        middle = (low + high) // 2
        if goes_before(jobs, job, line[middle]):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def enter(jobs: Jobs, queue: Queue, job: int) -> None:
    """Put `job` in its place among its group."""
    group = jobs.group[job]
    line = queue.order[group]
    head, tail = queue.ends[group, HEAD], queue.ends[group, TAIL]
    if tail == len(line):
        for place in range(head, tail):
            line[place - head] = line[place]
        head, tail = 0, tail - head
    if head == tail or not goes_before(jobs, job, line[tail - 1]):
        place = tail  # the common case: nobody ranks behind the newcomer
    else:
        place = first_behind(jobs, line, head, tail, job)
    if head > 0 and place - head < tail - place:
        for other in range(head, place):
            line[other - 1] = line[other]
        head -= 1
        place -= 1
    else:
        for other in range(tail, place, -1):
            line[other] = line[other - 1]
        tail += 1
    line[place] = job
    queue.ends[group, HEAD] = head
    queue.ends[group, TAIL] = tail
    queue.demand[group] += jobs.max_units[job]


@kernel
def leave(jobs: Jobs, queue: Queue, job: int) -> None:
    """Take `job` out of its group."""
    group = jobs.group[job]
    line = queue.order[group]
    head, tail = queue.ends[group, HEAD], queue.ends[group, TAIL]
    place = head
    while line[place] != job:
        place += 1
    if place - head < tail - place:
        for other in range(place, head, -1):
            line[other] = line[other - 1]
        queue.ends[group, HEAD] = head + 1
    else:
        for other in range(place, tail - 1):
            line[other] = line[other + 1]
        queue.ends[group, TAIL] = tail - 1
    queue.demand[group] -= jobs.max_units[job]


@kernel
def reach(jobs: Jobs, queue: Queue, group: int, holders: Ints) -> int:
    """The first place behind all jobs of `group` that are among `holders`."""
    missing = 0
    for job in holders:
        if jobs.group[job] == group:
            missing += 1
    line = queue.order[group]
    place = queue.ends[group, HEAD]
    while missing > 0:
        if jobs.units[line[place]] > 0.0:
            missing -= 1
        place += 1
    return place


@kernel
def reorder(jobs: Jobs, queue: Queue, group: int, stop: int) -> None:
    """Restore the order after the keys of the jobs before place `stop` have changed."""
    line = queue.order[group]
    head, tail = queue.ends[group, HEAD], queue.ends[group, TAIL]
    for place in range(head + 1, stop):
        job = line[place]
        other = place
        while other > head and goes_before(jobs, job, line[other - 1]):
            line[other] = line[other - 1]
            other -= 1
        line[other] = job
    # Keys that have grown send jobs behind some whose keys have not changed: the last one first.
    for place in range(stop - 1, head - 1, -1):
        if place + 1 >= tail or goes_before(jobs, line[place], line[place + 1]):
            break
        job = line[place]
        target = first_behind(jobs, line, place + 1, tail, job)
        for other in range(place, target - 1):
            line[other] = line[other + 1]
        line[target - 1] = job
