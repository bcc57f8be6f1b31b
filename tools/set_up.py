"""Make the virtual environment that the Makefile works in, or bring it up to date.

Needs the standard library alone. What is installed are the packages of ``requirements.lock``, exactly, and
Betimes itself as an editable install. ``.venv/.ready`` notes by content what stands, so that a second call,
or one after a file was merely touched, costs nothing; after an interrupted call the next starts afresh.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
READY = VENV / ".ready"

NO_ENSUREPIP = """\
This Python cannot make virtual environments: its `ensurepip` module is missing.
On Debian and Ubuntu it is a package of its own; install it and run the same command again:

    sudo apt install python{version}-venv

Another Python serves as well: PYTHON=/path/to/python3 make ..."""


def main() -> int:
    """Bring the virtual environment up to date; 0, or 1 after saying what is wrong."""
    wanted = {"python": _version(), "root": str(ROOT), "lock": _digest(LOCK), "project": _digest(PROJECT)}
    found = _found()
    if found == wanted:
        READY.touch()
        return 0
    if importlib.util.find_spec("ensurepip") is None:
        print(NO_ENSUREPIP.format(version=_version().rpartition(".")[0]), file=sys.stderr)
        return 1
    began = time.monotonic()
    READY.unlink(missing_ok=True)
    afresh = any(found.get(key) != wanted[key] for key in ("python", "root"))
    try:
        if afresh:
            _say(f"Python {wanted['python']}: making .venv")
            subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        if afresh or found["lock"] != wanted["lock"]:
            _install_locked()
        _say("Installing Betimes itself (editable)")
        _pip_install("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    except subprocess.CalledProcessError as failed:
        command = shlex.join(str(part) for part in failed.cmd)
        print(
            f"Set-up stopped, since this ended with exit code {failed.returncode}: {command}", file=sys.stderr
        )
        print("What went wrong is above. The same `make` can be run again.", file=sys.stderr)
        return 1
    READY.write_text(json.dumps(wanted, indent=2) + "\n")
    _say(f"Ready in {time.monotonic() - began:.0f} s")
    return 0


def _version() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _found() -> dict[str, str]:
    try:
        return json.loads(READY.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _say(message: str) -> None:
    print(f"==> {message}", flush=True)


def _install_locked() -> None:
    pins = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    _say(f"Installing {len(pins)} pinned packages (the first time, a few hundred MB are fetched)")
    _pip_install("--requirement", str(LOCK))


def _pip_install(*arguments: str) -> None:
    """Run ``pip install``, one moving line in place of its hundreds; all of them if it fails."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--progress-bar", "off", *arguments]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    output: list[str] = []
    count = 0
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            output.append(line)
            if line.startswith("Collecting "):
                count += 1
                _progress(f"    {count:3d} {line.split()[1]}")
            elif line.startswith("Installing collected packages"):
                _progress("    unpacking")
    _progress("")
    if pip.returncode != 0:
        sys.stderr.writelines(output)
        raise subprocess.CalledProcessError(pip.returncode, command)


def _progress(text: str) -> None:
    """Show ``text`` in place; a log, which has no place to go back to, shows nothing."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
