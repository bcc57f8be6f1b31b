"""What every committed file keeps to."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Written in pieces, so that this file passes its own test.
REGISTRIES = re.compile("|".join(re.escape(".".join(host)) for host in (
    ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"),
    ("anaconda", "org"), ("anaconda", "com"), ("crates", "io"), ("docker", "io"), ("ghcr", "io"),
)))  # fmt: skip
MACHINE_PATHS = re.compile(r"(?<![\w.}~-])/(?:home|root|Users|work|opt|mnt)/\w")


@pytest.fixture(scope="module")
def committed() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    files = [ROOT / name for name in listing.split("\0") if name]
    assert len(files) > 20
    return [file for file in files if file.is_file()]


def _texts(files: list[Path]) -> list[tuple[Path, str]]:
    texts = []
    for file in files:
        try:
            texts.append((file.relative_to(ROOT), file.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            assert file.suffix in {".gz", ".parquet", ".png"}, f"{file} is neither text nor a known binary"
    return texts


def _hits(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in _texts(files)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize(
    ("pattern", "bad", "good"),
    [
        (REGISTRIES, "--index-url https://" + "pypi" + ".org/simple", "pip install -r requirements.lock"),
        (MACHINE_PATHS, "open('/ho" + "me/ada/trace.swf')", "https://example.org/work/report"),
    ],
)
def test_patterns_find_what_they_should(pattern: re.Pattern[str], bad: str, good: str) -> None:
    assert pattern.search(bad)
    assert not pattern.search(good)


def test_no_file_names_a_package_registry(committed: list[Path]) -> None:
    assert _hits(REGISTRIES, committed) == []


def test_no_file_names_a_path_of_somebodys_machine(committed: list[Path]) -> None:
    assert _hits(MACHINE_PATHS, committed) == []


def test_links_between_documents_lead_somewhere(committed: list[Path]) -> None:
    broken = []
    for name, text in _texts([file for file in committed if file.suffix == ".md"]):
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            path = target.partition("#")[0]
            if "://" not in path and path and (ROOT / name).parent.joinpath(path).resolve() not in committed:
                broken.append(f"{name}: {target}")
    assert broken == []


def test_drawings_are_well_formed_and_need_nothing_from_outside(committed: list[Path]) -> None:
    drawings = [file for file in committed if file.suffix == ".svg"]
    assert drawings
    for drawing in drawings:
        root = ET.parse(drawing).getroot()
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert {"title", "desc"} <= tags, f"{drawing.name} has no description for those who cannot see it"
        assert not tags & {"script", "image", "foreignObject", "use"}
        assert not re.search(r"url\(|@import", drawing.read_text())
