"""Version, changelog, pyproject.toml and requirements.lock agree."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import betimes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pins() -> dict[str, str]:
    """Version by normalised name, from the lock file."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    found = [line for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in found)}


def test_newest_entry_of_the_changelog_is_the_version_of_the_package() -> None:
    headings = re.findall(
        r"^## \[([^\]]+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE
    )
    versions = [Version(version) for version, _ in headings]
    assert str(versions[0]) == betimes.__version__
    assert versions == sorted(set(versions), reverse=True)
    for _, date in headings:
        assert re.fullmatch(r"unreleased|\d{4}-\d{2}-\d{2}", date)


def test_lock_holds_names_and_versions_only() -> None:
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line), line


def test_lock_covers_what_the_project_asks_for(project: dict[str, Any], pins: dict[str, str]) -> None:
    wanted = [
        Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    ]
    missing = [
        str(each)
        for each in wanted
        if not each.specifier.contains(pins.get(canonicalize_name(each.name), "0"), prereleases=True)
    ]
    assert missing == []


def test_lock_covers_what_its_packages_ask_for(pins: dict[str, str]) -> None:
    extras = {"pyright": ["nodejs"]}
    missing = []
    for name in pins:
        for text in metadata.requires(name) or []:
            needs = Requirement(text)
            applies = needs.marker is None or any(
                needs.marker.evaluate({"extra": extra}) for extra in ["", *extras.get(name, [])]
            )
            pinned = pins.get(canonicalize_name(needs.name), "0")
            if applies and not needs.specifier.contains(pinned, prereleases=True):
                missing.append(f"{name} asks for {text}, pinned is {pinned}")
    assert missing == []


def test_what_runs_here_is_what_the_lock_names(pins: dict[str, str]) -> None:
    assert {name: metadata.version(name) for name in pins} == pins


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
