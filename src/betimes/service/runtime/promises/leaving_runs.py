"""Runs that were told to stop hold their room until they have left, of which a play-out knows nothing.

To a policy for a pool a preempted job has left, and a cancelled one goes on until its end is reported. A promise that
rests on their room is put off until they have left at the latest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from betimes.service.executors.protocol import FORCE_AFTER_S
from betimes.service.scheduling.forecasts import Forecast
from betimes.service.scheduling.job import Job

_SAME_S = 1e-3  # instants of one play-out that are no further apart are one


@dataclass(frozen=True)
class Leaving:
    """Who is leaving and who waits for that, as of an instant."""

    gone_at: dict[int, float] = field(default_factory=dict[int, float])  # by job that ends: when it has left
    room_at: dict[int, float] = field(
        default_factory=dict[int, float]
    )  # by job with a place: when that is free

    @property
    def holds_until_at(self) -> float:
        """Until when this can be said; infinity: until something happens."""
        return min((*self.gone_at.values(), *self.room_at.values()), default=math.inf)

    def put_off(self, found: Forecast) -> Forecast:
        """The forecast with everything later that waits for those who leave, and for those who wait for them."""
        delays: dict[int, float] = {}
        for job, gone_at in self.gone_at.items():
            finish_at = found.times(job)[1]
            if finish_at is not None:
                delays[job] = gone_at - finish_at
        for job, room_at in self.room_at.items():
            start_at = found.times(job)[0]
            if start_at is not None:
                delays[job] = room_at - start_at
        late = {job: delay_s for job, delay_s in delays.items() if delay_s > 0}
        if not late:
            return found
        ends = {
            round(finish_at / _SAME_S): late[job]
            for job in sorted(late, key=lambda job: late[job])
            if (finish_at := found.times(job)[1]) is not None
        }
        for job, start_at, finish_at in found.in_order_of_starts():  # those that it waits for come first
            delay_s = ends.get(round(start_at / _SAME_S), 0.0)
            if delay_s > late.get(job, 0.0) and job not in self.gone_at:
                late[job] = delay_s
                if math.isfinite(finish_at):
                    end = round(finish_at / _SAME_S)
                    ends[end] = max(ends.get(end, 0.0), delay_s)
        return found.delayed(late)


def leaving(jobs: Iterable[Job], now_at: float) -> Leaving:
    """Who leaves now; one that is late already is given until the executor itself ends it, again and again.

    jobs: all, or `Scheduler.leaving_and_next`.
    """
    jobs = list(jobs)
    stopping = {job.job_id: _gone_at(job, now_at) for job in jobs if job.run is not None and job.run.stopping}
    if not stopping:
        return Leaving()
    by_id: Mapping[int, Job] = {job.job_id: job for job in jobs}
    gone_at = {
        job: at for job, at in stopping.items() if (run := by_id[job].run) and run.stopping == "cancelled"
    }
    room_at: dict[int, float] = {}
    for job in jobs:
        if "owed" in (job.binding or {}):
            waited = [at for other, at in stopping.items() if by_id[other].makes_room_for == job.job_id]
        elif job.run is not None and not job.run.launched:
            names = {name for name, _ in job.places}
            waited = [at for other, at in stopping.items() if names & _nodes(by_id[other])]
        else:
            continue
        if waited:
            room_at[job.job_id] = max(waited)
    return Leaving(gone_at, room_at)


def _gone_at(job: Job, now_at: float) -> float:
    by_at = (job.run.stop_by_at if job.run is not None else None) or now_at
    return by_at if by_at > now_at else now_at + FORCE_AFTER_S


def _nodes(job: Job) -> set[str]:
    return {name for name, _ in job.run.places} if job.run is not None else set()
