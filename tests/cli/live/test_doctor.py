"""`betimes doctor` where Ray is not installed."""

from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import Call


def test_without_ray_there_is_no_cluster_to_check(betimes: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    (found,) = betimes("doctor", "--json").json()
    assert found["ok"]
    assert "jobs on this machine do not need" in found["text"]
