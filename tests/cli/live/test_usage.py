"""`betimes usage` and `betimes efficiency`: what is asked, and what is printed."""

from __future__ import annotations

import pytest

from betimes.service.api.examples import EFFICIENCY, USAGE
from tests.cli.conftest import Call, Tell


def test_what_was_used(betimes: Call, tell: Tell) -> None:
    tell(usage=USAGE)
    said = betimes("usage", "--since", "7d", "--by", "user")
    assert [line.split() for line in said.out.splitlines()[-3:]] == [
        ["ada", "120", "310.5", "1,242.0", "310.5", "$186.30", "9", "min", "$12.40"],
        ["(boot,", "idle,", "rest", "of", "a", "paid", "step)", "$1.60", "$1.60"],
        ["all", "120", "310.5", "1,242.0", "310.5", "$187.90", "9", "min", "$14.00"],
    ]
    assert tell.asked == [("usage", 604_800.0, 0.0, "user", None)]
    tell(usage=USAGE.model_copy(update={"by": None, "groups": []}))
    assert betimes("usage", "--csv").out == (
        "group,jobs,unit_h,core_h,gpu_h,cost_usd,mean_wait_s,rented_usd\nall,120,310.5,1242.0,310.5,187.9,540.0,14.0\n"
    )
    assert betimes("usage", "--json").json()["total"]["core_h"] == 1242.0


def test_less_than_an_hour_is_shown_in_minutes(betimes: Call, tell: Tell) -> None:
    short = USAGE.total.model_copy(update={"unit_h": 0.2, "core_h": 0.01, "gpu_h": 0.0})
    tell(usage=USAGE.model_copy(update={"total": short}))
    line = betimes("usage").out.splitlines()[-1].split()
    assert line[:7] == ["all", "120", "12", "min", "36", "s", "0.0"]


def test_what_users_had_of_late(betimes: Call, tell: Tell) -> None:
    (ada,) = USAGE.groups
    shared = ada.model_copy(update={"recent_frac": 0.704, "share_frac": 0.5})
    owned = USAGE.total.model_copy(update={"rented_usd": None})
    tell(usage=USAGE.model_copy(update={"groups": [shared], "total": owned, "unused_usd": None}))
    said = betimes("usage", "--by", "user")
    assert [line.split()[8:] for line in said.out.splitlines()[-2:]] == [["70%", "50%"], []]
    assert betimes("usage", "--by", "user", "--json").json()["groups"][0]["recent_frac"] == 0.704


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--since", "1h", "--until", "2h"], "--since 1h: the period ends (2h ago) before it begins"),
        (["--csv", "--json"], "--csv: --json is given as well"),
    ],
)
def test_what_cannot_be_asked(betimes: Call, words: list[str], why: str) -> None:
    said = betimes("usage", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"betimes: {why}")


def test_what_a_job_used(betimes: Call, tell: Tell) -> None:
    tell(efficiency=EFFICIENCY)
    said = betimes("efficiency", "41")
    assert said.out.splitlines() == [
        "Job 41",
        "  ran        2 h",
        "  cores      25% of 16 h of core time",
        "  memory     3.1 GiB of 16 GiB",
        "  next time  --cpu 3 --memory 3.75GiB",
    ]
    assert tell.asked == [("efficiency", 41)]
    assert betimes("efficiency", "41", "--json").json()["advice"] == ["--cpu 3", "--memory 3.75GiB"]
