"""Advice on the service's own recent jobs, ordered in full for a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.foresight.advice import Advice, Period, advise
from betimes.foresight.advice.candidates import Candidates
from betimes.service.machines.machine import Machine
from betimes.service.tuning.process import ReportProgress
from betimes.twin.options import SimulationOptions


@dataclass(frozen=True)
class AdviceOrder:
    """The jobs, the machines, the policy in force, and those that could be put in its place now."""

    period: Period
    options: SimulationOptions
    in_force: str
    fitting: Candidates
    budget_s: float
    not_simulated: tuple[str, ...] = ()

    @property
    def brings(self) -> type[Advice]:
        """The kind of the result."""
        return Advice

    def work(self, stopped: Callable[[], bool], report: ReportProgress) -> Advice:
        """The advice. Raises InputError if the jobs cannot be simulated under the policy in force."""
        found = advise(
            self.period,
            self.options,
            self.in_force,
            self.fitting,
            budget_s=self.budget_s,
            progress=lambda done, of: report({"done": done, "of": of}),
        )
        return found.model_copy(update={"not_simulated": self.not_simulated})


def cluster_of(machines: Iterable[Machine], offers: Iterable[Offer], quota: int | None) -> Cluster:
    """The same machines as the twin takes them. Raises ClusterError."""

    def kind(machine: Machine) -> tuple[object, ...]:
        price = -1.0 if machine.usd_per_h is None else machine.usd_per_h
        sizes = (machine.gpu, machine.cpu, machine.memory_gib)
        return (machine.type, *sizes, price, machine.labels, machine.family)

    groups = tuple(
        NodeGroup(
            alike[0].type,
            len(alike),
            alike[0].gpu,
            alike[0].cpu,
            alike[0].memory_gib,
            alike[0].usd_per_h,
            labels=alike[0].labels,
            family=alike[0].family,
        )
        for alike in (list(same) for _, same in groupby(sorted(machines, key=kind), key=kind))
    )
    return Cluster("the cluster", groups, offers=tuple(offers), quota=quota)
