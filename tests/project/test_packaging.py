"""Version, changelog, pyproject.toml and requirements.lock agree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import betimes_papers
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import betimes
from tools.lock import asked_for
from tools.set_up import ALONE, pinned

ROOT = Path(__file__).resolve().parents[2]
NOT_ALWAYS_THERE = {"uv"}  # where it cannot be had, pip installs


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _by_name(pins: list[str]) -> dict[str, str]:
    return {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins)}


@pytest.fixture(scope="module")
def sections() -> tuple[dict[str, str], dict[str, str]]:
    """Version by normalised name, from the lock file: of what Betimes runs with, and of what development adds."""
    found = pinned((ROOT / "requirements.lock").read_text())
    return _by_name(found["run"]), _by_name(found["development"])


@pytest.fixture(scope="module")
def run_time(sections: tuple[dict[str, str], dict[str, str]]) -> dict[str, str]:
    return sections[0]


@pytest.fixture(scope="module")
def pins(sections: tuple[dict[str, str], dict[str, str]]) -> dict[str, str]:
    return sections[0] | sections[1]


def test_newest_entry_of_the_changelog_is_the_version_of_the_package() -> None:
    headings = re.findall(
        r"^## \[([^\]]+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE
    )
    versions = [Version(version) for version, _ in headings]
    assert str(versions[0]) == betimes.__version__ == betimes_papers.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == betimes.__version__
    assert versions == sorted(set(versions), reverse=True)
    for _, date in headings:
        assert re.fullmatch(r"unreleased|\d{4}-\d{2}-\d{2}", date)


def test_lock_holds_names_and_versions_only_each_once() -> None:
    text = (ROOT / "requirements.lock").read_text()
    for line in text.splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line), (
            line
        )
    found = pinned(text)
    site = found.pop(ALONE)  # an environment of its own, whose section is whole
    for section in (site, [pin for pins in found.values() for pin in pins]):
        assert len(_by_name(section)) == len(section)


def _not_covered(wanted: list[str], pins: dict[str, str]) -> list[str]:
    needs = [Requirement(text) for text in wanted]
    return [
        str(each)
        for each in needs
        if not each.specifier.contains(pins.get(canonicalize_name(each.name), "0"), prereleases=True)
    ]


def test_lock_covers_what_the_project_asks_for(
    project: dict[str, Any], run_time: dict[str, str], pins: dict[str, str]
) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]["dependencies"]
    assert papers[0] == "betimes[all]"
    assert _not_covered([*asked_for(project, "all"), *papers[1:], *groups["set-up"]], run_time) == []
    assert _not_covered(project["optional-dependencies"]["dev"], pins) == []
    site = pinned((ROOT / "requirements.lock").read_text())[ALONE]
    assert _not_covered(groups[ALONE], _by_name(site)) == []


def test_lock_covers_what_its_packages_ask_for(run_time: dict[str, str], pins: dict[str, str]) -> None:
    extras = {"pyright": ["nodejs"]}
    missing = []
    for name in pins.keys() - NOT_ALWAYS_THERE:
        section = run_time if name in run_time else pins
        for text in metadata.requires(name) or []:
            needs = Requirement(text)
            applies = needs.marker is None or any(
                needs.marker.evaluate({"extra": extra}) for extra in ["", *extras.get(name, [])]
            )
            pinned_version = section.get(canonicalize_name(needs.name), "0")
            if applies and not needs.specifier.contains(pinned_version, prereleases=True):
                missing.append(f"{name} asks for {text}, pinned is {pinned_version}")
    assert missing == []


def test_what_betimes_imports_is_pinned_for_run_time(run_time: dict[str, str]) -> None:
    """All but the driver of PostgreSQL and Ray, which are optional, and a package that the shim has beside it."""
    imported = set()
    for file in (*(ROOT / "src").rglob("*.py"), *(ROOT / "papers" / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.partition(".")[0])
    packages = metadata.packages_distributions()
    third_party = (
        imported - sys.stdlib_module_names - {"betimes", "betimes_papers", "psycopg", "ray", "supervision"}
    )
    assert "numba" in third_party
    unpinned = {
        name
        for name in third_party
        if not {canonicalize_name(package) for package in packages.get(name, [])} & run_time.keys()
    }
    assert unpinned == set()


def test_what_runs_here_is_what_the_lock_names(pins: dict[str, str]) -> None:
    here = pins.keys() - NOT_ALWAYS_THERE
    assert {name: metadata.version(name) for name in here} == {name: pins[name] for name in here}


def test_supported_pythons_are_those_declared(project: dict[str, Any]) -> None:
    oldest = project["requires-python"].removeprefix(">=")
    named = [
        text.rpartition(" ")[2] for text in project["classifiers"] if re.search(r"Python :: 3\.\d+$", text)
    ]
    assert named[0] == oldest
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert settings["pyright"]["pythonVersion"] == oldest
    assert settings["ruff"]["target-version"] == "py" + oldest.replace(".", "")


def test_package_tells_type_checkers_that_it_is_typed() -> None:
    assert (Path(betimes.__file__).parent / "py.typed").is_file()
