"""What `scontrol` and `sdiag` print: nodes, partitions, configuration, reservations, and the controller's counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from betimes.errors import InputError
from betimes.slurm.hostlist import hostnames
from betimes.slurm.jobs import count, instant, limit_s

T = TypeVar("T")
_CLOSED = (
    *("DOWN", "DRAIN", "FAIL", "MAINT", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "INVAL", "REBOOT", "RESERVED"),
    *("POWER", "BLOCKED"),
)
"""Of the words of a node's state: it takes no jobs now, or only those of a reservation."""
_MARKS = frozenset("*~#%!$@^")
"""The same of the marks behind the first word that versions before 22.05 print, as in `IDLE*`."""
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")


@dataclass(frozen=True)
class SlurmNode:
    """A node: its CPUs for jobs, whether it takes any now, and the words of its state."""

    name: str
    cpus: int
    is_open: bool
    state: str
    memory_mib: int = 0
    gres: str = ""


@dataclass(frozen=True)
class Partition:
    """A partition. limit_s: the longest time limit, infinity: none; default_s: without one of the job's, NaN: none.

    is_default: jobs that name no partition go there.
    """

    name: str
    nodes: frozenset[str]
    is_up: bool
    limit_s: float
    default_s: float
    tier: int
    is_exclusive: bool
    is_oversubscribed: bool
    preempts: bool
    is_default: bool = False


@dataclass(frozen=True)
class Reservation:
    """A reservation of nodes, seconds since 1970."""

    name: str
    from_at: float
    to_at: float
    nodes: frozenset[str]


@dataclass(frozen=True)
class Counts:
    """The controller's counts: as of `as_of_at` (NaN: not yet), by its own clock, which is `now_at`."""

    now_at: float
    as_of_at: float
    waiting: int
    running: int


@dataclass(frozen=True)
class Machines:
    """Nodes and partitions by name, the configuration, and what was not understood of these."""

    nodes: Mapping[str, SlurmNode]
    partitions: Mapping[str, Partition]
    settings: Mapping[str, str]
    reservations: tuple[Reservation, ...] = ()
    not_understood: tuple[str, ...] = ()

    @property
    def default_partition(self) -> tuple[str, ...]:
        """The partition of jobs that name none; empty: there is none."""
        return tuple(each.name for each in self.partitions.values() if each.is_default)[:1]

    def nodes_of(self, partition: Partition) -> list[SlurmNode]:
        """The nodes of a partition that have CPUs for jobs."""
        return [
            node for name in partition.nodes if (node := self.nodes.get(name)) is not None and node.cpus > 0
        ]

    @property
    def whole_nodes(self) -> bool:
        """Whether every job gets whole nodes (`select/linear`)."""
        return self.settings.get("SelectType", "").endswith("linear")

    @property
    def hides_jobs(self) -> bool:
        """Whether users see no jobs of others (`PrivateData=jobs`)."""
        return "jobs" in self.settings.get("PrivateData", "").lower().split(",")

    @property
    def hides_users(self) -> bool:
        """Whether users may not know of others (`PrivateData=users`)."""
        return "users" in self.settings.get("PrivateData", "").lower().split(",")

    @property
    def kept_s(self) -> float:
        """For how long `squeue` shows a job that is over (`MinJobAge`)."""
        found = re.match(r"\d{1,9}", self.settings.get("MinJobAge", ""), re.ASCII)
        return float(found[0]) if found else 300.0


def read_machines(nodes: str, partitions: str, settings: str, reservations: str) -> Machines:
    """Of what `scontrol -o show node`, `partition`, `config` and `reservation` print."""
    strange = list[str]()
    return Machines(
        {each.name: each for each in _each(nodes, _node, strange)},
        {each.name: each for each in _each(partitions, _partition, strange)},
        read_settings(settings),
        tuple(_each(reservations, _reservation, strange)),
        tuple(strange),
    )


def _each(text: str, read: Callable[[Mapping[str, str]], T], strange: list[str]) -> Iterator[T]:
    for line in text.split("\n"):
        if not line.strip() or line.startswith("No reservations"):
            continue
        try:
            found = read(fields(line))
        except (KeyError, ValueError, InputError):
            strange.append(line)
        else:
            yield found


def fields(line: str) -> dict[str, str]:
    """`A=1 B=x y C=` as a mapping; a value may hold blanks, and of a field that comes twice the first counts."""
    found, at = dict[str, str](), list(_FIELD.finditer(line))
    for number, match in enumerate(at):
        to = at[number + 1].start() if number + 1 < len(at) else len(line)
        found.setdefault(match[1], line[match.end() : to].strip())
    return found


def read_settings(text: str) -> dict[str, str]:
    """Of what `scontrol show config` prints: `Name = value`, a line each."""
    found = dict[str, str]()
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name.strip(), re.ASCII):
            found.setdefault(name.strip(), value.strip())
    return found


def read_counts(text: str) -> Counts | None:
    """Of what `sdiag` prints; null: it is not understood."""
    now = re.search(r"^sdiag output at .*\((\d{1,11})\)", text, re.MULTILINE)
    as_of = re.search(r"^Job states ts:.*\((\d{1,11})\)", text, re.MULTILINE)
    waiting = re.search(r"^Jobs pending:\s*(\d{1,10})\s*$", text, re.MULTILINE)
    running = re.search(r"^Jobs running:\s*(\d{1,10})\s*$", text, re.MULTILINE)
    if now is None or waiting is None or running is None:
        return None
    as_of_at = float(as_of[1]) if as_of is not None else math.nan
    return Counts(float(now[1]), as_of_at or math.nan, int(waiting[1]), int(running[1]))


def _node(of: Mapping[str, str]) -> SlurmNode:
    state = of["State"]
    cpus = count(of.get("CPUEfctv") or of["CPUTot"])
    is_open = cpus > 0 and not (_MARKS & set(state) or any(word in state.upper() for word in _CLOSED))
    gres = of.get("Gres", "")
    memory = count(of.get("RealMemory") or "0")
    return SlurmNode(of["NodeName"], cpus, is_open, state, memory, "" if gres == "(null)" else gres)


def _partition(of: Mapping[str, str]) -> Partition:
    nodes, sharing = of.get("Nodes", ""), of.get("OverSubscribe") or of.get("Shared") or "NO"
    default = of.get("DefaultTime", "NONE")
    return Partition(
        of["PartitionName"],
        frozenset(hostnames("" if nodes == "(null)" else nodes)),
        of.get("State", "UP") == "UP",
        limit_s(of.get("MaxTime", "UNLIMITED")),
        math.nan if default == "NONE" else limit_s(default),
        count(of.get("PriorityTier") or of.get("Priority") or "1"),
        sharing.startswith("EXCLUSIVE"),
        sharing.startswith(("FORCE", "YES")),
        of.get("PreemptMode", "OFF") not in ("OFF", "GANG", "OFF,GANG"),
        of.get("Default") == "YES",
    )


def _reservation(of: Mapping[str, str]) -> Reservation:
    nodes = of.get("Nodes", "")
    return Reservation(
        of["ReservationName"],
        instant(of["StartTime"]),
        instant(of["EndTime"]),
        frozenset(hostnames("" if nodes == "(null)" else nodes)),
    )
