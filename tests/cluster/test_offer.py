"""Offers and clusters of them, made in Python."""

from __future__ import annotations

import math
import pickle

import pytest

from betimes.cluster import Cluster, NodeGroup, Offer, Spot
from betimes.cluster.billing import Billing
from betimes.errors import ClusterError

OFFER = {"type": "a", "cpu": 4.0, "memory_gib": 8.0, "usd_per_h": 2.0}


def offer(**more: object) -> Offer:
    return Offer(**(OFFER | more))  # pyright: ignore[reportArgumentType]


def test_defaults() -> None:
    assert offer() == offer(family="a", gpu=0.0, boot_s=0.0, capacity=None, spot=None, bill_from="boot")
    assert offer().billing == Billing(0.0, 0.0, "boot")
    assert offer(min_bill_s=60.0, bill_step_s=1.0, bill_from="request").billing == Billing(
        60.0, 1.0, "request"
    )
    assert (offer().charged_usd_per_h, offer(spot=Spot(0.25)).charged_usd_per_h) == (2.0, 0.5)
    assert pickle.loads(pickle.dumps(offer(spot=Spot()))) == offer(spot=Spot())
    assert hash(offer()) == hash(offer())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": ""}, "field type: expected a printable name"),
        ({"family": " x"}, "field family: expected a printable name"),
        ({"gpu": -1}, "field gpu: expected a number from 0"),
        ({"cpu": 0.0, "memory_gib": 0.0}, "field cpu: expected a machine with some GPU, cores or memory"),
        ({"usd_per_h": None}, "field usd_per_h: expected a number from 0 .* found None"),
        ({"usd_per_h": math.nan}, "field usd_per_h"),
        ({"boot_s": -1.0}, "field boot_s"),
        ({"setup_s": math.inf}, "field setup_s"),
        ({"release_s": "x"}, "field release_s"),
        ({"notice_s": -0.1}, "field notice_s"),
        ({"boot_sigma": 10.5}, "field boot_sigma"),
        ({"boot_failure_frac": 1.1}, "field boot_failure_frac"),
        ({"min_bill_s": -1}, "field min_bill_s"),
        ({"bill_step_s": -1}, "field bill_step_s"),
        ({"bill_from": "setup"}, "field bill_from"),
        ({"capacity": 0}, "field capacity: expected a whole number of machines from 1"),
        ({"capacity": True}, "field capacity"),
    ],
)
def test_what_no_offer_can_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        offer(**change)
    with pytest.raises(ClusterError, match="field price_factor"):
        Spot(1.5)


def test_clusters_of_offers() -> None:
    cluster = Cluster("c", (), offers=(offer(), offer(type="b")))
    assert cluster
    assert len(cluster) == 0
    assert not cluster.is_pool
    assert cluster.owned_usd(3600.0) == 0
    for needs_nodes in (lambda: cluster.units, lambda: cluster.largest):
        with pytest.raises(ClusterError, match="cluster c: it has offers to rent and no owned nodes"):
            needs_nodes()
    with pytest.raises(ClusterError, match=r"table 2, field type: a is a type of .*table 1 already"):
        Cluster("c", (), offers=(offer(), offer()))
    with pytest.raises(ClusterError, match=r"field type: a is a type of .*nodes.* already"):
        Cluster("c", (NodeGroup("a", 1, 0, 1, 1),), offers=(offer(),))
    with pytest.raises(ClusterError, match="field quota"):
        Cluster("c", (), offers=(offer(),), quota=-1)
    with pytest.raises(ClusterError, match="field seed"):
        Cluster("c", (), offers=(offer(),), seed=2**64)
