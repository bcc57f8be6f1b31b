"""Fake clouds from files."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from betimes.cluster.offer import Offer, Spot
from betimes.cluster.revocation import Exponential
from betimes.errors import ClusterError
from betimes.service.machines import cloud_file
from betimes.service.machines.cloud_file import read_cloud
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.provider import NoCapacity
from tests.service.machines.kinds import kind

TYPE = '[[types]]\ntype = "a100"\ncpu = 12\nmemory_gib = 85\n'


def test_the_example_in_the_documentation(tmp_path: Path) -> None:
    path = tmp_path / "cloud.toml"
    path.write_text(textwrap.dedent((cloud_file.__doc__ or "").partition("::")[2]))
    cloud = read_cloud(path)((), {})
    (offer,) = cloud.offers()
    assert offer == Offer(
        type="a100",
        cpu=12.0,
        memory_gib=85.0,
        gpu=1.0,
        usd_per_h=3.67,
        capacity=8,
        boot_s=60.0,
        boot_sigma=0.2,
        boot_failure_frac=0.01,
        setup_s=30.0,
        min_bill_s=60.0,
        bill_step_s=1.0,
        spot=Spot(0.4, Exponential(10.0)),
        speeds=(("resnet18", 2.5),),
    )
    assert cloud.prices() == {"a100": 3.67 * 0.4}
    refused = cloud.request(0.0, "a100", 9)
    assert isinstance(refused, NoCapacity)
    assert "9 a100 asked for, 8 of 8 free" in refused.text


def test_the_nodes_of_the_file_are_not_rented(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(
        '[[nodes]]\ntype = "own"\ncpu = 1\nmemory_gib = 1\n'
        '[[offers]]\ntype = "rented"\ncpu = 2\nmemory_gib = 4\nusd_per_h = 1\n'
    )
    assert [offer.type for offer in read_cloud(path)((), {}).offers()] == ["rented"]


def test_a_catalogue() -> None:
    cloud = read_cloud("ec2-2023")((), {})
    assert len(cloud.offers()) == 21
    assert cloud.prices()["p3.2xlarge"] == 3.06


def test_the_form_before(tmp_path: Path) -> None:
    path = tmp_path / "cloud.toml"
    path.write_text(TYPE)
    cloud = read_cloud(path)((), {})
    assert isinstance(cloud, FakeCloud)
    assert cloud.offers() == [kind("a100", 12, 85)]
    path.write_text(
        f"seed = 3\nquota = 2\n{TYPE}gpu = 1\nusd_per_h = 3.6\ncapacity = 8\nboot_s = 60\nboot_sigma = 0.2\n"
        "boot_failure_frac = 0.01\nreclaims_per_h = 0.125\nnotice_s = 30\n"
    )
    more = {"capacity": 8, "boot_s": 60.0, "boot_sigma": 0.2, "boot_failure_frac": 0.01, "notice_s": 30.0}
    assert read_cloud(path)((), {}).offers() == [kind("a100", 12, 85, 1, 3.6, reclaims_per_h=0.125, **more)]
    refused = read_cloud(path)((), {}).request(0.0, "a100", 3)
    assert isinstance(refused, NoCapacity)
    assert refused.why == "quota"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "field nodes: expected at least one table [[nodes]]"),
        ('[[nodes]]\ntype = "a"\ncpu = 1\nmemory_gib = 1', "field offers: there is nothing to rent"),
        ("types = []", "field types: expected at least one table [[types]]"),
        ("types = 3", "field types: expected at least one table [[types]]"),
        ("x", "nor TOML"),
        (TYPE + "cpus = 3", "[[types]] table 1, field 'cpus': unknown (did you mean 'cpu'?)"),
        ("qouta = 3\n" + TYPE, "field 'qouta': unknown (did you mean 'quota'?)"),
        ("quota = -3\n" + TYPE, "field quota: expected a whole number of machines from 0"),
        (TYPE + TYPE, "[[types]] table 2, field type: a100 is a type of [[types]] table 1 already"),
        (
            TYPE + "capacity = -1",
            "[[types]] table 1, field capacity: expected a whole number of machines from 1",
        ),
        (TYPE + "reclaims_per_h = nan", "[[types]] table 1, field reclaims_per_h: expected a number from 0"),
        (TYPE + "reclaims_per_h = 'x'", "[[types]] table 1, field reclaims_per_h: expected a number from 0"),
        (TYPE.replace("types", "offers"), "[[offers]] table 1, field usd_per_h: missing"),
        (
            TYPE.replace("types", "offers") + "usd_per_h = 1\nprice_changes = [{ at_s = 1, usd_per_h = 2 }]",
            "[[offers]] table 1, field price_changes: prices change by the file in simulations only",
        ),
        (
            TYPE.replace("types", "offers") + "usd_per_h = 1\nspeeds = { a = 0 }",
            "[[offers]] table 1, field speeds.a: expected a speed above 0, found 0",
        ),
        (
            TYPE.replace("types", "offers") + "usd_per_h = 1\nspeeds = 2",
            "[[offers]] table 1, field speeds: expected a table of workloads and speeds, found 2",
        ),
        (TYPE + "boot_s = nan", "[[types]] table 1, field boot_s"),
        ('[[types]]\ntype = "a"\ncpu = 4', "[[types]] table 1, field memory_gib: missing"),
        ("types = [3]", "[[types]] table 1: expected a table with type"),
    ],
)
def test_what_cannot_be_a_cloud_is_refused(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "cloud.toml"
    path.write_text(text)
    with pytest.raises(ClusterError) as refused:
        read_cloud(path)
    assert part in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="absent"):
        read_cloud(tmp_path / "absent.toml")
