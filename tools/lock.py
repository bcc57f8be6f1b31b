"""Write ``requirements.lock``: the exact version of every package that Betimes runs and is developed with.

Called as ``python3 tools/lock.py`` (``make lock``). The newest versions that ``pyproject.toml`` allows are
installed into a fresh virtual environment, and what came of it is written down: names and versions only, so
that the file holds for any platform and any mirror. The oldest supported Python makes the lock, since a
version that it can install, every later one can install too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"

HEADER = """\
# Exact versions of everything that Betimes runs and is developed with. Written by `make lock`; do not edit.
"""


def main() -> int:
    """Resolve, write the lock file, and report what changed; 0, or 1 on the wrong Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != oldest:
        print(
            f"A lock is made with the oldest supported Python, {oldest}; this is {running}.", file=sys.stderr
        )
        print(f"Run `PYTHON=python{oldest} make lock`.", file=sys.stderr)
        return 1
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    with tempfile.TemporaryDirectory(prefix="betimes-lock-") as folder:
        print(f"==> Resolving {len(wanted)} packages in a fresh environment (a minute or two)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
        subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
        frozen = subprocess.run(
            [*pip, "freeze", "--all", "--exclude", "pip"], check=True, text=True, stdout=subprocess.PIPE
        ).stdout
    # --all, since setuptools, which pip otherwise takes for granted, is a dependency like any other.
    pins = sorted(frozen.splitlines(), key=lambda pin: pin.partition("==")[0].lower())
    if strange := [pin for pin in pins if "==" not in pin]:
        print(f"Not a plain version, so not for every machine: {strange}", file=sys.stderr)
        return 1
    before = set(LOCK.read_text().splitlines()) if LOCK.exists() else set()
    LOCK.write_text(HEADER + "\n".join(pins) + "\n")
    for pin in sorted(before.symmetric_difference(LOCK.read_text().splitlines()), key=str.lower):
        print(f"  {'-' if pin in before else '+'} {pin}")
    print(f"==> {LOCK.name}: {len(pins)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
