"""`betimes service`: the unit, and what systemd is asked; a script stands in for systemctl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Call

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
    *--property=Version) echo "Version={version}" ;;
    *--property=MainPID) echo MainPID=0 ;;
    *show*) printf 'ActiveState=active\\nSubState=running\\nMainPID=41\\nNRestarts=0\\nResult=success\\n' ;;
esac
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    return tmp_path


def systemctl(home: Path, monkeypatch: pytest.MonkeyPatch, version: str = "255.4-1") -> Path:
    """Its calls, in a file."""
    (home / "bin").mkdir()
    (home / "bin" / "systemctl").write_text(SYSTEMCTL.format(calls=home / "calls", version=version))
    (home / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    return home / "calls"


def test_a_unit_is_written_started_and_removed(
    betimes: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, unit = systemctl(home, monkeypatch), home / "config/systemd/user/betimes.service"
    monkeypatch.setenv("BETIMES_UP_BUDGET", "5usd/day,ann=50")
    said = betimes("service", "install", "--user", "--port", "8321", "--notify", 'echo "$BETIMES_TEXT" 5%')
    assert (said.code, said.err) == (0, "")
    (command,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    assert command.endswith(
        f" up --service {home / 'state'} --budget 5usd/day --budget ann=50 --port 8321 "
        r'--notify "echo \"$$BETIMES_TEXT\" 5%%"'
    )
    asked = [line for line in calls.read_text().splitlines() if " show " not in line]
    assert asked == [
        "--user daemon-reload",
        "--user enable betimes.service",
        "--user restart betimes.service",
    ]
    said = betimes("service", "status", "--user")
    assert (said.code, said.out.startswith("active (running), process 41")) == (0, True)

    assert betimes("service", "uninstall", "--user").code == 0
    assert not unit.exists()
    assert "--user disable --now betimes.service" in calls.read_text()
    for words in ((), ("--json",)):
        assert betimes("service", "status", "--user", *words).code == 1
    said = betimes("service", "uninstall", "--user")
    assert (said.code, said.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("version", "delegates"), [("252.38-1", False), ("254", True)])
def test_control_groups_are_delegated_where_the_service_can_start_again(
    betimes: Call, home: Path, monkeypatch: pytest.MonkeyPatch, version: str, delegates: bool
) -> None:
    systemctl(home, monkeypatch, version)
    unit = betimes("service", "install", "--user", "--print").out
    assert ("\nDelegate=yes\nDelegateSubgroup=service\n" in unit) is delegates
    assert "\nKillMode=process\n" in unit
    assert not (home / "config").exists()


def test_what_cannot_be_installed_changes_nothing(
    betimes: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, unit = systemctl(home, monkeypatch), home / "config/systemd/user/betimes.service"
    said = betimes("service", "install", "--user", "--port", "none")
    assert (said.code, said.err.count("\n")) == (2, 1)
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    said = betimes("service", "install", "--user")
    assert "somebody else" in said.err
    assert unit.read_text() == "[Service]\n"
    unit.unlink()
    (home / "state").mkdir()
    (home / "state" / "address").write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    assert "stop it first" in betimes("service", "install", "--user").err
    (home / "bin" / "systemctl").write_text("#!/bin/sh\necho 'not booted with systemd' >&2; exit 1\n")
    said = betimes("service", "install", "--user")
    assert (said.code, "systemd does not run here" in said.err) == (2, True)
    assert not unit.exists()
    assert "restart" not in calls.read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_understands_the_unit(betimes: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = home / "betimes.service"
    unit.write_text(betimes("service", "install", "--system", "--print", "--port", "8321").out)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert str(unit) not in done.stdout + done.stderr, "a line about it is a complaint"
    assert done.returncode == 0, done.stderr
