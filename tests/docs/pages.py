"""Pages of the documentation, and the blocks and commands on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:Save\s+this\s+as\s+`(?P<file>[^`]+)`[^`]*)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.S | re.M
)
# Verbs that are, or need, a service.
LIVE = ("up", "demo", "submit", "quote", "jobs", "job", "logs", "wait", "nodes", "events", "policy")
LIVE += ("cancel", "hold", "release", "edit", "requeue", "suspend", "resume", "rerun", "usage", "efficiency")


def is_live(words: list[str]) -> bool:
    """Whether a command is, or needs, a service."""
    return words[0] == "betimes" and (words[1] in LIVE or "--live" in words)


def text_of(name: str) -> str:
    """A page's text."""
    return (ROOT / name).read_text(encoding="utf-8")


def commands(body: str) -> list[tuple[str, str]]:
    """Commands of a block of the shell, each with the text below it."""
    parts = re.split(r"^\$ (.*)\n", body, flags=re.M)
    assert not parts[0].strip(), f"a block of the shell begins with a command: {parts[0]!r}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def small_log() -> str:
    """A small log in the Standard Workload Format: rigid jobs, whose users ask for twice the run time."""
    lines = ["; MaxProcs: 64"]
    for job in range(60):
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
