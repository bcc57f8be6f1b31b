"""What a play-out of the present state says, in the service's words: promises, running estimates, and costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from betimes.kernels import Floats
from betimes.service.engines.messages import Foreseen
from betimes.service.scheduling.engine_job import demand_of
from betimes.service.scheduling.node import LOST, Node
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Estimate


@dataclass
class Forecast:
    """When all jobs that wait or run will start and finish, as of an instant."""

    as_of_at: float
    of: dict[int, tuple[float | None, float | None]] = field(default_factory=dict)  # by job: start, finish

    def estimate(self, job: int, basis: str) -> Estimate | None:
        """The estimate of a job; null: it was not there then."""
        if job not in self.of:
            return None
        start_at, finish_at = self.of[job]
        return Estimate(as_of_at=self.as_of_at, start_at=start_at, finish_at=finish_at, basis=basis)


def forecast(foreseen: Foreseen, as_of_at: float, epoch_at: float) -> Forecast:
    """A play-out's result, in seconds since 1970."""
    starts, finishes = _known(foreseen.start_s + epoch_at), _known(foreseen.finish_s + epoch_at)
    return Forecast(as_of_at, dict(zip(foreseen.job, zip(starts, finishes, strict=True), strict=True)))


def cost_usd(spec: JobSpec, run_s: float, nodes: Iterable[Node]) -> float | None:
    """What a run on max_units costs on the cheapest nodes that can hold its units; null: no price is known.

    A unit pays for the largest share that it takes of any resource of the node.
    """
    demand, shares = demand_of(spec), list[float]()
    for node in nodes:
        price, capacity = node.machine.usd_per_h, node.capacity
        if price is None or node.status == LOST:
            continue
        if all(need <= room for need, room in zip(demand, capacity, strict=True)):
            share = max(need / room for need, room in zip(demand, capacity, strict=True) if need > 0)
            shares.append(share * price)
    return min(shares) * spec.max_units * run_s / 3600.0 if shares else None


def _known(at: Floats) -> list[float | None]:
    """Instants, in seconds since 1970; null: never, as things stand."""
    known = at.astype(object)
    known[~np.isfinite(at)] = None
    return known.tolist()
