"""The search finds what trying every number finds, and each number is tried once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import InputError
from betimes.foresight.sizing import Fleet, size_fleet
from betimes.foresight.sizing.fleet import draw
from betimes.workload import Workload

OWN = NodeGroup("own", 4, 0.0, 4.0, 0.0, usd_per_h=0.2, reserved_discount_frac=0.6)
CLOUD = Offer(type="cloud", cpu=4.0, memory_gib=16.0, usd_per_h=0.2)
CLUSTER = Cluster("mixed", (OWN,), offers=(CLOUD,))


def work(jobs: int = 400, load: float = 8.0) -> Workload:
    """Jobs of four cores that keep so many machines busy, in the mean."""
    rng = np.random.default_rng(5)
    run_s = rng.exponential(3600.0, jobs)
    return Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(3600.0 / load, jobs)),
        work_s=4 * run_s,
        min_units=[4] * jobs,
        max_units=[4] * jobs,
        cpu=np.ones(jobs),
    )


@pytest.mark.parametrize("policy", ["njw", "sww:b=1h", "compound:t=15m,b=2h"])
def test_the_best_is_that_of_all_numbers(policy: str) -> None:
    heard = list[Fleet]()
    found = size_fleet(work(), policy, CLUSTER, most=24, progress=heard.append)
    every = [size_fleet(work(), policy, CLUSTER, least=n, most=n).best for n in range(1, 25)]
    assert found.best == min(every, key=lambda fleet: fleet.cost_usd)
    assert sorted(fleet.machines for fleet in heard) == [fleet.machines for fleet in found.fleets]
    assert set(found.fleets) <= set(every)
    assert {found.best.machines - 1, found.best.machines + 1} <= {fleet.machines for fleet in found.fleets}


@pytest.mark.slow
def test_other_processes_find_the_same() -> None:
    heard = list[Fleet]()
    found = size_fleet(work(), "sww:b=1h", CLUSTER, most=24, progress=heard.append, processes=2)
    assert found == size_fleet(work(), "sww:b=1h", CLUSTER, most=24)
    assert sorted(fleet.machines for fleet in heard) == [fleet.machines for fleet in found.fleets]


def test_the_search_goes_on_while_the_largest_fleet_is_the_best() -> None:
    small = replace(CLUSTER, groups=(replace(OWN, count=1),))
    found = size_fleet(work(), "njw", small)
    assert found.best == size_fleet(work(), "njw", CLUSTER, most=24).best
    assert 2 < found.best.machines < found.fleets[-1].machines


def test_a_machine_saves_what_is_rented_less() -> None:
    found = size_fleet(work(), "njw", CLUSTER, most=3)
    one, two, three = found.fleets
    assert found.saved_usd(one) is None
    assert found.saved_usd(three) == two.on_demand_usd - three.on_demand_usd
    assert one.cost_usd == one.fixed_usd + one.on_demand_usd


@pytest.mark.parametrize(
    ("policy", "cluster", "said"),
    [
        ("fifo", CLUSTER, "policy fifo"),
        ("njw", replace(CLUSTER, groups=(OWN, replace(OWN, type="other"))), "found 2"),
        ("njw", replace(CLUSTER, groups=(replace(OWN, usd_per_h=None),)), "no usd_per_h"),
        ("njw", replace(CLUSTER, offers=()), "no machine is on offer"),
    ],
)
def test_what_leaves_nothing_to_search_is_refused(policy: str, cluster: Cluster, said: str) -> None:
    with pytest.raises(InputError, match=said):
        size_fleet(work(10), policy, cluster)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(InputError, match="5 to 4 machines"):
        size_fleet(work(10), "njw", CLUSTER, least=5, most=4)


def test_the_picture(tmp_path: Path) -> None:
    draw(size_fleet(work(50), "njw", CLUSTER, most=3), tmp_path / "fleet.svg")
    assert "<svg" in (tmp_path / "fleet.svg").read_text()
