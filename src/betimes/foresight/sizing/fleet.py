"""The search for the number of owned machines that costs least, with the twin as the judge; and its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from betimes.cluster import Cluster
from betimes.cluster.cluster import MOST_NODES
from betimes.crew import Crew, crew
from betimes.errors import InputError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import summarise
from betimes.outcome.figure import COLOURS, DASHES, drawing
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.processes import Do, Say
from betimes.workload import Workload

PARTS = 8
"""Parts of a range of numbers; the search goes on in the parts next to the best number."""


@dataclass(frozen=True)
class Fleet:
    """The outcome of the workload on one number of owned machines."""

    machines: int
    cost_usd: float
    fixed_usd: float
    on_demand_usd: float
    rented_frac: float  # of the jobs
    wait_mean_h: float
    wait_max_h: float


@dataclass(frozen=True)
class Sizing:
    """All fleets that were tried, by their number of machines; `best` costs least, of equals the smallest."""

    policy: str
    instance_type: str
    fleets: tuple[Fleet, ...]

    @property
    def best(self) -> Fleet:
        """The fleet that costs least."""
        return min(self.fleets, key=lambda fleet: (fleet.cost_usd, fleet.machines))

    def saved_usd(self, fleet: Fleet) -> float | None:
        """Rent saved by each machine added to the next smaller fleet: a mean if several are added.

        None for the smallest fleet.
        """
        at = self.fleets.index(fleet)
        if at == 0:
            return None
        fewer = self.fleets[at - 1]
        return (fewer.on_demand_usd - fleet.on_demand_usd) / (fleet.machines - fewer.machines)


def size_fleet(
    workload: Workload,
    policy: str | ChosenPolicy[NodesPolicy],
    cluster: Cluster,
    *,
    least: int = 1,
    most: int | None = None,
    seed: int = 0,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[Fleet], object] | None = None,
    processes: int | None = 1,
    ray: bool = False,
) -> Sizing:
    """Find how many machines of the cluster's one group to own, from `least` to `most`, so that all cost least.

    most: by default twice as many as the cluster has, and on from there while the largest fleet is the best. The
    range is divided into eight parts, and again around the best number, down to single machines: cost over machines
    has one valley but for chance, and then this is its bottom. Each number is simulated once.
    progress hears each fleet; processes, ray: as of `crew`, the same is found each way. Raises InputError where the
    cluster or the policy leaves nothing to search, or no number can be tried.
    """
    chosen = policy if isinstance(policy, ChosenPolicy) else parse_nodes_policy(policy)
    _check(chosen, cluster, least, most)
    with crew(_simulates, (workload, str(chosen), cluster, seed), processes, ray=ray) as all_hands:
        tried = _Tried(all_hands, warn, progress)
        low, high = least, max(least, 2 * cluster.groups[0].count if most is None else most)
        tried.add(_divided(low, high))
        while most is None and tried.best == high and high < MOST_NODES:
            low, high = high, min(2 * high, MOST_NODES)
            tried.add(_divided(low, high))
        while True:
            numbers = sorted(tried.fleets)
            at = numbers.index(tried.best)
            low, high = numbers[max(0, at - 1)], numbers[min(len(numbers) - 1, at + 1)]
            if not tried.add([*_divided(low, numbers[at]), *_divided(numbers[at], high)]):
                break
    fleets = tuple(tried.fleets[machines] for machines in sorted(tried.fleets))
    return Sizing(str(chosen), cluster.groups[0].type, fleets)


class _Tried:
    """The fleets tried so far, by their number of machines."""

    def __init__(
        self,
        all_hands: Crew,
        warn: Callable[[str], object] | None,
        progress: Callable[[Fleet], object] | None,
    ) -> None:
        self.fleets = dict[int, Fleet]()
        self._crew, self._warn, self._progress = all_hands, warn, progress
        self._said = set[str]()

    @property
    def best(self) -> int:
        """The cheapest number of machines, of equals the smallest."""
        return min(self.fleets, key=lambda machines: (self.fleets[machines].cost_usd, machines))

    def add(self, numbers: Iterable[int]) -> bool:
        """Try those of `numbers` that are new; returns whether there were any."""
        new = [machines for machines in dict.fromkeys(numbers) if machines not in self.fleets]
        for _, fleet in self._crew.answers(new, self._heard):
            self.fleets[fleet.machines] = fleet
            if self._progress is not None:
                self._progress(fleet)
        return bool(new)

    def _heard(self, _: int, note: str) -> None:
        if self._warn is not None and note not in self._said:  # every number gives the same notes
            self._said.add(note)
            self._warn(note)


def _divided(low: int, high: int) -> list[int]:
    """Both ends, and numbers in between at equal distances."""
    parts = max(1, min(PARTS, high - low))
    return [low + (high - low) * part // parts for part in range(parts + 1)]


def _check(chosen: ChosenPolicy[NodesPolicy], cluster: Cluster, least: int, most: int | None) -> None:
    if chosen.policy.wait is None:
        raise InputError(
            f"policy {chosen}: rents no machine for a job that waits too long; choose njw, ajw-t, ljw, sww or compound"
        )
    if len(cluster.groups) != 1:
        raise InputError(
            f"cluster {cluster.name}: expected one group of nodes, found {len(cluster.groups)}; leave the one whose "
            "number is to be found"
        )
    if cluster.groups[0].usd_per_h is None:
        raise InputError(
            f"cluster {cluster.name}, nodes {cluster.groups[0].type}: no usd_per_h is given; without a price any "
            "number of machines is free"
        )
    if not cluster.offers:
        raise InputError(f'cluster {cluster.name}: no machine is on offer; add an offer, or catalogue = "m5"')
    if least < 1:
        raise InputError(f"{least} machines: the smallest fleet has 1 at least")
    if most is not None and most < least:
        raise InputError(f"{least} to {most} machines: the first number must not be above the second")


def _simulates(workload: Workload, policy: str, cluster: Cluster, seed: int) -> Do:
    """A worker's function from a number of machines to the fleet; it reports notes."""
    chosen = parse_nodes_policy(policy)

    def fleet(machines: int, say: Say) -> Fleet:
        sized = replace(cluster, groups=(replace(cluster.groups[0], count=machines),))
        found = summarise(simulate_nodes(workload, chosen, cluster=sized, seed=seed, warn=say))
        names = ("cost_usd", "fixed_usd", "on_demand_usd", "rented_frac", "wait_mean_h", "wait_max_h")
        return Fleet(machines, *(found[name] for name in names))

    return fleet


FILE = "fleet.svg"


def draw(sizing: Sizing, path: str | Path) -> None:
    """Total, owned and rented cost above the mean wait. Raises InputError where it cannot be written."""
    machines = [fleet.machines for fleet in sizing.fleets]
    with drawing(path, 6.4, 6.0) as figure:
        above: Any = figure.add_subplot(2, 1, 1)  # matplotlib's types are too loose
        below: Any = figure.add_subplot(2, 1, 2, sharex=above)
        curves = (("in all", "cost_usd"), ("owned", "fixed_usd"), ("rented", "on_demand_usd"))
        for (name, field), colour, dashes in zip(curves, COLOURS, DASHES, strict=False):
            values = [getattr(fleet, field) for fleet in sizing.fleets]
            above.plot(machines, values, color=colour, linestyle=dashes, label=name)
        above.plot([sizing.best.machines], [sizing.best.cost_usd], "o", color=COLOURS[0])
        above.set_ylim(bottom=0.0)
        above.set_ylabel("cost (USD)")
        above.set_title(sizing.policy)
        above.legend()
        below.plot(machines, [fleet.wait_mean_h for fleet in sizing.fleets], color=COLOURS[0])
        below.set_ylim(bottom=0.0)
        below.set_ylabel("mean wait (h)")
        below.set_xlabel(f"owned machines ({sizing.instance_type})")
