"""Verbs, policies and generators of workloads that other installed packages add, by entry points of the groups
`betimes.verbs`, `betimes.policies` and `betimes.workloads`.

To look through the installed packages takes hundredths of a second. So nobody looks until a name is unknown here, or
all names are listed.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from betimes.errors import BetimesError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

Group = Literal["betimes.verbs", "betimes.policies", "betimes.workloads"]
VERBS: Group = "betimes.verbs"
POLICIES: Group = "betimes.policies"
WORKLOADS: Group = "betimes.workloads"

PAPERS = "betimes-papers"
OF_PAPERS: Mapping[Group, tuple[str, ...]] = {
    VERBS: ("reproduce",),
    POLICIES: ("lrtp", "owl", "rand", "stratus", "synergy"),
    WORKLOADS: ("eva", "workload-1", "workload-2", "workload-3"),
}
"""Names that the package `PAPERS` adds, so that whoever lacks it is told to install it."""


def added(group: Group) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, of all installed packages; of two of one name the first on Python's path."""
    return _added(group, tuple(sys.path))


def package_of(entry: EntryPoint) -> str:
    """The name of the installed package that an entry point is of."""
    return entry.dist.name if entry.dist is not None else entry.module


def about(entry: EntryPoint) -> str:
    """The package of an entry point, and its own one line about itself."""
    summary = entry.dist.metadata["Summary"] if entry.dist is not None else None
    return package_of(entry) + (f": {summary}" if summary else "")


def load(entry: EntryPoint) -> Any:
    """Import what an entry point names; raises BetimesError where that fails."""
    try:
        return entry.load()
    except Exception as error:  # any error is that of the package
        raise BetimesError(
            f"{entry.name}, of the package {package_of(entry)}: {type(error).__name__}: {error}; repair the package, "
            "or remove it"
        ) from error


def or_else(group: Group, name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a message about an unknown name: the package that has it, or the nearest names and who lists all."""
    if name in OF_PAPERS[group]:
        return f": it is in the package {PAPERS}, which is not installed; `pip install {PAPERS}`"
    others = [other for other in dict.fromkeys([*known, *added(group)]) if other != name]
    all_of = {
        VERBS: "`betimes --help` lists all",
        POLICIES: "`betimes policies` lists all",
        WORKLOADS: f"there are {', '.join(others)}",
    }
    return f"{did_you_mean(name, others, most)}; {all_of[group]}"


@cache
def _added(group: Group, _path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found
