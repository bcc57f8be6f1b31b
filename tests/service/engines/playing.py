"""A live engine under a virtual world: submissions of a workload, completions as the jobs' true work has it."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from betimes.service.engines.messages import Decisions, Engine, Grant, Inputs, JobRequest, Preempt
from betimes.twin.pool.virtual_jobs import VirtualJob


@dataclass
class Played:
    start_s: dict[int, float] = field(default_factory=dict)
    finish_s: dict[int, float] = field(default_factory=dict)
    grants: list[tuple[float, int, int]] = field(default_factory=list)
    told: list[tuple[float, int]] = field(default_factory=list)


def play(engine: Engine, jobs: dict[int, VirtualJob], arrivals: list[tuple[float, JobRequest]]) -> Played:
    """All of it, one instant at a time."""
    played, leaving, coming = Played(), dict[int, float](), 0
    ends: list[tuple[float, int]] = []
    order = {wanted.job: at for at, (_, wanted) in enumerate(arrivals)}

    def heed(rounds: list[Decisions]) -> None:
        for one in rounds:
            for move in one.instructions:
                if isinstance(move, Grant):
                    jobs[move.job].hold(move.units, one.at_s)
                    heapq.heappush(ends, (jobs[move.job].finish_at, move.job))
                    played.grants.append((one.at_s, move.job, move.units))
                    if move.units:
                        played.start_s.setdefault(move.job, one.at_s)
                elif isinstance(move, Preempt):
                    jobs[move.job].idle(one.at_s)
                    leaving[move.job] = move.leave_by_s
                    played.told.append((one.at_s, move.job))

    while True:
        while ends and (ends[0][1] in played.finish_s or jobs[ends[0][1]].finish_at != ends[0][0]):
            heapq.heappop(ends)
        end_s = ends[0][0] if ends else math.inf
        come_s = arrivals[coming][0] if coming < len(arrivals) else math.inf
        now = min(end_s, come_s, engine.next_timer_s(), min(leaving.values(), default=math.inf))
        if now == math.inf:
            return played
        what = Inputs()
        while ends and ends[0][0] == now:
            _, job = heapq.heappop(ends)
            if jobs[job].finish_at == now and job not in played.finish_s:
                what.done.append(job)
                played.finish_s[job] = now
        what.done.sort(key=order.__getitem__)
        what.gone = [job for job, at in leaving.items() if at == now]
        for job in what.gone:
            del leaving[job]
            jobs[job].leave(now)
        while coming < len(arrivals) and arrivals[coming][0] == now:
            what.requests.append(arrivals[coming][1])
            coming += 1
        heed(engine.happen(now, what))
