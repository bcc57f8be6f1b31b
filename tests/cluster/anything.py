"""Whatever a cluster file may hold: pieces that are nasty, a file of offers, and reading that must not fail."""

from __future__ import annotations

import tempfile
from pathlib import Path

from betimes.cluster import read_cluster
from betimes.errors import ClusterError

OFFERS = """quota = 256
seed = 9
catalogue = "m5"

[[offers]]
type = "vm"
cpu = 8
memory_gib = 32
usd_per_h = 1
min_bill_s = 3600
bill_step_s = 3600
bill_from = "request"
boot_s = 120
capacity = 256

[[offers]]
type = "p3.2xlarge"
family = "p3"
gpu = 1
cpu = 4
memory_gib = 61
usd_per_h = 3.06
boot_s = 22
boot_sigma = 0.5
boot_failure_frac = 0.01
setup_s = 151
release_s = 1
notice_s = 30
spot = { price_factor = 0.25, revocation = "exponential", mean_h = 4 }
"""

NASTY = [
    *b"0|-0|1|1.5|1e308|1e999|nan|inf|-inf|1_000|0x10|+7|9223372036854775808|true|[]|{}|''|\"\"".split(b"|"),
    *b"\xd9\xa1|\xff\xfe|\0|'|#|;|\r|\n|\t|,|=|[[nodes]]|[nodes]|type|a.b|1979-05-27|\x1c5|\xe2\x80\xa8".split(
        b"|"
    ),
    b"9" * 5000,
    b"x" * 300,
]


def read_anything(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz"
        path.write_bytes(content)
        try:
            cluster = read_cluster(path)
        except ClusterError as error:
            message = str(error)
        else:
            assert cluster.capacity.shape == (len(cluster), 3)
            assert (cluster.capacity >= 0).all()
            assert (cluster.capacity.max(axis=1, initial=0) > 0).all()
            assert not cluster.groups or (cluster.total >= cluster.largest).all()
            assert len({offer.type for offer in cluster.offers}) == len(cluster.offers)
            for offer in cluster.offers:
                assert 0 <= offer.charged_usd_per_h <= offer.usd_per_h
                assert all(type(amount) is float for amount in offer.amounts)
            return
    assert "\n" not in message
