"""Write ``requirements.lock``: the exact version of every package that Betimes runs and is developed with.

Called as ``python3 -m tools.lock`` (``make lock``). The newest versions that ``pyproject.toml`` allows are resolved
together, and what came of it is written down, the packages that only development needs and those of Ray in sections
of their own: names and versions only, so that the file holds for any platform and any mirror. The oldest supported
Python makes the lock, since a version that it can install, every later one can install too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tools.set_up import ALONE, SECTIONS, pinned

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"

HEADER = """\
# Exact versions of everything that Betimes runs and is developed with. Written by `make lock`; do not edit.
"""
MEANING = {
    "run": "what Betimes runs with, and what installs it",
    "development": "what is needed besides",
    "ray": "for jobs on several machines (betimes[ray])",
    ALONE: "what builds the site of the documents, in an environment of its own",
}


def main() -> int:
    """Resolve, write the lock file, and report what changed; 0, or 1 on the wrong Python."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    oldest = project["requires-python"].removeprefix(">=")
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != oldest:
        print(
            f"A lock is made with the oldest supported Python, {oldest}; this is {running}.", file=sys.stderr
        )
        print(f"Run `PYTHON=python{oldest} make lock`.", file=sys.stderr)
        return 1
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    of_papers = [each for each in papers["dependencies"] if not each.startswith(f"{project['name']}[")]
    run_time = [*asked_for(project, "all"), *of_papers, *settings["dependency-groups"]["set-up"]]
    development = [*run_time, *asked_for(project, "dev")]
    with_ray = [*development, *asked_for(project, "ray"), *settings["dependency-groups"]["ray-tune"]]
    site = settings["dependency-groups"][ALONE]
    wanted = [*with_ray, *site]
    with tempfile.TemporaryDirectory(prefix="betimes-lock-") as folder:
        print(f"==> Resolving {len(wanted)} packages in a fresh environment (a minute or two)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        pins = _resolved(pip, wanted)
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(pins.values()))
        sections: dict[str, list[str]] = {}
        known = set[str]()
        for part, packages in (
            ("run", run_time),
            ("development", development),
            ("ray", with_ray),
            (ALONE, site),
        ):
            needed = _resolved(pip, [*packages, "--constraint", str(constraints)])
            # What is installed alone is named whole.
            sections[part] = [
                pins[name] for name in sorted(needed.keys() - (set() if part == ALONE else known))
            ]
            known |= needed.keys()
    before = (
        {pin for section in pinned(LOCK.read_text()).values() for pin in section} if LOCK.exists() else set()
    )
    LOCK.write_text(
        HEADER
        + "".join(
            f"\n{SECTIONS[part]}: {MEANING[part]}\n" + "".join(f"{pin}\n" for pin in section)
            for part, section in sections.items()
        )
    )
    for pin in sorted(before.symmetric_difference(pins.values()), key=str.lower):
        print(f"  {'-' if pin in before else '+'} {pin}")
    print(f"==> {LOCK.name}: " + ", ".join(f"{len(section)} of {part}" for part, section in sections.items()))
    return 0


def asked_for(project: dict[str, Any], *extras: str) -> list[str]:
    """What the project asks for with these extras, which may name others of it, as `betimes[simulate]` does."""
    wanted = list[str](project["dependencies"])
    for extra in extras:
        for each in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[(.+)\]", each)
            wanted += asked_for(project, *own[1].split(",")) if own else [each]
    return list(dict.fromkeys(wanted))


def _resolved(pip: list[str], arguments: list[str]) -> dict[str, str]:
    """The pin of every package that ``pip install`` with these arguments brings, by its normalised name."""
    answer = subprocess.run(
        [*pip, "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", *arguments],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    packages = [package["metadata"] for package in json.loads(answer)["install"]]
    return {
        re.sub(r"[-_.]+", "-", package["name"]).lower(): f"{package['name']}=={package['version']}"
        for package in packages
    }


if __name__ == "__main__":
    sys.exit(main())
