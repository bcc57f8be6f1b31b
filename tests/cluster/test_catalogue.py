"""Catalogues by name: what is in them, and when a name means a file."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from betimes.cluster import Offer, catalogues, read_cluster
from betimes.errors import ClusterError

EVA = Path(__file__).resolve().parents[3] / "shared" / "data" / "eva" / "eva_ec2_instance_types.csv.gz"


def test_all_catalogues_are_clusters_of_offers() -> None:
    assert catalogues() == ["ec2-2023", "ec2-2023-vcpu", "m5"]
    for name in catalogues():
        cluster = read_cluster(name)
        assert cluster.name == name
        assert len(cluster) == 0
        assert len(cluster.offers) > 0


def test_ec2_as_specified() -> None:
    # spec/eva.md, 2.2
    physical, virtual = (
        {offer.type: offer for offer in read_cluster(name).offers} for name in ("ec2-2023", "ec2-2023-vcpu")
    )
    assert len(physical) == 21
    wanted = Offer(
        type="p3.8xlarge",
        family="p3",
        gpu=4.0,
        cpu=16.0,
        memory_gib=244.0,
        usd_per_h=12.24,
        boot_s=37.0,
        setup_s=192.0,
        release_s=1.0,
    )
    assert physical["p3.8xlarge"] == wanted
    assert (virtual["p3.8xlarge"].cpu, virtual["r7i.48xlarge"].cpu) == (32.0, 192.0)
    small, large = physical["c7i.large"], physical["r7i.48xlarge"]
    assert (small.usd_per_h, small.boot_s, small.setup_s) == (0.08925, 7.0, 163.0)
    assert (large.usd_per_h, large.boot_s, large.setup_s) == (12.7008, 12.0, 150.0)
    assert {offer.family for offer in physical.values()} == {"p3", "c7i", "r7i"}
    for name, offer in physical.items():
        assert virtual[name].cpu == 2 * offer.cpu


@pytest.mark.skipif(not EVA.is_file(), reason="Eva's catalogue is not there")
@pytest.mark.parametrize(("name", "cores"), [("ec2-2023", "cpus"), ("ec2-2023-vcpu", "cpus_virtual")])
def test_ec2_as_published(name: str, cores: str) -> None:
    rows = csv.DictReader(gzip.decompress(EVA.read_bytes()).decode().splitlines())
    wanted = tuple(
        Offer(
            type=row["instance_type"],
            family=row["family"],
            gpu=float(row["gpus"]),
            cpu=float(row[cores]),
            memory_gib=float(row["ram_gib"]),
            usd_per_h=float(row["price_usd_per_hour"]),
            boot_s=float(row["instantiate_delay_s"]),
            setup_s=float(row["run_worker_delay_s"]) + float(row["worker_register_delay_s"]),
            release_s=float(row["terminate_delay_s"]),
        )
        for row in rows
    )
    assert read_cluster(name).offers == wanted


def test_m5_as_specified() -> None:
    # spec/waiting.md, A.5
    offers = read_cluster("m5").offers
    assert [offer.cpu for offer in offers] == [2, 4, 8, 16, 32, 48, 64, 96]
    for offer in offers:
        assert offer.memory_gib == 4 * offer.cpu
        assert offer.usd_per_h == pytest.approx(0.048 * offer.cpu, rel=1e-15)
        assert (offer.family, offer.boot_s, offer.min_bill_s, offer.bill_step_s) == ("m5", 0, 0, 0)


FILE = '[[nodes]]\ntype = "own"\ncpu = 4\nmemory_gib = 8\n'


def test_a_name_means_the_catalogue_and_a_path_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m5", "m6", "m5.toml"):
        (tmp_path / name).write_text(FILE)
    assert len(read_cluster("m5").offers) == 8
    for file in ("./m5", str(tmp_path / "m5"), Path("m5"), "m6", "m5.toml"):
        assert [group.type for group in read_cluster(file).groups] == ["own"]


def test_unknown_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ClusterError,
        match=r"there is no catalogue 'ec2-2022' \(did you mean 'ec2-2023' or 'ec2-2023-vcpu'.* catalogues are "
        "ec2-2023, ec2-2023-vcpu, m5; and no file of this name is here",
    ):
        read_cluster("ec2-2022")
    with pytest.raises(ClusterError, match="there is no catalogue 'qqq'; catalogues are"):
        read_cluster("qqq")
    for path in ("./m6", "m6.toml"):
        with pytest.raises(ClusterError, match="cannot be read"):
            read_cluster(path)
