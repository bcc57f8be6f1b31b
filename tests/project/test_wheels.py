"""The wheels work where nothing else is: each extra in an empty environment, on each supported Python that is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.set_up import Installer, pinned

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
PINS = pinned(LOCK.read_text())["run"]
PATIENCE_S = 600  # kernels are compiled, on a machine that may be busy

pytestmark = pytest.mark.slow


def _interpreter(version: str) -> str | None:
    """A released Python of that version that can make environments: on the path, or pyenv's."""
    asks = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2], sys.version_info.releaselevel)"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for found in (shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))):
        if found is not None:
            ran = subprocess.run([found, "-c", asks], capture_output=True, text=True, check=False)
            if ran.stdout.split() == [version, "final"]:
                return found
    return None


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of Betimes and of its papers, by the name of the package."""
    probe = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--no-deps",
        "--ignore-installed",
    ]
    if subprocess.run([*probe, PINS[0]], capture_output=True, check=False).returncode:
        pytest.skip("no package index can be reached from here")
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "papers"):
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(folder),
        ]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    return {wheel.name.partition("-")[0]: wheel for wheel in folder.glob("*.whl")}


class Environment:
    """An empty environment of one Python, and commands in it."""

    def __init__(self, folder: Path, python: str, *packages: str) -> None:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        uv = next(pin for pin in PINS if pin.startswith("uv=="))
        Installer(folder, uv).install(*packages, "--constraint", str(LOCK))
        self._bin = folder / "bin"
        self.variables = {
            **{
                name: text for name, text in os.environ.items() if not name.startswith(("BETIMES_", "PYTHON"))
            },
            "BETIMES_STATE": str(folder.parent / "state"),
            "XDG_CACHE_HOME": str(folder.parent / "cache"),
        }

    def command(self, *words: str) -> list[str]:
        return [str(self._bin / words[0]), *words[1:]]

    def run(self, *words: str) -> str:
        """What a command prints; it has to succeed, without a word on standard error."""
        ran = subprocess.run(
            self.command(*words),
            env=self.variables,
            cwd=self._bin.parent,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
        return ran.stdout

    @contextmanager
    def service(self) -> Iterator[None]:
        """`betimes up`, until the block ends."""
        with subprocess.Popen(
            self.command("betimes", "up"), env=self.variables, stdout=subprocess.PIPE, text=True
        ) as up:
            assert up.stdout is not None
            try:
                assert "Betimes listens" in up.stdout.readline()
                yield
            finally:
                up.terminate()
                up.stdout.read()


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_installed_wheels_do_what_their_extras_are_for(
    version: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    python = _interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} is here")
    tmp_path.chmod(0o700)
    betimes = f"betimes @ {wheels['betimes'].as_uri()}"

    def environment(name: str, *packages: str) -> Environment:
        return Environment(tmp_path / name, python, *packages)

    client = environment("client", betimes)
    service = environment("service", betimes.replace(" ", "[service] ", 1))
    with service.service():
        assert "sleep" in client.run("betimes", "submit", "--estimate", "1s", "--", "sleep", "0.2")
        client.run("betimes", "wait", "1")
        reads = "from betimes import Client\nwith Client() as service: print(service.job(1).job.status)"
        assert client.run("python", "-c", reads) == "finished\n"
    simulates = environment("simulate", betimes.replace(" ", "[simulate] ", 1))
    summary = simulates.run(
        *("betimes", "simulate", "demo", "--policy", "fifo", "--units", "64", "--jobs", "50", "--out", "out"),
        "--report",
    )
    assert "JCT mean" in summary
    assert (tmp_path / "simulate" / "out" / "report.html").is_file()
    everything = environment(
        "all", betimes.replace(" ", "[all] ", 1), f"betimes-papers @ {wheels['betimes_papers'].as_uri()}"
    )
    assert "headlines" in everything.run("betimes", "reproduce", "--list")
