"""The Makefile, as a newcomer meets it: in a copy of the checkout whose folder has a space in its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = (
    *("help", "run", "compare", "test", "test-slow", "lint", "types", "imports", "check"),
    *(
        "bench",
        "docs",
        "client",
        "format",
        "lock",
        "setup",
        "setup-development",
        "setup-ray",
        "site",
        "clean",
    ),
)
USES = (
    "run",
    "compare",
    "setup",
)  # what a user of Betimes calls; the others but `lock` and `clean` are of development
SETTINGS = {"MFLAGS", "PYTHON", "VENV", "TRACE", "UNITS", "POLICIES", "POLICY", "SPEED", "DEMO", "WORKERS"}

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tools", folder / "tools")
    (folder / "papers").mkdir()
    shutil.copy(ROOT / "papers" / "pyproject.toml", folder / "papers")
    return folder


@pytest.fixture
def ready(checkout: Path) -> Path:
    """A checkout that is set up, with a `betimes` that prints its arguments, one a line in brackets."""
    program = checkout / ".venv" / "bin" / "betimes"
    _write_program(program, 'echo "betimes"; for word in "$@"; do echo "[$word]"; done')
    (checkout / ".venv" / ".ready").touch()
    (checkout / ".venv" / ".ready-development").touch()
    return checkout


def _write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _make(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAKE") and name not in SETTINGS
    }
    return subprocess.run(
        ["make", *words], cwd=folder, env=inherited | settings, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", TARGETS)
def test_target_exists_and_is_listed(checkout: Path, target: str) -> None:
    dry = _make(checkout, "--dry-run", target)
    assert dry.returncode == 0, dry.stderr
    assert f"\n  {target} " in _make(checkout, "help").stdout


def test_run_shows_the_service(ready: Path) -> None:
    assert _make(ready, "run").stdout.split() == ["betimes", "[demo]"]
    assert _make(ready, "run", DEMO="once").stdout.split() == ["betimes", "[demo]", "[--once]"]
    assert _make(ready, "run", "POLICY=srsf").stdout.split() == ["betimes", "[demo]", "[--policy]", "[srsf]"]


def test_run_replays_a_trace_whatever_its_name(ready: Path) -> None:
    words = _make(ready, "run", "TRACE=my 'first' trace.swf", "UNITS=12", "SPEED=max").stdout.splitlines()
    assert words[1:4] == ["[demo]", "[--trace]", "[my 'first' trace.swf]"]
    assert words[4:] == ["[--units]", "[12]", "[--speed]", "[max]"]


def test_compare_takes_the_generated_workload(ready: Path) -> None:
    words = _make(ready, "compare").stdout.split("\n")
    assert words[:2] == ["betimes", "[warm]"]
    assert words[2:5] == ["betimes", "[compare]", "[demo]"]
    assert words[words.index("[--units]") + 1] == "[64]"
    assert "[--predict]" in words


def test_compare_takes_a_trace_whatever_its_name(ready: Path) -> None:
    words = _make(ready, "compare", "TRACE=my 'first' trace.swf", "UNITS=12").stdout.split("\n")
    assert words[3:5] == ["[compare]", "[my 'first' trace.swf]"]
    assert words[words.index("[--units]") + 1] == "[12]"
    assert "[--units]" not in _make(ready, "compare", "TRACE=trace.swf").stdout


def test_nothing_is_set_up_twice(ready: Path) -> None:
    assert "Nothing to be done" in _make(ready, "setup").stdout


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml", "papers/pyproject.toml"])
def test_a_change_of_what_is_installed_is_seen(ready: Path, changed: str) -> None:
    stamp = (ready / ".venv" / ".ready").stat().st_mtime
    os.utime(ready / changed, (stamp + 10, stamp + 10))
    assert "tools.set_up" in _make(ready, "--dry-run", "setup").stdout
    assert "tools.set_up" in _make(ready, "--dry-run", "test").stdout


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"help", "lock", "clean"}))
def test_only_development_installs_its_packages(checkout: Path, target: str) -> None:
    (command,) = [
        line for line in _make(checkout, "--dry-run", target).stdout.splitlines() if "tools.set_up" in line
    ]
    more = [word for word in command.split() if word in ("--development", "--ray", "--site")]
    special = {"setup-ray": ["--ray"], "site": ["--site"]} | {name: [] for name in USES}
    assert more == special.get(target, ["--development"])
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".ready").touch()
    assert ("tools.set_up" in _make(checkout, "--dry-run", target).stdout) == (target not in USES)


def test_another_environment_stands_beside_the_usual_one(ready: Path) -> None:
    dry = _make(ready, "--dry-run", "test", "VENV=.venv-3.12", "PYTHON=python3.12").stdout
    assert '"python3.12" -m tools.set_up --venv ".venv-3.12" --development' in dry
    assert ".venv/" not in dry
    assert (
        "tools.set_up" not in _make(ready, "--dry-run", "test", VENV=".venv-3.12").stdout
    )  # no variable of a shell


def test_an_old_python_is_named_and_refused(checkout: Path) -> None:
    _write_program(checkout / "old python", '[ "$1" = --version ] && echo "Python 3.9.2"; exit 1')
    made = _make(checkout, "setup", PYTHON="./old python")
    assert made.returncode != 0
    assert "needs Python 3.11 or newer" in made.stderr
    assert "Python 3.9.2" in made.stderr
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_named(checkout: Path) -> None:
    made = _make(checkout, "setup", PYTHON="python-of-nobody")
    assert made.returncode != 0
    assert "no `python-of-nobody`" in made.stderr


def test_a_python_without_ensurepip_says_what_to_install(checkout: Path) -> None:
    hide = (
        "import runpy, sys, importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name == 'ensurepip' else find(name, *rest); "
        "runpy.run_path('tools/set_up.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"python3.{sys.version_info.minor}-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_the_ci_script_can_be_run_and_parses() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n", script], check=True)
    assert "set -euo pipefail" in script.read_text()
