"""Groups of users on the command line, in Betimes's words and as Slurm's accounts."""

from __future__ import annotations

import json

import pytest

from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.groups import parse_groups
from tests.cli.conftest import Call, Slurm
from tests.service.serving import Background

SERVES = {
    "settings": Settings(
        groups=parse_groups(
            [
                {
                    "name": "physics",
                    "users": ["ann", "bob"],
                    "weight": 3,
                    "max_running_jobs": 2,
                    "usd_per_day": 5,
                },
                {"name": "biology", "users": ["ada"], "max_time": "1d"},
            ]
        ),
        half_life_s=1e6,
    ),
}


@pytest.fixture
def used(betimes: Call, live: Background) -> None:
    betimes("users", "add", "ann", "--weight", "2", "--max-running-jobs", "7")
    betimes("submit", "--estimate", "1h", "--", "true")
    live.it.pass_time(30.0)


@pytest.mark.usefixtures("used")
def test_groups_are_listed_with_what_they_have(betimes: Call) -> None:
    physics, biology = json.loads(betimes("users", "groups", "--json").out)
    assert (physics["users"], physics["weight"], physics["max_running_jobs"]) == (["ann", "bob"], 3.0, 2)
    assert (physics["held"]["running_jobs"], biology["held"]["running_jobs"]) == (0, 1)
    assert [(each["period"], each["budget_usd"]) for each in physics["spent"]] == [
        ("day", 5.0),
        ("month", None),
    ]
    shown = betimes("users", "groups").out
    assert [word for word in ("physics", "ann, bob", "0 of 2", "biology") if word in shown] == [
        "physics",
        "ann, bob",
        "0 of 2",
        "biology",
    ]
    assert "biology" in betimes("usage", "--by", "group").out


@pytest.mark.usefixtures("used")
def test_accounts_are_groups_as_slurm_lists_them(slurm: Slurm) -> None:
    assert slurm("sacctmgr", "-n", "-s", "list", "user", "bob", "format=account%256").out.split() == [
        "physics"
    ]
    assert (
        slurm("sacctmgr", "-nP", "show", "account").out
        == "physics|physics|physics\nbiology|biology|biology\n"
    )
    assert slurm(
        "sacctmgr", "-P", "show", "assoc", "format=account,user,share,grpjobs,maxjobs,maxwall"
    ).out == (
        "Account|User|Share|GrpJobs|MaxJobs|MaxWall\n"
        "physics||3|2||\nphysics|ann|2||7|\nphysics|bob|1|||\nbiology||1|||1-00:00:00\nbiology|ada|1|||\n"
    )
    assert slurm("sacctmgr", "-nP", "show", "assoc", "where", "user=ada", "format=account").out == "biology\n"
    assert slurm("sacctmgr", "-n", "show", "qos").out == ""


@pytest.mark.usefixtures("used")
def test_shares_are_shown_as_slurm_shows_them(slurm: Slurm) -> None:
    heads, rule, *rows = slurm("sshare").out.splitlines()
    assert heads.split() == [
        "Account",
        "User",
        "RawShares",
        "NormShares",
        "RawUsage",
        "EffectvUsage",
        "FairShare",
    ]
    assert set(rule) == {"-", " "}
    assert [row.split()[0] for row in rows] == ["physics"] * 3 + ["biology"] * 2
    account, user, weight, share, used_s, recent, fair = rows[-1].split()
    assert (account, user, weight, share, recent) == ("biology", "ada", "1", "1.000000", "1.000000")
    assert (int(used_s), fair) == (30, "0.500000")
    assert slurm("sshare", "-U", "--format", "Account%256", "--noheader").out.split() == ["biology"]
    assert "format=nonsense: is not known" in slurm("sshare", "-o", "nonsense").err
