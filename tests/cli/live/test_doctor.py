"""`betimes doctor` with and without a service, and `betimes fleet doctor` without credentials."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from betimes.service.access import address
from betimes.service.access.unix_users import own_name
from betimes.service.executors.ray.doctor import Finding
from tests.cli.conftest import Call, Tell
from tests.cli.views import health, node


def test_without_a_service_there_is_nothing_wrong(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever Ray is installed, and no cluster runs."""
    monkeypatch.delenv("BETIMES_URL", raising=False)
    (of_service,) = betimes("doctor", "--json", "--service", tmp_path).json()
    assert (of_service["check"], of_service["ok"]) == ("service", True)
    assert "betimes up" in of_service["text"]


def test_a_service_on_no_ray_cluster_needs_none(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examined(address: str, shared: Path | None) -> list[Finding]:
        return [Finding("cluster", None, False, f"{address}: no Ray cluster runs")]

    monkeypatch.setattr("betimes.service.executors.ray.doctor.examine", examined)
    tell(nodes=[node()])
    ran = betimes("doctor")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert "takes jobs" in ran.out
    assert "WRONG: 10.0.0.1:6379: no Ray cluster runs" in betimes("doctor", "--ray", "10.0.0.1:6379").out


def test_where_a_service_is_for_all_users_they_must_be_able_to_run_its_python(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "closed" / "python"))
    monkeypatch.setattr(address, "MACHINE_SOCKET", tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        ran = betimes("doctor", "--service", tmp_path)
    assert ran.code == 1
    said = "".join(ran.out.split())  # lines of any length, whatever the folder's name
    assert f"WRONG:otherusersthan{own_name()}cannotrun{tmp_path}/closed/python" in said


def test_it_shows_what_the_service_has_set_aside(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert betimes("doctor").code == 0
    tell(health=health(notes=["report ended of run 2.1 could not be carried out and is set aside"]))
    ran = betimes("doctor")
    assert ran.code == 1
    assert "WRONG: report ended of run 2.1 could not be carried out" in ran.out


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
        "--service",
        str(tmp_path),
    )
    assert (up.code, up.err.count("\n")) == (2, 1)
    assert "there are no credentials of AWS here" in up.err
    policy = betimes("fleet", "doctor", "--cloud", str(tmp_path / "aws.toml"), "--policy").json()
    assert policy["Version"] == "2012-10-17"
