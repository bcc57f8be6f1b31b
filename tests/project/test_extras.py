"""The client alone is a small installation: what it can do without the extras, and what it says of the rest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from betimes.extras import EXTRAS
from tools.lock import asked_for

ROOT = Path(__file__).resolve().parents[2]
CLIENT_ALONE = f"""
import sys
for name in {sorted({name for names in EXTRAS.values() for name in names})!r}:
    sys.modules[name] = None  # an import then fails as where it is not installed
"""


def without_extras(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CLIENT_ALONE + program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def betimes(*arguments: str) -> subprocess.CompletedProcess[str]:
    return without_extras("from betimes.cli.main import program; sys.exit(program())", *arguments)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_what_is_said_of_each_package_agrees_with_the_declaration(project: dict[str, Any]) -> None:
    packages = metadata.packages_distributions()
    said = {
        extra: {canonicalize_name(packages[name][0]) for name in names} for extra, names in EXTRAS.items()
    }
    declared = {
        extra: {canonicalize_name(Requirement(each).name) for each in asked_for(project, extra)}
        - {canonicalize_name(Requirement(each).name) for each in project["dependencies"]}
        for extra in EXTRAS
    }
    assert said["simulate"] == declared["simulate"]
    assert said["service"] == declared["service"]
    assert said["tune"] | said["simulate"] == declared["tune"]


def test_client_needs_no_extra() -> None:
    program = """
from betimes import AsyncClient, Client, JobSpec
spec = JobSpec(command=["sleep", "1"], require={"gpu-kind": "a100"}, curve="amdahl:0.1", units_per_task="spread")
print(spec.title)
"""
    ran = without_extras(program)
    assert (ran.stdout, ran.stderr) == ("sleep\n", "")


@pytest.mark.parametrize("words", [("--help",), ("submit", "--help"), ("simulate", "--help")])
def test_help_needs_no_extra(words: tuple[str, ...]) -> None:
    ran = betimes(*words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Usage: betimes")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("up",), "pip install 'betimes[simulate]' or pip install 'betimes[service]'"),
        (("simulate", "demo", "--policy", "fifo"), "pip install 'betimes[simulate]'"),
    ],
)
def test_a_verb_that_needs_more_says_what_to_install(words: tuple[str, ...], advice: str) -> None:
    ran = betimes(*words)
    assert ran.returncode == 1
    assert ran.stdout == ""
    [line] = ran.stderr.splitlines()
    assert line.startswith("betimes: this needs ")
    assert advice in line


def test_python_says_what_to_install() -> None:
    ran = without_extras("import betimes; betimes.tune")
    assert "pip install 'betimes[simulate]'" in ran.stderr.splitlines()[-1]


def test_another_missing_module_is_reported_as_it_is() -> None:
    from betimes.extras import explained

    other = ModuleNotFoundError("No module named 'mine'", name="mine")
    assert explained(other) is other
