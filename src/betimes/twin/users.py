"""The users of a workload, who share what it runs on: `--users fair:half-life=7d,file=USERS.csv`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from betimes.core.pool.columns import User
from betimes.errors import InputError, TraceError
from betimes.kernels import Records, as_array, blank
from betimes.twin.history import user_rows
from betimes.units import parse_duration
from betimes.workload import Workload
from betimes.workload.small_table import SmallTable

HALF_LIFE_S = 7 * 86400.0
_LIMITS = {"max_running_jobs": 1.0, "max_units": 1.0, "max_memory_gib": 1024.0}
"""Columns of a file of users, and how much of the core's measure one of them is."""


@dataclass(frozen=True)
class Entitled:
    """A user's weight, and limits of what the user's jobs hold at once: jobs, units, MiB; infinity: none."""

    weight: float = 1.0
    most_running: float = math.inf
    most_units: float = math.inf
    most_memory: float = math.inf

    @property
    def has_limits(self) -> bool:
        """Whether the user's running jobs are limited."""
        return min(self.most_running, self.most_units, self.most_memory) < math.inf

    def write(self, user: User, half_life_s: float) -> None:
        """Write it into the record of a user."""
        user.weight, user.half_life_s = self.weight, half_life_s
        user.most_running, user.most_units, user.most_memory = (
            self.most_running,
            self.most_units,
            self.most_memory,
        )


@dataclass(frozen=True)
class FairUsers:
    """Fair shares: after each half-life the past counts half as much. entitled: by user; others weigh 1."""

    half_life_s: float = HALF_LIFE_S
    entitled: dict[str, Entitled] = field(default_factory=dict[str, Entitled])

    @property
    def has_limits(self) -> bool:
        """Whether any user's running jobs are limited."""
        return any(each.has_limits for each in self.entitled.values())

    def records(self, workload: Workload) -> Records[User]:
        """A record a user, as `user_rows` numbers them, and a last one for jobs of unknown users.

        Raises InputError for a workload without users, and for a job that its user's limits never let run.
        """
        rows = user_rows(workload)
        if not (rows >= 0).any():
            raise InputError(
                f"--users fair: no job of {workload.name} names its user; take a trace that has users, such as an SWF "
                "log, or leave it out"
            )
        users = blank(User, int(rows.max()) + 2)
        names = names_of(workload)
        unknown = set(self.entitled) - set(names)
        if unknown:
            raise InputError(
                f"--users: no job of {workload.name} is of user {min(unknown)}; leave the line out"
            )
        for number in range(len(users)):
            mine = self.entitled.get(names[number], Entitled()) if number < len(names) else Entitled()
            mine.write(users[number], self.half_life_s)
        most = as_array(users)["most_units"][rows]
        if (workload.max_units > most).any():
            row = int(np.argmax(workload.max_units > most))
            raise InputError(
                f"--users: job {workload.job_id[row]} can use {workload.max_units[row]} units, more than the "
                f"{most[row]:g} of its user {names[rows[row]]}; raise max_units"
            )
        return users


def names_of(workload: Workload) -> list[str]:
    """The users of a workload in the order in which `user_rows` numbers them."""
    known = np.unique(workload.user)
    known = known[known >= 0].tolist()
    return (
        [workload.user_names[user] for user in known]
        if workload.user_names
        else [str(user) for user in known]
    )


def parse_users(text: str) -> FairUsers:
    """`fair`, `fair:half-life=7d`, `fair:file=USERS.csv`, or both; raises InputError.

    The file has the columns user and weight, and any of max_running_jobs, max_units and max_memory_gib; empty: no
    limit.
    """
    kind, _, rest = text.partition(":")
    if kind != "fair":
        raise InputError(
            f"--users {text}: write fair, fair:half-life=7d, or fair:half-life=7d,file=USERS.csv"
        )
    half_life_s, entitled = HALF_LIFE_S, dict[str, Entitled]()
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name == "half-life":
            half_life_s = parse_half_life(value, f"--users {text}")
        elif name == "file":
            entitled = _read(value)
        else:
            raise InputError(f"--users {text}: {name!r} is neither half-life=7d nor file=USERS.csv")
    return FairUsers(half_life_s, entitled)


def parse_half_life(text: str, where: str) -> float:
    """A half-life, s, above 0; raises InputError."""
    try:
        half_life_s = parse_duration(text)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if half_life_s <= 0.0:
        raise InputError(f"{where}: a half-life is longer than 0 s, such as 7d")
    return half_life_s


def _read(path: str) -> dict[str, Entitled]:
    table = SmallTable(Path(path), TraceError)
    if missing := {"user", "weight"} - set(table.columns):
        raise table.fail(f"the header has no column {min(missing)}")
    if unknown := set(table.columns) - {"user", "weight", *_LIMITS}:
        raise table.fail(
            f"the column {min(unknown)} means nothing; known are user, weight, {', '.join(_LIMITS)}"
        )
    found = dict[str, Entitled]()
    for row in table.rows:
        given = dict[str, float]()
        for name, each in {"weight": 1.0, **_LIMITS}.items():
            if row.cells.get(name):
                given[name] = table.number(row, name) * each
                if given[name] <= 0.0:
                    raise table.fail(f"expected a number above 0, got {row.cells[name]}", row.line, name)
        if row.cells["user"] in found:
            raise table.fail(f"user {row.cells['user']} stands twice", row.line, "user")
        found[row.cells["user"]] = Entitled(
            given.get("weight", 1.0), *(given.get(name, math.inf) for name in _LIMITS)
        )
    return found
