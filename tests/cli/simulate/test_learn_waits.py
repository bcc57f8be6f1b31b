"""`betimes policy learn-waits` from a trace to a model that a policy uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.workload import to_csv
from tests.cli.conftest import Call
from tests.foresight.waits.fixtures import work

CLUSTER = """
name = "small"

[[nodes]]
type = "own"
count = 2
cpu = 4
gpu = 0
memory_gib = 16

[[offers]]
type = "cloud"
cpu = 8
gpu = 0
memory_gib = 32
usd_per_h = 1.0
"""


@pytest.fixture
def given(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "small.toml").write_text(CLUSTER)
    to_csv(work(2000), tmp_path / "jobs.csv")
    return str(tmp_path / "jobs.csv"), "--cluster", str(tmp_path / "small.toml")


@pytest.mark.slow
def test_a_model_is_made_and_used(betimes: Call, tmp_path: Path, given: tuple[str, ...]) -> None:
    model = tmp_path / "model.npz"
    learnt = betimes(
        "policy", "learn-waits", *given, "--policy", "sww:b=30m", "--out", model, "--json"
    ).json()
    assert learnt["model"] == "boosting"
    assert [at["wait_s"] for at in learnt["mcc"]] == [1800.0, 900.0, 450.0]
    assert 0.0 < learnt["vain_frac"] < 1.0
    text = betimes(
        "policy", "learn-waits", *given, "--policy", "sww:b=30m", "--out", model, "--model", "linear"
    ).out
    assert f"waits=learned,model={model}" in text
    figures = betimes(
        "simulate", *given, "--policy", f"sww:b=30m,waits=learned,model={model}", "--json"
    ).json()
    assert 0.0 < figures["rented_frac"] < 1.0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--policy", "sww:b=30m", "--model", "oracle"), "choose linear, forest, boosting"),
        (("--policy", "sww:b=30m", "--train", "1"), "--train 1: expected a share"),
        (("--policy", "ajw"), "choose sww or compound"),
        (("--policy", "sww:b=30m", "--jobs", "20"), "a model needs 50"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    betimes: Call, tmp_path: Path, given: tuple[str, ...], more: tuple[str, ...], said: str
) -> None:
    refused = betimes("policy", "learn-waits", *given, *more, "--out", tmp_path / "model.npz")
    assert refused.code == 2
    assert said in refused.err
    assert not (tmp_path / "model.npz").exists()
