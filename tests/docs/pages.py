"""Pages of the documentation, and the blocks and commands on them.

Every block runs with its page (`test_pages.py`, and what needs a service in `test_service_pages.py`) and every
configuration is read (`test_blocks.py`), unless a comment above the block says why not (`<!-- not run: REASON -->`) or
its page stands in `APART`. Commands that do not run are still ones that the command line understands.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:Save\s+this\s+as\s+`(?P<file>[^`]+)`[^`]*?)?(?:^<!-- not run: (?P<why>[^>]+) -->\n\n)?"
    r"^(?P<indent> *)```(?P<kind>\w+)\n(?P<body>.*?)^(?P=indent)```$",
    re.S | re.M,
)
APART = {
    "benchmarks/README.md": "a benchmark takes minutes, and runs by `make bench`",
    "docs/cheat-sheet.md": "a list of commands, not a sequence; each can be typed",
    "docs/how-to/own-package.md": "a package that is installed; tests/test_plugins.py",
    "docs/how-to/ray-tune.md": "Ray Tune beside a service; tests/service/executors/ray/test_tune.py",
    "docs/how-to/rent-by-script.md": "tests/service/executors/rented/test_command_cloud.py",
    "docs/notes/fair-share.md": "formulas, and a benchmark",
    "docs/reference/cli.md": "generated: how each verb is called",
    "docs/reference/python-api.md": "generated: signatures",
    "docs/reference/python-client.md": "generated: signatures",
    "docs/reproductions.md": "a reproduction takes minutes to hours; each runs on less among the tests of papers",
    "docs/tutorial-renting.md": "jobs are waited for and a machine is killed; test_service_pages.py",
}
"""Pages that are not followed from top to bottom by a test of all pages, and why, or which test has them."""

SIMULATED = ("advise", "simulate", "compare", "policies", "trace", "reproduce", "tune", "--help", "--version")
SIMULATED += ("learn-waits", "size-fleet", "policy learn-waits", "fleet size")
# Of the shell, what sets the scene and prints nothing.
SETTING = ("make", "export", ".")


def pages() -> list[str]:
    """All pages, by their names from the root."""
    folders = (ROOT / name for name in ("benchmarks", "deploy", "docs", "examples", "papers"))
    found = (ROOT / "README.md", *(path for folder in folders for path in folder.rglob("*.md")))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks(page: str) -> list[re.Match[str]]:
    """The blocks of a page."""
    return [*BLOCK.finditer(text_of(page))]


def followed() -> list[str]:
    """The pages that have blocks and are followed from top to bottom."""
    return [page for page in pages() if page not in APART and any(not each["why"] for each in blocks(page))]


def is_live(words: list[str]) -> bool:
    """Whether a command is, or needs, a service, or is for the shell beside one."""
    if words[0] != "betimes":
        return words[0] not in SETTING or words == ["make", "run"]
    named = words[1] in SIMULATED or " ".join(words[1:3]) in SIMULATED
    return "--live" in words or not named


def has_live(page: str) -> bool:
    """Whether a page has commands, or Python, that need a service."""
    return any(
        "betimes.Client()" in each["body"]
        or (each["kind"] == "console" and any(is_live(words_of(line)) for line, _ in commands(each["body"])))
        for each in blocks(page)
        if not each["why"]
    )


def runs_here(page: str) -> bool:
    """Whether a page has commands, or Python, that need no service."""
    return any(
        (each["kind"] == "python" and not each["file"] and "betimes.Client()" not in each["body"])
        or (each["kind"] == "console" and any(_is_simulated(line) for line, _ in commands(each["body"])))
        for each in blocks(page)
        if not each["why"]
    )


def _is_simulated(command: str) -> bool:
    words = words_of(command)
    return words == ["make", "compare"] or (words[0] == "betimes" and not is_live(words))


def words_of(command: str) -> list[str]:
    """The words of a command line."""
    return shlex.split(command, comments=True)


def text_of(name: str) -> str:
    """A page's text."""
    return (ROOT / name).read_text(encoding="utf-8")


def commands(body: str) -> list[tuple[str, str]]:
    """Commands of a block of the shell, each with the text below it."""
    parts = re.split(r"^\$ (.*)\n", body, flags=re.M)
    assert not parts[0].strip(), f"a block of the shell begins with a command: {parts[0]!r}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def small_log(jobs: int = 60) -> str:
    """A small log in the Standard Workload Format: rigid jobs, whose users ask for twice the run time."""
    lines = ["; MaxProcs: 64"]
    for job in range(jobs):
        run_s, units = 60 + 700 * (job % 7), 1 << (job % 5)
        lines.append(
            f"{job + 1} {97 * job} 0 {run_s} {units} -1 -1 {units} {2 * run_s} -1 1 {job % 4} -1 -1 -1 -1 -1 -1"
        )
    return "\n".join(lines) + "\n"


def assert_printed(command: str, shown: str, printed: str) -> None:
    """Each line that a page shows below a command is printed by it, in this order."""
    rest = iter([_narrow(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line.strip() and line != "...":
            assert _narrow(line) in rest, f"{command}\nprints no line {line!r} there, but\n{printed}"


def _narrow(line: str) -> str:
    """How wide a table is may depend on how fast the machine is: a million jobs a second need one more place."""
    return re.sub(" {2,}", "  ", line.rstrip())
