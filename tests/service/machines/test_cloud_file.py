"""Fake clouds from files."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from betimes.errors import ClusterError
from betimes.service.machines import cloud_file
from betimes.service.machines.cloud_file import read_cloud
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.provider import NoCapacity, Offer
from betimes.service.machines.scenario import InstanceType

TYPE = '[[types]]\ntype = "a100"\ncpu = 12\nmemory_gib = 85\n'


def test_the_example_in_the_documentation(tmp_path: Path) -> None:
    path = tmp_path / "cloud.toml"
    path.write_text(textwrap.dedent((cloud_file.__doc__ or "").partition("::")[2]))
    cloud = read_cloud(path)((), {})
    (offer,) = cloud.offers()
    assert offer == InstanceType("a100", 12, 85, 1, 3.67, 8, 60, 0.2, 0.01, 0.1, 120)
    refused = cloud.request(0.0, "a100", 9)
    assert isinstance(refused, NoCapacity)
    assert "9 a100 asked for, 8 of 8 free" in refused.text


def test_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cloud.toml"
    path.write_text(TYPE)
    cloud = read_cloud(path)((), {})
    assert isinstance(cloud, FakeCloud)
    assert cloud.offers() == [InstanceType("a100", 12, 85)]
    assert isinstance(cloud.offers()[0], Offer)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "field types: missing"),
        ("types = []", "field types: is empty"),
        ("x", "not TOML"),
        (TYPE + "cpus = 3", "[[types]] table 1, field cpus: unknown field 'cpus'; did you mean cpu?"),
        ("qouta = 3\n" + TYPE, "field qouta: unknown field 'qouta'; did you mean quota?"),
        (TYPE + TYPE, "[[types]] table 2, field type: a100 is there already, in table 1"),
        (TYPE + "capacity = -1", "[[types]] table 1, field capacity: -1 is too small; give 0 or more"),
        (TYPE + "boot_s = nan", "[[types]] table 1, field boot_s"),
        ('[[types]]\ntype = "a"\ncpu = 4', "[[types]] table 1, field memory_gib: missing"),
        ("types = [3]", "[[types]] table 1, expected a table"),
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
