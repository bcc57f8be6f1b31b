"""`betimes doctor` where Ray is not installed, and `betimes fleet doctor` without credentials."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call


def test_without_ray_there_is_no_cluster_to_check(betimes: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    (found,) = betimes("doctor", "--json").json()
    assert found["ok"]
    assert "jobs on this machine do not need" in found["text"]


FILE = """
[ec2]
region = "eu-central-1"
image = "ami-1"
subnets = { eu-central-1a = "subnet-1" }
security_groups = ["sg-1"]
[[offers]]
type = "m5.large"
cpu = 2
memory_gib = 8
usd_per_h = 0.115
"""


def test_an_account_of_aws_without_credentials(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    (tmp_path / "aws.toml").write_text(FILE)
    ran = betimes("fleet", "doctor", "--cloud", str(tmp_path / "aws.toml"))
    assert ran.code == 1
    assert "the credentials are missing" in ran.out
    up = betimes(
        "up",
        "--fleet",
        "ec2",
        "--cloud",
        str(tmp_path / "aws.toml"),
        "--ray",
        "10.0.0.1:6379",
        "--state",
        str(tmp_path),
    )
    assert (up.code, up.err.count("\n")) == (2, 1)
    assert "there are no credentials of AWS here" in up.err
    policy = betimes("fleet", "doctor", "--cloud", str(tmp_path / "aws.toml"), "--policy").json()
    assert policy["Version"] == "2012-10-17"
