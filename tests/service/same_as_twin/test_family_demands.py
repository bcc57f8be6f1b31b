"""Jobs that need something else on each family of machines, in the service and in the twin: the same schedule and bill.

The same specifications go to both. Rows of the engine's table are dealt out as jobs come, in the twin all at once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes.cluster import Cluster
from betimes.service.spec.family_demand import FamilyDemand
from betimes.service.spec.job_spec import JobSpec
from tests.service.same_as_twin import test_planners as planners
from tests.service.same_as_twin import test_rents as rents
from tests.service.same_as_twin import test_specifications as specifications
from tests.service.same_as_twin import test_ticks as ticks

FAMILIES = ("slow", "quick")


def in_families(cluster: Cluster) -> Cluster:
    """Every other kind of machines is of the second family."""
    kinds = len(cluster.groups)
    return replace(
        cluster,
        groups=tuple(replace(group, family=FAMILIES[at % 2]) for at, group in enumerate(cluster.groups)),
        offers=tuple(
            replace(offer, family=FAMILIES[at % 2]) for at, offer in enumerate(cluster.offers, kinds)
        ),
    )


def by_family(specs: list[JobSpec], seed: int) -> list[JobSpec]:
    """Two of three need less on the second family: half the cores, or there alone of what they need anywhere."""
    rng = np.random.default_rng(seed)
    found: list[JobSpec] = []
    for spec in specs:
        cpu, choice = float(spec.cpu), int(rng.choice(4, p=[0.33, 0.4, 0.17, 0.1]))
        halved = FamilyDemand(cpu=cpu / 2 * float(rng.choice([0.5, 1.0, 1.5])))
        demand = [
            {},
            {"slow": FamilyDemand(cpu=cpu), "quick": halved},
            {"quick": halved} if spec.rent != "never" else {},
            {"slow": FamilyDemand(cpu=cpu), "elsewhere": FamilyDemand(cpu=0.1)},
        ][choice]
        found.append(spec.model_copy(update={"demand": demand}))
    return found


@pytest.mark.parametrize("policy", ["fitgpp", "conservative"])
def test_on_nodes(policy: str, tmp_path: Path) -> None:
    jobs = specifications.wide(90)
    specs = by_family(specifications.specifications(jobs, 1), 1)
    cluster = in_families(specifications.MIXED)
    specifications.assert_alike(specs, jobs.submit_s, cluster, policy, tmp_path, is_disturbed=True)


@pytest.mark.parametrize("policy", ["njw", rents.POLICIES[8]])
def test_machines_rented_for_one_job(policy: str, tmp_path: Path) -> None:
    specs, submit_s = rents.jobs_of(80, 1, (1, 2, 4), 60.0)
    rents.assert_alike(by_family(specs, 1), submit_s, in_families(rents.MIXED), policy, tmp_path)


@pytest.mark.parametrize("policy", ["odb:order=unicef,placement=worst", "oda"])
def test_machines_rented_at_ticks(policy: str, tmp_path: Path) -> None:
    cluster = in_families(replace(ticks.CLUSTER, offers=(replace(ticks.OFFER, capacity=None),)))
    specs, submit_s = ticks.jobs_of(30, 1)
    ticks.check_alike(by_family(specs, 1), submit_s, policy, cluster, tmp_path)


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        ("no-packing", planners.CLUSTER),
        ("eva:t=1", planners.CLUSTER),
        pytest.param("eva:t=1", planners.MIXED, marks=pytest.mark.slow),
        pytest.param("stratus", planners.CLUSTER, marks=pytest.mark.slow),
        pytest.param("synergy:t=1", planners.CLUSTER, marks=pytest.mark.slow),
    ],
)
def test_planners(policy: str, cluster: Cluster, tmp_path: Path) -> None:
    specs, submit_s = planners.jobs_of(30, 1)
    planners.assert_alike(by_family(specs, 1), submit_s, in_families(cluster), policy, tmp_path)
