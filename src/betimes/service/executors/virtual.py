"""Jobs that only take time, on a virtual clock: they replay a trace on the real service.

A job's true work is in its environment, where the scheduler does not look: `VIRTUAL_WORK_S`, seconds on one unit, and
`VIRTUAL_SPEEDS`, its speed-ups on 1, 2, ... units (linear without). Without `VIRTUAL_WORK_S` it takes what its user has
estimated, or a minute on one unit.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from betimes.service.executors.protocol import Launch, Listener, Place
from betimes.service.scheduling.events import Ended, Report, RunId, Signalled, Started
from betimes.service.scheduling.job import NODE_GOES, SPECULATED
from betimes.twin.pool.virtual_jobs import VirtualJob

WORK = "VIRTUAL_WORK_S"
SPEEDS = "VIRTUAL_SPEEDS"
EXIT_CODE = "VIRTUAL_EXIT_CODE"
DEFAULT_WORK_S = 60.0


@dataclass
class _Stay:
    run: RunId
    exit_code: int
    began_at: float
    leaves_at: float = math.inf
    limit_at: float = math.inf
    discards: bool = False  # its work is lost when it leaves
    moves: bool = False  # its job starts anew
    speed: float = 1.0  # of its nodes


class VirtualWorld:
    """Runs on virtual nodes; the caller gives the time.

    at_once: a job that loses its units has left at once, and has lost nothing if it gets them back at that instant,
    as in a pool; else it keeps its nodes for its grace period.
    """

    def __init__(self, restart_s: float = 0.0, at_once: bool = False, epoch_at: float = 0.0) -> None:
        self.restart_s, self.at_once, self.epoch_at = restart_s, at_once, epoch_at
        self.jobs: dict[int, VirtualJob] = {}
        self.stays: dict[int, _Stay] = {}
        self.due: list[tuple[float, int, int]] = []  # when, the job, the run
        self.reports: list[Report] = []

    def start(self, launch: Launch, now_at: float) -> None:
        """A run begins; a second time for the same one nothing happens."""
        run = launch.run
        stay = self.stays.get(run.job)
        if stay is not None and stay.run == run:
            return
        job = self.jobs.get(run.job)
        if job is None:
            work_s, speed = _truth(launch)
            # On nodes, as in the twin, in seconds at the job's width, so that rounding is the same.
            if not self.at_once:
                width = speed[launch.units]
                work_s, speed = work_s / width, _over(width, speed)
            job = self.jobs[run.job] = VirtualJob(work_s, speed, self.restart_s)
        limit_at = now_at + launch.time_limit_s if launch.time_limit_s is not None else math.inf
        exit_code = int(launch.env.get(EXIT_CODE, "0"))
        self.stays[run.job] = _Stay(run, exit_code, now_at, limit_at=limit_at, speed=launch.speed)
        self._hold(run, launch.units, now_at)
        self.reports.append(Started(run, now_at))

    def stop(self, run: RunId, grace_s: float, now_at: float) -> None:
        """Stop a run: it does no more work, and has left when its grace period is over."""
        stay = self.stays.get(run.job)
        if stay is None or stay.run != run or stay.leaves_at < math.inf:
            return
        job = self.jobs[run.job]
        stay.leaves_at = now_at + (0.0 if self.at_once else grace_s)
        if self.at_once and stay.moves:
            job.leave(self._s(now_at))
        elif self.at_once:
            job.hold(0, self._s(now_at))
        else:
            job.idle(self._s(now_at))
        heapq.heappush(self.due, (stay.leaves_at, run.job, run.number))

    def note_stop(self, run: RunId, why: str) -> None:
        """Why a run is about to be stopped, as in `scheduling.run_ends.STOPS`.

        After speculation its work is lost; where its node goes it starts anew, also with as many units at this instant.
        """
        stay = self.stays.get(run.job)
        if stay is not None and stay.run == run:
            stay.discards, stay.moves = why == SPECULATED, why == NODE_GOES

    def resize(self, run: RunId, units: int, now_at: float) -> bool:
        """A run works on so many units from now on."""
        stay = self.stays.get(run.job)
        if stay is None or stay.run != run or stay.leaves_at < math.inf:
            return False
        self._hold(run, units, now_at)
        return True

    def limit(self, run: RunId, time_limit_s: float) -> None:
        """A run has another time limit, from its start."""
        stay = self.stays.get(run.job)
        if stay is not None and stay.run == run and stay.leaves_at == math.inf:
            stay.limit_at = stay.began_at + time_limit_s
            heapq.heappush(self.due, (self._ends_at(self.jobs[run.job], stay), run.job, run.number))

    def suspend(self, run: RunId, now_at: float) -> None:
        """A run does no work until `resume`, and its time limit waits."""
        stay = self.stays.get(run.job)
        if stay is not None and stay.run == run and stay.leaves_at == math.inf:
            self.jobs[run.job].idle(self._s(now_at))
            stay.limit_at = math.inf

    def resume(self, run: RunId, time_limit_s: float | None, now_at: float) -> None:
        """A suspended run goes on, with this time limit from its start."""
        stay = self.stays.get(run.job)
        if stay is not None and stay.run == run and stay.leaves_at == math.inf:
            stay.limit_at = math.inf if time_limit_s is None else stay.began_at + time_limit_s
            self._hold(run, self.jobs[run.job].units, now_at)

    def forget(self, run: RunId, now_at: float, *, discards: bool = False) -> None:
        """The run's node has vanished, and the run with it; discards: its work is lost."""
        stay = self.stays.get(run.job)
        if stay is not None and stay.run == run:
            job = self.jobs[run.job]
            if discards:
                job.lose_run(self._s(now_at))
            else:
                job.leave(self._s(now_at))
            del self.stays[run.job]

    def next_at(self) -> float:
        """The instant of the next report; infinity: nothing happens by itself."""
        if self.reports:
            return self.reports[0].at_s
        while self.due and not self._holds(self.due[0]):
            heapq.heappop(self.due)
        return self.due[0][0] if self.due else math.inf

    def take_starts(self) -> list[Report]:
        """The reports of runs that have begun since the last call."""
        reports, self.reports = self.reports, []
        return reports

    def advance(self, now_at: float) -> list[Report]:
        """The reports until now."""
        reports = self.take_starts()
        while self.next_at() <= now_at:
            at, number, _ = heapq.heappop(self.due)
            stay, job = self.stays.pop(number), self.jobs[number]
            if at == stay.leaves_at:
                if stay.discards:
                    job.lose_run(self._s(at))
                elif not self.at_once:
                    job.leave(self._s(at))
                reports.append(Ended(stay.run, at, 0, why="stopped"))
            elif at == stay.limit_at:
                job.leave(self._s(at))
                reports.append(
                    Ended(stay.run, at, None, 15, why="time-limit", message="it reached its time limit")
                )
            else:
                del self.jobs[number]
                reports.append(Ended(stay.run, at, stay.exit_code))
        return reports

    def progress_frac(self, run: RunId, now_at: float) -> float | None:
        """The progress of a run; null: it is not there."""
        stay = self.stays.get(run.job)
        return (
            self.jobs[run.job].progress_frac(self._s(now_at))
            if stay is not None and stay.run == run
            else None
        )

    def _hold(self, run: RunId, units: int, now_at: float) -> None:
        job, stay = self.jobs[run.job], self.stays[run.job]
        job.hold(units, self._s(now_at), stay.speed)
        heapq.heappush(self.due, (self._ends_at(job, stay), run.job, run.number))

    def _ends_at(self, job: VirtualJob, stay: _Stay) -> float:
        return min(job.finish_at + self.epoch_at, stay.limit_at)

    def _holds(self, due: tuple[float, int, int]) -> bool:
        """Whether a due report still holds."""
        at, number, run = due
        stay = self.stays.get(number)
        if stay is None or stay.run.number != run:
            return False
        return at == stay.leaves_at or (
            stay.leaves_at == math.inf and at == self._ends_at(self.jobs[number], stay)
        )

    def _s(self, at: float) -> float:
        return at - self.epoch_at


class VirtualExecutor:
    """The world as an executor: the service calls it, the clock's driver asks it."""

    def __init__(self, world: VirtualWorld, now: Callable[[], float], listener: Listener) -> None:
        self.world, self.now, self.listener = world, now, listener

    async def start(self, launch: Launch) -> None:
        """Start a run."""
        self.world.start(launch, self.now())

    async def signal(self, run: RunId, number: int, to: Signalled) -> None:
        """Nothing: a job that only takes time has no process."""

    async def stop(self, run: RunId, grace_s: float) -> None:
        """Stop a run."""
        self.world.stop(run, grace_s, self.now())

    async def limit(self, run: RunId, time_limit_s: float) -> None:
        """Give a run another time limit."""
        self.world.limit(run, time_limit_s)

    async def suspend(self, run: RunId) -> None:
        """Let a run do nothing for now."""
        self.world.suspend(run, self.now())

    async def resume(self, run: RunId, time_limit_s: float | None) -> None:
        """Let a suspended run go on."""
        self.world.resume(run, time_limit_s, self.now())

    async def resize(self, run: RunId, units: int, places: tuple[Place, ...]) -> bool:
        """Let a run work on so many units."""
        return self.world.resize(run, units, self.now())

    async def drop(self, run: RunId) -> None:
        """Nothing is left: the world has forgotten the run."""

    async def adopt(self, launches: Sequence[Launch]) -> None:
        """Report runs that ended with an earlier service as lost; they are started again."""
        for launch in launches:
            if launch.run.job not in self.world.stays:
                self.listener(
                    Ended(
                        launch.run, self.now(), None, why="node-lost", message="the virtual world has ended"
                    )
                )

    async def close(self) -> None:
        """Nothing to watch."""


# Jobs that are alike share their speeds: of each of many thousand that run they would take 30 kB.
@lru_cache(1000)
def _linear(units: int) -> tuple[float, ...]:
    """Speeds on 0, 1, ... units."""
    return tuple(float(number) for number in range(units + 1))


@lru_cache(1000)
def _over(width: float, speeds: tuple[float, ...]) -> tuple[float, ...]:
    """Speeds relative to that of a width."""
    return tuple(each / width for each in speeds)


def _truth(launch: Launch) -> tuple[float, tuple[float, ...]]:
    """A job's work on one unit, s, and its speed on 0, 1, 2, ... units."""
    speeds = [float(speed) for speed in launch.env.get(SPEEDS, "").split(",") if speed]
    speed = (0.0, *speeds) if speeds else _linear(max(launch.units, launch.max_units, 1024))
    if WORK not in launch.env and launch.estimate_s is not None:
        return launch.estimate_s * speed[min(launch.max_units, len(speed) - 1)], speed
    return float(launch.env.get(WORK, DEFAULT_WORK_S)), speed
