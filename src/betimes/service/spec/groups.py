"""Groups of users, such as a PI and students: a weight, limits and budgets that they have together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from betimes.service.spec.job_spec import MOST_UNITS, WHOLE, JobSpec
from betimes.service.spec.tables import Named, parse_tables
from betimes.service.spec.users import User, UserName

_Count = Annotated[int, Field(ge=1, le=10**9), WHOLE]
_Usd = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Group(Named):
    """A group, as a table `[[groups]]` of the settings has it; null: no limit."""

    users: list[UserName] = Field(min_length=1, max_length=10_000)
    weight: float = Field(default=1.0, ge=0.001, le=1e6, allow_inf_nan=False)
    """Of the fair share, relative to other groups and to users without one; its users share that by their weights."""
    max_running_jobs: _Count | None = None  # of all of them together; those that may start next count
    max_queued_jobs: _Count | None = None
    max_units: Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE] | None = None
    usd_per_day: _Usd | None = None  # for rented machines
    usd_per_month: _Usd | None = None

    @property
    def purse(self) -> str:
        """The name of its budgets, which no user has."""
        return f"@{self.name}"

    def budget_usd(self, period: str) -> float | None:
        """What it may spend a `day` or a `month`; null: any amount."""
        return self.usd_per_day if period == "day" else self.usd_per_month

    @property
    def counted(self) -> dict[str, int]:
        """The running jobs, and units of these, that it may have, by what it counts."""
        most = {f"running jobs of group {self.name}": self.max_running_jobs}
        most[f"units of group {self.name}"] = self.max_units
        return {what: count for what, count in most.items() if count is not None}


class Groups:
    """The groups of a service. A user is in one of them at most."""

    def __init__(self, groups: tuple[Group, ...] = ()) -> None:
        self.all = groups
        self._by_user = {user: group for group in groups for user in group.users}
        self._by_purse = {group.purse: group for group in groups}

    def of(self, user: str) -> Group | None:
        """The group of a user."""
        return self._by_user.get(user)

    def with_purse(self, name: str) -> Group | None:
        """The group with these budgets."""
        return self._by_purse.get(name)

    @cached_property
    def counted(self) -> dict[str, int]:
        """What the groups may have of all that is counted."""
        return {what: most for group in self.all for what, most in group.counted.items()}

    def claims(self, user: str, spec: JobSpec) -> Mapping[str, int]:
        """What a job has while it runs, of what is counted: its resources, and its part of what its group may have."""
        group = self.of(user)
        if group is None:
            return spec.resources
        asked = (1 if what.startswith("running") else spec.max_units for what in group.counted)
        return {**spec.resources, **dict(zip(group.counted, asked, strict=True))}

    def weighted(self, users: Mapping[str, User]) -> Mapping[str, User]:
        """The users, those of groups with the part of the group's weight that theirs is of all members'."""
        if not self.all:
            return users
        found = dict(users)
        for group in self.all:
            members = {name: users.get(name) or User(name=name) for name in group.users}
            whole = sum(member.weight for member in members.values())
            for name, member in members.items():
                found[name] = member.model_copy(update={"weight": group.weight * member.weight / whole})
        return found


def parse_groups(tables: Any) -> Groups:
    """Tables `[[groups]]`, or a file of them. Raises ValueError, naming group and field."""
    found = parse_tables(Group, tables)
    whose: dict[str, str] = {}
    for group in found:
        for user in group.users:
            if user in whose:
                raise ValueError(
                    f"group {group.name}: {user} is in group {whose[user]} already; leave one of them out"
                )
            whose[user] = group.name
    return Groups(found)
