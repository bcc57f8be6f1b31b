"""The search for the number of owned machines that costs least, with the twin as the judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from betimes.cluster import Cluster
from betimes.cluster.cluster import MOST_NODES
from betimes.errors import InputError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import summarise
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.workload import Workload

PARTS = 8
"""Into which a range of numbers is divided before the search goes on next to the best of them."""


@dataclass(frozen=True)
class Fleet:
    """What came of the workload with so many owned machines."""

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
        """What a machine more than in the fleet before saves on rented ones: the mean where several are added.

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
) -> Sizing:
    """Find how many machines of the cluster's one group to own, from `least` to `most`, so that all cost least.

    most: by default twice as many as the cluster has, and on from there while the largest fleet is the best. The
    range is divided into eight parts, and again around the best number, down to single machines: cost over machines
    has one valley but for chance, and then this is its bottom. Each number is simulated once.
    progress hears each fleet. Raises InputError where the cluster or the policy leaves nothing to search, or no number
    can be tried.
    """
    chosen = policy if isinstance(policy, ChosenPolicy) else parse_nodes_policy(policy)
    _check(chosen, cluster, least, most)
    tried = dict[int, Fleet]()

    def try_out(machines: int) -> None:
        if machines not in tried:
            told = warn if not tried else None
            tried[machines] = _fleet(workload, chosen, cluster, machines, seed, told)
            if progress is not None:
                progress(tried[machines])

    def best() -> int:
        return min(tried, key=lambda machines: (tried[machines].cost_usd, machines))

    low, high = least, max(least, 2 * cluster.groups[0].count if most is None else most)
    _divide(low, high, try_out)
    while most is None and best() == high and high < MOST_NODES:
        low, high = high, min(2 * high, MOST_NODES)
        _divide(low, high, try_out)
    while True:
        numbers = sorted(tried)
        at = numbers.index(best())
        low, high = numbers[max(0, at - 1)], numbers[min(len(numbers) - 1, at + 1)]
        before = len(tried)
        _divide(low, numbers[at], try_out)
        _divide(numbers[at], high, try_out)
        if len(tried) == before:
            break
    fleets = tuple(tried[machines] for machines in sorted(tried))
    return Sizing(str(chosen), cluster.groups[0].type, fleets)


def _divide(low: int, high: int, try_out: Callable[[int], None]) -> None:
    """Try both ends, and numbers in between at equal distances."""
    parts = max(1, min(PARTS, high - low))
    for part in range(parts + 1):
        try_out(low + (high - low) * part // parts)


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


def _fleet(
    workload: Workload,
    chosen: ChosenPolicy[NodesPolicy],
    cluster: Cluster,
    machines: int,
    seed: int,
    warn: Callable[[str], object] | None,
) -> Fleet:
    sized = replace(cluster, groups=(replace(cluster.groups[0], count=machines),))
    found = summarise(simulate_nodes(workload, chosen, cluster=sized, seed=seed, warn=warn))
    return Fleet(
        machines,
        *(
            found[name]
            for name in ("cost_usd", "fixed_usd", "on_demand_usd", "rented_frac", "wait_mean_h", "wait_max_h")
        ),
    )
