"""Where a setting counts from, what is refused, and that what `betimes service config` prints is a file of settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import InputError
from betimes.service.access.pace import Pace
from betimes.service.machines.budgets import Budgets
from betimes.service.spec.groups import Group
from betimes.service.spec.queues import Queue
from betimes.service.spec.tables import Named, parse_tables
from betimes.service.startup.config import SETTINGS, ServiceConfig, Setting, read_settings
from betimes.units import Keep
from tests.cli.conftest import program
from tests.service.serving import PATIENCE_S


def config(state: Path, environ: dict[str, str] | None = None, **flags: object) -> ServiceConfig:
    given = read_settings({"state": str(state), **flags}, environ=environ or {})
    return ServiceConfig(**{at: each.value for at, each in given.items()})


def test_a_flag_counts_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('usual = "3h"\nlease = "1m"\nkeep_events = 86400\n')
    environ = {"BETIMES_UP_USUAL": "2h", "BETIMES_UP_LEASE": "2m", "BETIMES_STATE": "elsewhere"}
    found = config(tmp_path, environ, usual="5m")
    assert (found.default_run_s, found.lease_s, found.keep_events, found.keep_finished_s) == (
        300,
        120,
        Keep(86400),
        None,
    )


def test_what_is_kept_is_an_age_an_amount_or_both(tmp_path: Path) -> None:
    for text, keep in {
        "30d": Keep(30 * 86_400.0),
        "20GiB": Keep(None, 20 << 30),
        "12h, 512MiB": Keep(43_200.0, 512 << 20),
        "never": Keep(),
    }.items():
        assert config(tmp_path, keep_runs=text).keep_runs == keep


def test_requests_are_limited_by_default_and_can_be_unlimited(tmp_path: Path) -> None:
    assert config(tmp_path).rate_limit == Pace(200.0, 2000.0)
    assert config(tmp_path, rate_limit="5").rate_limit == Pace(5.0, 5.0)
    assert config(tmp_path, rate_limit="0.5:10").rate_limit == Pace(0.5, 10.0)
    assert config(tmp_path, rate_limit="off").rate_limit is None


def test_names_of_files_are_those_of_the_folder_of_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "own.toml").touch()
    text = 'policy = "mine.py:best"\npolicy_files = "policies"\ncluster = "own.toml"\n'
    (tmp_path / "config.toml").write_text(text)
    found = config(tmp_path)
    assert found.policy == f"{tmp_path}/mine.py:best"
    assert (found.policy_files, found.cluster) == (tmp_path / "policies", str(tmp_path / "own.toml"))
    (tmp_path / "config.toml").write_text('cloud = "m5"\n')
    assert config(tmp_path).cloud == "m5"


def test_lists_in_each_of_the_ways(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('budget = ["ada=20", "*=5"]\n')
    assert config(tmp_path).budget == Budgets({"ada": {"month": 20.0}, "*": {"month": 5.0}})
    given = config(tmp_path, {"BETIMES_UP_BUDGET": "ada=1,*=2/day"}).budget
    assert given == Budgets({"ada": {"month": 1.0}, "*": {"day": 2.0}})
    assert config(tmp_path, budget=["ada=3"]).budget == Budgets({"ada": {"month": 3.0}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("usual = 0", "config.toml: usual: give a time above 0"),
        ("usual = true", "config.toml: usual: give a text or a number"),
        ("usual = 'soon'", "config.toml: usual: 'soon' is not a duration"),
        ("port = 70000", "config.toml: port: give a whole number from 0 to 65535"),
        ("port = 1.5", "config.toml: port: give a whole number"),
        ("resize_gain = 'maybe'", "config.toml: resize_gain: give true or false"),
        ("ray_share = 2", "config.toml: ray_share: give a fraction above 0 and up to 1"),
        ("[[queues]]\nname = 'a'\nmax_cpu = true", "queue a: field max_cpu: expected a number, found true"),
        (
            "keep_runs = 'ever'",
            "config.toml: keep_runs: 'ever' is neither an age, such as 30d, nor an amount",
        ),
        ("keep_runs = '0d'", "config.toml: keep_runs: give an age and an amount above 0"),
        ("rate_limit = '0'", "config.toml: rate_limit: give a number above 0 and how many at once"),
        ("rate_limit = '5:0.5'", "config.toml: rate_limit: give a number above 0 and how many at once"),
        ("submit_filter_limit = '0.01s'", "submit_filter_limit: give a time of 0.1s to 10m"),
        ("prolog_limit = '1h'", "prolog_limit: give a time of 0.1s to 10m"),
        ("budget = [3]", "config.toml: budget: give a text"),
        ("budget = '50usd'", "config.toml: budget: 50usd: expected USER=USD"),
        ("keep_event = '1d'", r"config.toml: keep_event: no such setting \(did you mean keep_events\?\)"),
        ("state = '/elsewhere'", "config.toml: state: .* leave this out"),
        ("usual = ", "config.toml: cannot be read as TOML: Invalid value"),
        ("ray_open = true", "--ray-share and --ray-open are about a Ray cluster"),
        ("cluster = 'm5'\nnodes = 'x.toml'", "--cluster: --nodes is given too"),
    ],
)
def test_what_a_file_cannot_set(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        config(tmp_path)


def takes_true(setting: Setting) -> bool:
    """Whether true is a value of a setting."""
    try:
        setting.parse(True)
    except ValueError:
        return False
    return True


def test_true_is_no_number_and_no_text() -> None:
    assert [each.name for each in SETTINGS.values() if takes_true(each) and not each.is_switch] == []


@pytest.mark.parametrize("table", [Queue, Group])
def test_true_is_no_number_of_a_table(table: type[Named]) -> None:
    switches = [name for name, field in table.model_fields.items() if field.annotation is bool]
    for name, field in table.model_fields.items():
        if name not in switches:
            with pytest.raises(ValueError, match=r"field \w+: expected "):
                parse_tables(table, [{"name": "a", "users": ["ann"], field.alias or name: True}])


def test_a_variable_that_is_no_setting_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"BETIMES_UP_USUAL_S: no such setting \(did you mean BETIMES_UP_USUAL\?\)"
    ):
        config(tmp_path, {"BETIMES_UP_USUAL_S": "1h"})
    with pytest.raises(InputError, match="BETIMES_UP_LEASE: 'x' is not a duration"):
        config(tmp_path, {"BETIMES_UP_LEASE": "x"})


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.toml: cannot be read: No such file"):
        read_settings({}, tmp_path / "none.toml", {})


def test_options_of_a_replay_are_not_passed_over_without_one(tmp_path: Path) -> None:
    for words in (("--jobs", "3"), ("--speed", "max")):
        refused = program("up", "--service", str(tmp_path), *words)
        assert (refused.code, "name it (--replay TRACE)" in refused.err) == (2, True)


def test_what_is_shown_is_a_file_of_settings(tmp_path: Path) -> None:
    state = str(tmp_path)
    shown = program(
        "service", "config", "--service", state, "--usual", "2h", "--budget", "*=5", BETIMES_UP_LEASE="1m"
    )
    (tmp_path / "config.toml").write_text(shown.out)
    found = program("service", "config", "--service", state, "--json").json()
    assert found["usual"]["value"] == "2h"
    assert found["usual"]["set_by"] == f"{tmp_path}/config.toml: usual"
    assert (found["budget"]["value"], found["lease"]["value"]) == (["*=5"], "1m")
    assert (found["port"]["value"], found["port"]["set_by"]) == ("0", "default")
    refused = program("service", "config", "--service", state, "--usual", "soon")
    assert (refused.code, "--usual: 'soon' is not a duration" in refused.err) == (2, True)


def test_the_settings_of_the_service_that_runs_are_those_it_was_started_with(tmp_path: Path) -> None:
    state = str(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "betimes.cli.main", "up", "--service", state, "--usual", "2h", "--json"],
        env={**os.environ, "BETIMES_UP_LEASE": "1m"},
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stdout is not None
        assert service.stdout.readline(), "it listens"
        (tmp_path / "config.toml").write_text('lease = "9m"\nusual = "9h"\n')
        found = program("service", "config", "--service", state, "--running", "--json").json()
        assert (found["usual"]["value"], found["usual"]["set_by"]) == ("2h", "--usual")
        assert (found["lease"]["value"], found["lease"]["set_by"]) == ("1m", "BETIMES_UP_LEASE")
        assert (tmp_path / "settings.json").stat().st_mode & 0o077 == 0, "it may hold passwords"
        stopped = program("down", "--service", state)
        assert (stopped.code, stopped.out) == (0, f"The service of {state} has stopped.\n")
        assert service.wait(PATIENCE_S) == 0
    refused = program("service", "config", "--service", state, "--running")
    assert (refused.code, "no service runs" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({}, "machines join a Ray cluster; start its head here .*--ray HOST:6379"),
        ({"ray": "auto"}, "by an address that they reach"),
        ({"ray": "127.0.0.1:6379"}, "by an address that they reach"),
        ({"ray": "10.0.0.1:6379"}, "say what there is to rent"),
        ({"ray": "10.0.0.1:6379", "cloud": "m5", "nodes": "a.toml"}, "leave out --ray, or --nodes"),
    ],
)
def test_machines_of_ec2_need_a_cluster_to_join(tmp_path: Path, flags: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        config(tmp_path, fleet="ec2", **flags)


def test_machines_of_scripts_may_join_a_cluster(tmp_path: Path) -> None:
    given: dict[str, Any] = {"fleet": "command:desks", "cloud": "m5"}
    assert config(tmp_path, ray="10.0.0.1:6379", **given).ray == "10.0.0.1:6379"
    with pytest.raises(InputError, match="by an address that they reach"):
        config(tmp_path, ray="auto", **given)
    with pytest.raises(InputError, match="leave out --nodes"):
        config(tmp_path, nodes="a.toml", **given)
