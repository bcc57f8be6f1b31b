"""What runs hold of nodes in truth: a run that is told to stop holds it until nothing of it is left."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from betimes.cluster.resources import Amounts
from betimes.service.scheduling.decisions.engine_job import demand_of, held_by
from betimes.service.scheduling.jobs.job import Job, Places
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.runs.run_reports import RunId
from betimes.service.spec.job_spec import JobSpec


@dataclass
class _Holding:
    spec: JobSpec
    places: Places
    amounts: list[tuple[str, Amounts]]  # of each of these nodes


class Occupancy:
    """Runs on nodes, as the executors have them."""

    def __init__(self, ledger: Ledger) -> None:
        self.nodes = ledger.nodes
        self.holdings: dict[RunId, _Holding] = {}
        self.used: dict[str, Amounts] = {}
        self._runs: defaultdict[str, dict[RunId, None]] = defaultdict(
            dict
        )  # by node, in the order of `holdings`
        for job in ledger.jobs.values():
            if job.run is not None and job.run.launched:
                holding = self._holding(job.spec, job.run.places, job.units_per_task)
                self._take(RunId(job.job_id, job.run.number), holding)

    def free_on(self, name: str) -> Amounts:
        """What a node has left; below zero nowhere, unless it has shrunk."""
        (gpu, cpu, memory), used = self.nodes[name].capacity, self.used.get(name, (0, 0, 0))
        return gpu - used[0], cpu - used[1], memory - used[2]

    def runs_on(self, name: str) -> list[RunId]:
        """The runs that hold something of a node."""
        return list(self._runs.get(name, ()))

    def reserve(self, run: RunId, job: Job) -> Places | None:
        """Take what a run needs, where the policy has put it; null: others have not left all of that yet."""
        holding = self._holding(job.spec, job.places, job.units_per_task)
        if any(most(self.free_on(name), amounts, 1) < 1 for name, amounts in holding.amounts):
            return None
        self._take(run, holding)
        return job.places

    def resize(self, run: RunId, job: Job, at_once: bool) -> Places | None:
        """Let a run of a pool hold what the policy gives it now; null: others have not left all of that yet.

        What it is to give up it holds until `hold`, unless it is known to do so at once.
        """
        holding = self.holdings[run]
        had, demand = dict(holding.places), demand_of(job.spec)
        for name, held in job.places:
            more = held - had.get(name, 0)
            if more > 0 and most(self.free_on(name), demand, more) < more:
                return None
        now = dict(job.places)
        both = [(name, max(had.get(name, 0), now.get(name, 0))) for name in {**had, **now}]
        self.hold(run, job.places if at_once else both)
        return job.places

    def hold(self, run: RunId, places: Places) -> None:
        """A run holds these places, and no others any more."""
        holding = self.holdings[run]
        self.release(run)
        self._take(run, self._holding(holding.spec, places))

    def release(self, run: RunId) -> None:
        """Nothing of a run is left."""
        holding = self.holdings.pop(run, None)
        if holding is None:
            return
        self._count(holding, -1)
        for name, _ in holding.places:
            self._runs[name].pop(run, None)
            if not self._runs[name]:
                del self._runs[name]

    def _holding(self, spec: JobSpec, places: Places, units_per_task: int = 1) -> _Holding:
        return _Holding(spec, places, held_by(spec, places, units_per_task, self.nodes))

    def _take(self, run: RunId, holding: _Holding) -> None:
        self.holdings[run] = holding
        self._count(holding, 1)
        for name, _ in holding.places:
            self._runs[name][run] = None

    def _count(self, holding: _Holding, sign: int) -> None:
        for name, amounts in holding.amounts:
            gpu, cpu, memory = self.used.get(name, (0, 0, 0))
            self.used[name] = (gpu + sign * amounts[0], cpu + sign * amounts[1], memory + sign * amounts[2])


def most(free: Amounts, demand: Amounts, limit: int) -> int:
    """How many units, at most so many, fit into what is free."""
    return max(0, min([limit, *(room // need for room, need in zip(free, demand, strict=True) if need > 0)]))
