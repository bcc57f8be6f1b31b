"""What `make` installs, and with what: a real pip, a stand-in for uv, and packages made here in place of an index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = "# by hand\n\nalpha==1.0\nuv==1.0\n\n# Development\nbeta==1.0\n\n# Site\nalpha==1.0\n"
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import glob, shutil
def build_editable(folder, settings=None, metadata=None):
    return shutil.copy(glob.glob("*.whl")[0], folder).rpartition("/")[2]
"""
UV = """
import json, os, signal, subprocess, sys
with open("calls", "a") as calls:
    told = {name: value for name, value in os.environ.items() if name.startswith("UV_")}
    print(json.dumps([sys.argv[1:], told]), file=calls)
if os.path.exists("kill"):
    os.kill(os.getppid(), signal.SIGKILL)
if os.path.exists("fail"):
    sys.exit("Using Python\\nerror: no route to the index")
after = sys.argv.index("--python") + 2
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *sys.argv[after:]]))
"""
UV_PROGRAM = (
    '#!/bin/sh\nexec "$(dirname "$0")/python" uv.py "$@"\n'  # `#!python` would not stand a space in the path
)
# `python -m venv`, which takes seconds: a copy of an environment made once.
VENV = """
import os, shutil, sys
assert sys.argv[1] == "--clear"
shutil.rmtree(sys.argv[2], ignore_errors=True)
shutil.copytree(os.environ["STAND_IN_VENV"], sys.argv[2], symlinks=True)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds nothing but pip."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


def _wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in (files | {f"{info}/RECORD": record}).items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100755 << 16  # a regular file, which can be run
            archive.writestr(entry, text)


class Clone:
    """A folder that is set up, and what its stand-in for uv was called with."""

    def __init__(self, place: Path, environment: Path, *, has_uv: bool) -> None:
        self.environment = environment
        self.folder, self.index = folder, _ = place / "a folder", place / "index"
        folder.mkdir()
        self.index.mkdir()
        shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "requirements.lock").write_text(LOCK)
        for each, name in ((folder, "betimes"), (folder / "papers", "papers")):
            each.mkdir(exist_ok=True)
            (each / "pyproject.toml").write_text(PROJECT)
            (each / "backend.py").write_text(BACKEND)
            _wheel(each, name, "1.0", {f"{name}.py": ""})
        (folder / "uv.py").write_text(UV)
        (folder / "venv.py").write_text(VENV)
        for name, version in (("alpha", "1.0"), ("alpha", "2.0"), ("beta", "1.0")):
            _wheel(self.index, name, version, {f"{name}.py": ""})
        if has_uv:
            _wheel(self.index, "uv", "1.0", {"uv-1.0.data/scripts/uv": UV_PROGRAM})

    def set_up(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the tool; its only index is the folder, which pip is told of in its own way."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))
        }
        told = {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "STAND_IN_VENV": str(self.environment),
        }
        return subprocess.run(
            [sys.executable, "-m", "tools.set_up", *options],
            cwd=self.folder, env=inherited | told, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def calls(self) -> list[tuple[list[str], dict[str, str]]]:
        """Arguments and `UV_` variables of every call of uv."""
        return [
            (call[0], call[1]) for call in map(json.loads, (self.folder / "calls").read_text().splitlines())
        ]

    @property
    def stamps(self) -> set[str]:
        """What is noted as complete."""
        return {path.name for path in (self.folder / ".venv").glob(".ready*")}

    @property
    def installed(self) -> set[str]:
        """The packages of the environment, but pip and what comes with it."""
        found = (self.folder / ".venv").glob("lib/python*/site-packages/*.dist-info")
        names = {path.name.removesuffix(".dist-info") for path in found}
        return {name for name in names if not name.startswith(("pip-", "setuptools-"))}


@pytest.mark.slow
def test_uv_installs_what_betimes_runs_with_and_then_what_development_needs(
    tmp_path: Path, environment: Path
) -> None:
    clone = Clone(tmp_path, environment, has_uv=True)
    first = clone.set_up()
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Installing 2 pinned packages" in first.stdout
    assert clone.installed == {"alpha-1.0", "uv-1.0", "betimes-1.0", "papers-1.0"}
    assert clone.stamps == {".ready"}
    (arguments, told), (editable, _) = clone.calls
    assert arguments[:2] == ["pip", "install"]
    assert "--no-index" in arguments
    assert told["UV_FIND_LINKS"] == str(clone.index)
    assert editable[-4:] == ["--editable", str(clone.folder), "--editable", str(clone.folder / "papers")]

    assert clone.set_up().stdout == ""
    assert len(clone.calls) == 2

    assert clone.set_up("--development").returncode == 0
    assert clone.installed == {"alpha-1.0", "beta-1.0", "uv-1.0", "betimes-1.0", "papers-1.0"}
    assert clone.stamps == {".ready", ".ready-development"}
    assert (clone.folder / ".venv" / "requirements.txt").read_text() == "beta==1.0\n"
    assert clone.set_up("--development").stdout == ""
    assert clone.set_up().stdout == ""

    lock = clone.folder / "requirements.lock"
    lock.write_text(lock.read_text().replace("alpha==1.0", "alpha==2.0"))
    assert clone.set_up().returncode == 0
    assert clone.installed == {"alpha-2.0", "beta-1.0", "uv-1.0", "betimes-1.0", "papers-1.0"}
    assert clone.stamps == {".ready", ".ready-development"}


@pytest.mark.slow
def test_the_environment_of_the_site_holds_nothing_else(tmp_path: Path, environment: Path) -> None:
    clone = Clone(tmp_path, environment, has_uv=True)
    done = clone.set_up("--site")
    assert done.returncode == 0, done.stdout + done.stderr
    assert clone.installed == {"alpha-1.0", "uv-1.0"}
    assert clone.stamps == {".ready-site"}
    assert clone.set_up("--site").stdout == ""


@pytest.mark.slow
def test_an_interrupted_set_up_starts_afresh(tmp_path: Path, environment: Path) -> None:
    clone = Clone(tmp_path, environment, has_uv=True)
    assert clone.set_up().returncode == 0
    left = clone.folder / ".venv" / "half-written"
    left.touch()
    (clone.folder / "kill").touch()
    assert clone.set_up("--development").returncode < 0
    assert clone.stamps == set()
    (clone.folder / "kill").unlink()
    again = clone.set_up()
    assert again.returncode == 0, again.stdout + again.stderr
    assert not left.exists()
    assert clone.stamps == {".ready"}
    assert clone.installed == {"alpha-1.0", "uv-1.0", "betimes-1.0", "papers-1.0"}


@pytest.mark.slow
def test_where_uv_cannot_be_had_pip_installs(tmp_path: Path, environment: Path) -> None:
    clone = Clone(tmp_path, environment, has_uv=False)
    done = clone.set_up("--development")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "pip goes on" in line]
    assert line.startswith("==> uv==1.0, which is faster, cannot be had (ERROR: No matching distribution")
    assert clone.installed == {"alpha-1.0", "beta-1.0", "betimes-1.0", "papers-1.0"}
    assert clone.stamps == {".ready", ".ready-development"}

    lock = clone.folder / "requirements.lock"
    lock.write_text(lock.read_text().replace("alpha==1.0", "alpha==3.0"))
    failed = clone.set_up()
    assert failed.returncode == 1
    assert "No matching distribution found for alpha==3.0" in failed.stderr
    assert "Set-up stopped" in failed.stderr
    assert clone.stamps == set()


@pytest.mark.slow
def test_where_uv_fails_pip_installs(tmp_path: Path, environment: Path) -> None:
    clone = Clone(tmp_path, environment, has_uv=True)
    (clone.folder / "fail").touch()
    done = clone.set_up()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "==> uv failed (error: no route to the index): pip goes on" in done.stdout
    assert len(clone.calls) == 1
    assert clone.installed == {"alpha-1.0", "uv-1.0", "betimes-1.0", "papers-1.0"}


def _told(*lines: str) -> tuple[dict[str, str], list[str]]:
    from tools.pip_settings import for_uv

    return for_uv("\n".join(lines))


@pytest.mark.parametrize(
    ("lines", "variable", "value"),
    [
        (["global.index-url='https://ada:secret@mirror/simple'"], "UV_DEFAULT_INDEX", "https://ada:secret@mirror/simple"),
        (["global.index-url='https://a'", ":env:.index-url='https://b'"], "UV_DEFAULT_INDEX", "https://b"),
        ([":env:.index-url='https://b'", "install.index-url='https://a'"], "UV_DEFAULT_INDEX", "https://b"),
        (["global.index-url='https://a'", "install.index-url='https://b'"], "UV_DEFAULT_INDEX", "https://b"),
        (["global.extra-index-url='\\nhttps://a\\nhttps://b'"], "UV_EXTRA_INDEX_URL", "https://a https://b"),
        (["global.find-links='one two'"], "UV_FIND_LINKS", "one,two"),
        (["global.trusted-host='a b:8080'"], "UV_INSECURE_HOST", "a b:8080"),
        (["global.cert='/my certificates/all.pem'"], "SSL_CERT_FILE", "/my certificates/all.pem"),
        (["global.proxy='http://proxy:3128'"], "HTTPS_PROXY", "http://proxy:3128"),
        ([":env:.default-timeout='180'"], "UV_HTTP_TIMEOUT", "180"),
        (["WARNING: something else", "list.format='columns'"], "UV_INDEX_STRATEGY", "unsafe-best-match"),
    ],
)  # fmt: skip
def test_uv_is_told_what_pip_was_told(lines: list[str], variable: str, value: str) -> None:
    assert _told(*lines)[0][variable] == value


@pytest.mark.parametrize(("value", "options"), [("1", ["--no-index"]), ("true", ["--no-index"]), ("0", [])])
def test_no_index_is_an_option(value: str, options: list[str]) -> None:
    assert _told(f":env:.no-index='{value}'")[1] == options
    assert _told()[1] == []


def test_pip_prints_its_settings_as_they_are_read_here(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url =\n  https://a.example/x=y\n  https://b.example/'\n"
    )
    settings = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_INDEX_URL": "https://c.example/"}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, env=plain | settings, capture_output=True, text=True, check=True).stdout
    variables, _ = _told(*listing.splitlines())
    assert variables["UV_DEFAULT_INDEX"] == "https://c.example/"
    assert variables["UV_EXTRA_INDEX_URL"] == "https://a.example/x=y https://b.example/'"
