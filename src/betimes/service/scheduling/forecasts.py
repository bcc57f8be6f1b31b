"""The result of a play-out of the present state, in the service's terms: promises, estimates, costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from betimes.kernels import Floats
from betimes.service.engines.messages import Foreseen
from betimes.service.scheduling.node import LOST, Node
from betimes.service.spec.job_spec import JobSpec


@dataclass(frozen=True)
class Forecast:
    """Start and finish of all jobs that wait or run, as of an instant; NaN: never, as things stand."""

    as_of_at: float
    job: list[int] = field(default_factory=list[int])
    start_at: Floats = field(default_factory=lambda: np.empty(0))
    finish_at: Floats = field(default_factory=lambda: np.empty(0))
    waits: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # it holds nothing

    def knows(self, job: int) -> bool:
        """Whether a job was there."""
        return job in self._row

    def times(self, job: int) -> tuple[float | None, float | None]:
        """Start and finish of a job; null: never, as things stand, or the job was not there."""
        row = self._row.get(job)
        if row is None:
            return None, None
        return _known(float(self.start_at[row])), _known(float(self.finish_at[row]))

    def starting_before(self, at: float, most: int) -> tuple[int, list[int]]:
        """How many waiting jobs start before an instant, and the first of them."""
        starts_at, jobs = self._starts
        count = int(np.searchsorted(starts_at, at, side="left"))
        return count, jobs[: min(count, most)].tolist()

    def finishing_at(self, at: float) -> list[int]:
        """The jobs that finish at this instant exactly."""
        ends_at, jobs = self._ends
        first, after = np.searchsorted(ends_at, at, side="left"), np.searchsorted(ends_at, at, side="right")
        return jobs[first:after].tolist()

    @property
    def first_end_at(self) -> float:
        """When the first of them ends; infinity: none does."""
        ends_at = self._ends[0]
        return float(ends_at[0]) if len(ends_at) else math.inf

    def in_order_of_starts(self) -> Iterator[tuple[int, float, float]]:
        """The jobs that start sometime: job, start, finish; NaN: it never finishes."""
        rows = np.flatnonzero(np.isfinite(self.start_at))
        rows = rows[np.lexsort((np.array(self.job, dtype=np.int64)[rows], self.start_at[rows]))]
        jobs = map(self.job.__getitem__, rows.tolist())
        return zip(jobs, self.start_at[rows].tolist(), self.finish_at[rows].tolist(), strict=True)

    def delayed(self, by_s: Mapping[int, float]) -> Forecast:
        """The same with some jobs later, each by so many seconds."""
        delays_s = np.zeros(len(self.job))
        delays_s[[self._row[job] for job in by_s]] = list(by_s.values())
        return replace(self, start_at=self.start_at + delays_s, finish_at=self.finish_at + delays_s)

    def beside(self, times: Mapping[int, tuple[float | None, float | None]]) -> Forecast:
        """The same with start and finish of jobs that were not there, null: never; they hold up no other."""
        columns = np.array([[math.nan if at is None else at for at in each] for each in times.values()])
        start_at, finish_at = columns.reshape(-1, 2).T
        return replace(
            self,
            job=[*self.job, *times],
            start_at=np.append(self.start_at, start_at),
            finish_at=np.append(self.finish_at, finish_at),
            waits=np.append(self.waits, np.zeros(len(times), dtype=np.bool_)),
        )

    @cached_property
    def _row(self) -> dict[int, int]:
        return dict(zip(self.job, range(len(self.job)), strict=True))

    @cached_property
    def _starts(self) -> tuple[Floats, NDArray[np.int64]]:
        return self._sorted(self.start_at, self.waits)

    @cached_property
    def _ends(self) -> tuple[Floats, NDArray[np.int64]]:
        return self._sorted(self.finish_at, np.ones(len(self.job), dtype=np.bool_))

    def _sorted(self, at: Floats, which: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
        """Known instants in order, and their jobs; at one instant by job number."""
        rows = np.flatnonzero(which & np.isfinite(at))
        jobs = np.array(self.job, dtype=np.int64)[rows]
        order = np.lexsort((jobs, at[rows]))
        return at[rows][order], jobs[order]


def forecast(foreseen: Foreseen, as_of_at: float, epoch_at: float, holding: Collection[int]) -> Forecast:
    """A play-out's result, in seconds since 1970; holding: the jobs that hold units when it begins."""
    waits = ~np.fromiter(map(holding.__contains__, foreseen.job), np.bool_, len(foreseen.job))
    return Forecast(as_of_at, foreseen.job, foreseen.start_s + epoch_at, foreseen.finish_s + epoch_at, waits)


def cost_usd(
    spec: JobSpec, run_s: float, nodes: Iterable[Node], speed_on: Callable[[Node], float] = lambda _: 1.0
) -> float | None:
    """Cost of a run on max_units on the nodes on which it is cheapest; null: no price is known.

    run_s: at speed 1. A unit pays for the largest share that it takes of any resource of the node.
    """
    shares, unit = list[float](), spec.unit
    for node in nodes:
        price = node.machine.usd_per_h
        if price is None or node.status == LOST or (demand := unit.amounts_on(node.family)) is None:
            continue
        capacity = node.capacity
        if all(need <= room for need, room in zip(demand, capacity, strict=True)):
            share = max(need / room for need, room in zip(demand, capacity, strict=True) if need > 0)
            shares.append(share * price / speed_on(node))
    return min(shares) * spec.max_units * run_s / 3600.0 if shares else None


def _known(at: float) -> float | None:
    return at if math.isfinite(at) else None
