"""Make a virtual environment for the Makefile to work in, or bring it up to date.

Called as ``python3 -m tools.set_up``; needs the standard library alone. What is installed are the packages of
``requirements.lock``, exactly: those that Betimes runs with, under ``--development`` also those that it is developed
with, under ``--ray`` besides Ray; and Betimes itself with the package of its papers, as editable installs. Under
``--site`` it is an environment of those that the site of the documents is built with, alone. pip fetches uv, which
installs the rest in a tenth of pip's time; where that cannot be, pip does.

``.ready``, ``.ready-development``, ``.ready-ray`` and ``.ready-site`` in the environment note by content what it holds,
so that a second call, or one after a file was merely touched, costs nothing. They are absent while something is being
installed: after an interrupted call the next starts afresh.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.pip_settings import for_uv

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PROJECTS = (ROOT, ROOT / "papers")
"""The folders of the packages that are made here, each with its pyproject.toml."""
ALONE = "site"
SECTIONS = {"run": "# Run time", "development": "# Development", "ray": "# Ray", ALONE: "# Site"}
"""The line of the lock below which the packages of a part are, which needs those of the parts before it, too; but for
the site, which needs no other."""

NO_ENSUREPIP = """\
This Python cannot make virtual environments: its `ensurepip` module is missing.
On Debian and Ubuntu it is a package of its own; install it and run the same command again:

    sudo apt install python{version}-venv

Another Python serves as well: PYTHON=/path/to/python3 make ..."""


def main() -> int:
    """Bring the virtual environment up to date; 0, or 1 after saying what is wrong."""
    parser = argparse.ArgumentParser(description="Make a virtual environment, or bring it up to date.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="its folder")
    parser.add_argument("--development", action="store_true", help="with the packages of development")
    parser.add_argument("--ray", action="store_true", help="with these, and Ray, which some slow tests need")
    parser.add_argument("--site", action="store_true", help="with what builds the site, and nothing else")
    given = parser.parse_args()
    part = ALONE if given.site else "ray" if given.ray else "development" if given.development else "run"
    try:
        return set_up(given.venv.absolute(), part)
    except subprocess.CalledProcessError as failed:
        sys.stderr.write(failed.output or "")
        command = shlex.join(str(part) for part in failed.cmd)
        print(
            f"Set-up stopped, since this ended with exit code {failed.returncode}: {command}", file=sys.stderr
        )
        print("What went wrong is above. The same `make` can be run again.", file=sys.stderr)
        return 1


def set_up(venv: Path, wanted_part: str) -> int:
    """Bring `venv` up to date; 0, or 1 where this Python cannot. Raises CalledProcessError where a command failed."""
    stamps = {name: venv / (".ready" if name == "run" else f".ready-{name}") for name in SECTIONS}
    if wanted_part == ALONE:
        parts = [ALONE]
    else:
        chain = [name for name in stamps if name != ALONE]
        # An environment keeps what it has: all of its packages are of one lock.
        last = max(at for at, name in enumerate(chain) if name == wanted_part or stamps[name].exists())
        parts = chain[: last + 1]
    pins = pinned(LOCK.read_text())
    wanted = {part: _wanted(pins[part]) for part in parts}
    found = {part: _found(stamps[part]) for part in parts}
    if found == wanted:
        for part in parts:
            stamps[part].touch()
        return 0
    if importlib.util.find_spec("ensurepip") is None:
        print(NO_ENSUREPIP.format(version=_version().rpartition(".")[0]), file=sys.stderr)
        return 1
    began = time.monotonic()
    for stamp in stamps.values():
        stamp.unlink(missing_ok=True)
    first = parts[0]
    if any(found[first].get(key) != wanted[first][key] for key in ("python", "root")):
        _say(f"Python {_version()}: making {os.path.relpath(venv)}")
        run([sys.executable, "-m", "venv", "--clear", str(venv)])
        found = {part: {} for part in parts}
    missing = [pin for part in parts if found[part].get("pins") != wanted[part]["pins"] for pin in pins[part]]
    installer = Installer(venv, next(pin for pin in pins["run"] if pin.startswith("uv==")))
    if missing:
        amount = "some ten" if ALONE in parts else "some hundred"
        _say(f"Installing {len(missing)} pinned packages (the first time, {amount} MB are fetched)")
        installer.install_pinned(missing)
    if ALONE not in parts:
        _say("Installing Betimes itself, and the package of its papers (editable)")
        editable = [word for folder in PROJECTS for word in ("--editable", str(folder))]
        installer.install("--no-deps", "--no-build-isolation", *editable)
    for part in parts:
        stamps[part].write_text(json.dumps(wanted[part], indent=2) + "\n")
    _say(f"Ready in {time.monotonic() - began:.0f} s")
    return 0


def pinned(lock: str) -> dict[str, list[str]]:
    """The pins of each part of a lock."""
    pins: dict[str, list[str]] = {name: [] for name in SECTIONS}
    part = "run"
    for line in lock.splitlines():
        part = next((name for name, begins in SECTIONS.items() if line.startswith(begins)), part)
        if "==" in line and not line.startswith("#"):
            pins[part].append(line)
    return pins


class Installer:
    """Installs packages into an environment with uv, and with pip once uv could not be had or failed."""

    def __init__(self, venv: Path, uv: str) -> None:
        """Of the environment `venv`, whose uv is to be of the version that the pin `uv` names."""
        self._venv, self._pin = venv, uv
        self._python = str(venv / "bin" / "python")
        self._pip = [self._python, "-m", "pip", "--disable-pip-version-check"]
        self._uv: list[str] = []
        self._environment: dict[str, str] = {}
        try:
            # No sources: making uv takes a Rust compiler and minutes.
            run([*self._pip, "install", "--quiet", "--no-deps", "--only-binary=:all:", uv])
            settings = run([*self._pip, "config", "list"])
        except subprocess.CalledProcessError as failed:
            self._go_on_with_pip(f"{uv}, which is faster, cannot be had", failed)
        else:
            variables, options = for_uv(settings)
            # What the user told uv itself prevails.
            self._environment = {
                name: value
                for name, value in variables.items()
                if not (name.startswith("UV_") and name in os.environ)
            }
            self._uv = [str(venv / "bin" / "uv"), "pip", "install", "--python", self._python, *options]

    def install_pinned(self, pins: list[str]) -> None:
        """Install these versions; raises CalledProcessError where pip cannot either."""
        # A file: a command that failed can be read, and repeated.
        listed = self._venv / "requirements.txt"
        listed.write_text("".join(f"{pin}\n" for pin in pins if pin != self._pin))
        self.install("--requirement", str(listed))

    def install(self, *arguments: str) -> None:
        """Install as `pip install` with `arguments` does; raises CalledProcessError where pip cannot either."""
        if self._uv:
            try:
                run([*self._uv, *arguments], self._environment)
                return
            except (subprocess.CalledProcessError, OSError) as failed:
                self._go_on_with_pip("uv failed", failed)
        run([*self._pip, "install", "--progress-bar", "off", *arguments])

    def _go_on_with_pip(self, what: str, failed: Exception) -> None:
        self._uv = []
        output = failed.output if isinstance(failed, subprocess.CalledProcessError) else str(failed)
        reason = " ".join((output.strip().splitlines() or ["no reason given"])[-1].split())
        _say(f"{what} ({reason}): pip goes on, which takes about a minute")


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Run a command, one moving line in place of all that it prints; returns that, or raises CalledProcessError."""
    output: list[str] = []
    with subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            _progress(f"    {line.strip()}")
    _progress("")
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, "".join(output))
    return "".join(output)


def _wanted(pins: list[str]) -> dict[str, str]:
    """The contents of a stamp."""
    return {
        "python": _version(),
        "root": str(ROOT),
        "pins": _digest("\n".join(pins)),
        "project": _digest("".join((folder / "pyproject.toml").read_text() for folder in PROJECTS)),
    }


def _version() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _found(stamp: Path) -> dict[str, str]:
    try:
        return json.loads(stamp.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _say(message: str) -> None:
    print(f"==> {message}", flush=True)


def _progress(text: str) -> None:
    """Show ``text`` in place; a log, which has no place to go back to, shows nothing."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
