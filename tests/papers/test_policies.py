"""The policies that this package adds by entry points, in the simulator and in the service."""

from __future__ import annotations

import pytest

from betimes import Cluster, plugins
from betimes.cluster import NodeGroup, Offer
from betimes.errors import PolicyError
from betimes.policies import parse_nodes_policy
from betimes.service.engines.named_policies import check_live, is_compiled
from betimes.testing import InMemoryService

NAMES = plugins.OF_PAPERS[plugins.POLICIES]
OFFER = Offer(type="c4", cpu=4, memory_gib=16, usd_per_h=0.2, boot_s=30.0)
OWNED = Cluster("owned", (NodeGroup("own", 1, 0, 2, 8),))
RENTED = Cluster("rented", (), offers=(OFFER,))


def test_betimes_knows_which_policies_the_package_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    added = plugins.added(plugins.POLICIES)
    assert {name for name, entry in added.items() if plugins.package_of(entry) == plugins.PAPERS} == {*NAMES}
    assert [parse_nodes_policy(name).policy.name for name in NAMES] == [*NAMES]
    monkeypatch.setattr(plugins, "added", lambda _: {})
    for name in NAMES:
        with pytest.raises(PolicyError) as error:
            parse_nodes_policy(f"{name}:period=60")
        assert str(error.value) == (
            f"unknown policy '{name}': it is in the package betimes-papers, which is not installed; "
            "`pip install betimes-papers`"
        )


@pytest.mark.parametrize("policy", ["stratus", "synergy"])
def test_planners_rent_live(policy: str) -> None:
    with InMemoryService(RENTED, policy=policy) as service:
        jobs = [service.submit(command=["x"], cpu=2.0, estimate_s=100.0, work_s=100.0) for _ in range(2)]
        service.finish()
        assert [service.job(each.job_id).job.finished_at for each in jobs] == [130.0, 230.0]
        assert [event.data["type"] for event in service.events(kinds=["ordered"])] == ["c4"]


def test_owl_is_refused_live_where_interference_is_not_known() -> None:
    with pytest.raises(PolicyError, match="policy owl: it has to know how tasks slow each other"):
        check_live("owl", (OFFER,))


def test_victims_are_chosen_live() -> None:
    """Of two jobs of one core the one that has longest to go makes room for a trial job."""
    with InMemoryService(OWNED, policy="lrtp") as service:
        short, long = (
            service.submit(command=["x"], cpu=1.0, estimate_s=work_s, work_s=work_s).job_id
            for work_s in (500.0, 900.0)
        )
        service.advance(10.0)
        service.submit(command=["x"], cpu=1.0, estimate_s=20.0, work_s=20.0, qos="trial")
        service.finish()
        assert [service.job(each).job.preemptions for each in (short, long)] == [0, 1]
    assert is_compiled("nodes:lrtp")
