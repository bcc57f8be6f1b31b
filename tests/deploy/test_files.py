"""The files of `deploy/` fit each other, and the programs that read them take them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from betimes.cli.main import main
from tools.set_up import SECTIONS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def needs(program: str) -> Any:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here")


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=DEPLOY, env=os.environ | variables, capture_output=True, text=True, check=False
    )


def test_services_of_compose_find_each_other() -> None:
    compose = read("compose.yaml")
    services = compose["services"]
    for name, service in services.items():
        for mounted in service.get("volumes", []):
            here = mounted.partition(":")[0]
            assert here in compose["volumes"] or DEPLOY.joinpath(here).is_file(), f"{name}: {mounted}"
        assert set(service.get("depends_on", [])) <= services.keys()
    betimes, prometheus = services["betimes"], services["prometheus"]
    assert DEPLOY.joinpath(betimes["build"]["context"], betimes["build"]["dockerfile"]).is_file()
    assert prometheus["network_mode"] == "service:betimes"
    port = betimes["command"][betimes["command"].index("--port") + 1]
    assert read("prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"] == [
        f"127.0.0.1:{port}"
    ]
    assert f"127.0.0.1:{port}:{port}" in betimes["ports"]
    assert read("prometheus.yml")["rule_files"] == ["alerts.yml"]
    assert read("grafana-sources.yml")["datasources"][0]["url"] == "http://betimes:9090"
    database = services["database"]["environment"]
    assert (
        betimes["environment"]["BETIMES_UP_DATABASE"]
        == f"postgresql://{database['POSTGRES_USER']}@database/betimes"
    )
    assert betimes["environment"]["PGPASSWORD"] == database["POSTGRES_PASSWORD"]


def test_the_container_is_made_of_what_is_there_and_starts_with_options_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert f"/^{SECTIONS['development']}/" in text
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all(ROOT.joinpath(name).exists() for name in kept)
    project = (ROOT / "pyproject.toml").read_text()
    assert set(re.findall(r'^(?:readme = |license-files = \[)"(.+?)"', project, re.M)) <= kept
    (extras,) = re.findall(r"'/src\[(.+)\]'", text)
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras.split(","))

    assert main(["up", "--help-all"]) == 0
    known = capsys.readouterr().out
    (command,) = re.findall(r"^CMD \[(.+)\]$", text, re.M)
    for words in (
        shlex.split(command.replace(",", " ")),
        read("compose.yaml")["services"]["betimes"]["command"],
    ):
        assert words[0] == "up"
        assert all(word in known for word in words if word.startswith("--"))


@needs("docker-compose")
def test_compose_takes_the_file_and_asks_for_a_password() -> None:
    assert run("docker-compose", "-f", "compose.yaml", "config", "-q", POSTGRES_PASSWORD="x").returncode == 0
    refused = run("docker-compose", "-f", "compose.yaml", "config", "-q", POSTGRES_PASSWORD="")
    assert refused.returncode != 0
    assert "see the first lines of compose.yaml" in refused.stderr


@needs("promtool")
def test_prometheus_takes_its_settings_and_rules() -> None:
    checked = run("promtool", "check", "config", "prometheus.yml")
    assert checked.returncode == 0, checked.stderr
    assert "6 rules found" in checked.stdout


CASES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'up{{job="betimes"}}', values: '1x200'}}
      - {{series: 'betimes_ready', values: '1x9 0x190'}}
      - {{series: 'betimes_nodes{{status="lost"}}', values: '0x19 2x180'}}
      - {{series: 'betimes_notifications_total{{outcome="failed"}}', values: '0x29 3x170'}}
      - {{series: 'betimes_database_errors_total{{kind="StoreLocked"}}', values: '0x39 1x160'}}
      - {{series: 'betimes_budget_spent_ratio{{period="month"}}', values: '0.5x49 0.8x150'}}
      - {{series: 'betimes_promises_settled_total{{outcome="kept"}}', values: '0+1x200'}}
      - {{series: 'betimes_promises_settled_total{{outcome="late"}}', values: '0+1x200'}}
    alert_rule_test:
"""
FIRES = {
    "BetimesNotReady": (11, 13),
    "BetimesNodeLost": (20, 22),
    "BetimesNotificationsFail": (29, 31),
    "BetimesDatabaseErrors": (39, 41),
    "BetimesBudgetNearlySpent": (49, 51),
    "BetimesPromisesMissed": (60, 150),
}
"""By alert: a minute at which it does not fire, and one at which it does."""


@needs("promtool")
def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    rules = {rule["alert"]: rule for group in read("alerts.yml")["groups"] for rule in group["rules"]}
    assert rules.keys() == FIRES.keys()
    for name, (quiet, firing) in FIRES.items():
        for minute, fires in ((quiet, False), (firing, True)):
            file = tmp_path / f"{name}-{minute}.yml"
            case = f"      - {{eval_time: {minute}m, alertname: {name}, exp_alerts: []}}\n"
            file.write_text(CASES.format(rules=DEPLOY / "alerts.yml") + case)
            answer = run("promtool", "test", "rules", str(file))
            # With none expected, one that fires is a failure.
            shown = answer.stdout + answer.stderr
            assert (answer.returncode != 0, f'Labels:{{alertname="{name}"' in shown) == (fires, fires), shown
