"""Shares and limits of users, by what their jobs hold and have held of late.

The accounts are a part of the log's fold. The engine counts the same by itself (`core.shares.count_held`), to the last
bit; a new engine begins with these accounts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter

from betimes.cluster.resources import unit_charge
from betimes.core.pool.columns import User as UserRecord
from betimes.core.shares import recent_after
from betimes.errors import Refused
from betimes.kernels import blank
from betimes.service.engines.messages import Sharing
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.reasons import reason
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import User
from betimes.twin.users import HALF_LIFE_S

MIB_A_GIB = 1024.0


@dataclass
class ShareAccount:
    """The holdings of a user's jobs, now and of late; charge in cores (`cluster.resources.unit_charge`)."""

    since_s: float
    recent: float = 0.0
    charge: float = 0.0
    running: int = 0
    units: float = 0.0
    memory: float = 0.0  # MiB

    def recent_at(self, now_s: float, half_life_s: float) -> float:
        """The charge held of late, at an instant of the engine's clock."""
        passed_s = now_s - self.since_s
        return (
            recent_after(self.recent, self.charge, passed_s, half_life_s) if passed_s > 0.0 else self.recent
        )


class Standing(NamedTuple):
    """The part that a user has had of late of all that users had, and the part that the user's weight gives."""

    recent_frac: float
    share_frac: float

    def why_behind(self, user: str) -> str:
        """Why jobs of a user who has had more come after others'; completes the reason of one."""
        return f"{user} used more of late: {self.recent_frac:.0%}, where {self.share_frac:.0%} is the user's share"


@dataclass
class Shares:
    """The accounts of all users that have one: from the first user or fair share on.

    half_life_s: of fair shares; null: users do not share, but may have limits.
    """

    half_life_s: float | None = None
    accounts: dict[str, ShareAccount] = field(default_factory=dict[str, ShareAccount])
    changes: Annotated[int, Field(exclude=True)] = 0
    """Of weights, limits and the half-life, since the ledger was read."""

    @property
    def counted_half_life_s(self) -> float:
        """The half-life by which users' recent use is counted, also where it decides nothing."""
        return HALF_LIFE_S if self.half_life_s is None else self.half_life_s

    def open(self, names: Iterable[str], jobs: Collection[Job], now_s: float) -> None:
        """Begin accounts for these users, and for those of the jobs; what the jobs hold counts from now on."""
        new = dict.fromkeys([*names, *(job.user for job in jobs)])
        for name in [name for name in new if name not in self.accounts]:
            self.accounts[name] = ShareAccount(now_s)
            for job in jobs:
                if job.user == name:
                    self.moved(job, 0, now_s)

    def moved(self, job: Job, before: int, now_s: float) -> None:
        """A job holds `job.counted_units` from now on, after `before`: as `core.shares.count_held`."""
        account, units = self.accounts.get(job.user), job.counted_units
        if account is None or job.set_id is not None or units == before:
            return
        amounts = job.spec.unit.most
        account.recent = account.recent_at(now_s, self.counted_half_life_s)
        account.since_s = max(now_s, account.since_s)
        account.charge += (units - before) * unit_charge(amounts)
        starts = (units > 0) - (before > 0)
        account.running += starts
        account.units += starts * float(job.spec.max_units)
        account.memory += starts * float(job.spec.max_units) * amounts[2]
        if account.running == 0:
            account.charge = account.units = account.memory = 0.0

    def set_half_life(self, half_life_s: float | None, now_s: float) -> None:
        """Another half-life from now on."""
        for account in self.accounts.values():
            account.recent, account.since_s = account.recent_at(now_s, self.counted_half_life_s), now_s
        self.half_life_s = half_life_s

    def standing(
        self, users: Mapping[str, User], waiting: Iterable[str], now_s: float
    ) -> dict[str, Standing]:
        """Of users who have jobs, or have held something of late: their parts, and their shares; empty: nobody has."""
        half_life_s = self.counted_half_life_s
        held = {name: account.recent_at(now_s, half_life_s) for name, account in self.accounts.items()}
        whole = math.fsum(held.values())
        if whole <= 0.0:
            return {}
        present = {name for name in self.accounts if held[name] > 0.0} | set(waiting)
        weights = {name: users[name].weight if name in users else 1.0 for name in sorted(present)}
        all_weights = math.fsum(weights.values())
        return {
            name: Standing(held.get(name, 0.0) / whole, weight / all_weights)
            for name, weight in weights.items()
        }

    def limit_of(
        self, job: Job, users: Mapping[str, User], nominated: Iterable[Job]
    ) -> dict[str, Any] | None:
        """The reason of a waiting job that would exceed a limit of its user; null: it would not.

        nominated: jobs of all users that start on the nodes that they are bound to once there is room.
        """
        user, account = users.get(job.user), self.accounts.get(job.user)
        if user is None or account is None or job.set_id is not None:
            return None
        most, limits = float(job.spec.max_units), user.limits
        needs = most * job.spec.unit.most[2] / MIB_A_GIB
        bound = [each for each in nominated if each.user == job.user and each.units == 0]
        bound_units = float(sum(each.spec.max_units for each in bound))
        bound_memory = sum(each.spec.max_units * each.spec.unit.most[2] for each in bound)
        for what, has, more, limit in (
            ("jobs", float(account.running + len(bound)), 1.0, limits.max_running_jobs),
            ("units", account.units + bound_units, most, limits.max_units),
            ("GiB of memory", (account.memory + bound_memory) / MIB_A_GIB, needs, limits.max_memory_gib),
        ):
            if limit is not None and has + more > limit:
                text = f"the running jobs of {job.user} hold {has:g} of at most {limit:g} {what}"
                return reason("user-limit", text, user=job.user, what=what, has=has, most=float(limit))
        return None

    def is_for_engine(self, users: Mapping[str, User]) -> bool:
        """Whether the engine has to know users: they share, or one has a limit of what runs."""
        return self.half_life_s is not None or any(has_limits(user) for user in users.values())

    def sharing(self, users: Mapping[str, User]) -> Sharing:
        """The users as an engine takes them, with what the log has counted."""
        records = blank(UserRecord, len(self.accounts) + 1)  # the last is anybody's who has no account yet
        for record, name in zip(
            (records[at] for at in range(len(records))), [*self.accounts, ""], strict=True
        ):
            user, account = users.get(name), self.accounts.get(name)
            limits = user.limits if user is not None else None
            record.weight = user.weight if user is not None else 1.0
            if self.half_life_s is None:
                record.weight = math.inf  # so that nobody is ahead of anybody
            record.half_life_s = self.counted_half_life_s
            record.most_running = _or_none(limits and limits.max_running_jobs)
            record.most_units = _or_none(limits and limits.max_units)
            record.most_memory = MIB_A_GIB * _or_none(limits and limits.max_memory_gib)
            if account is not None:
                for column, value in asdict(account).items():
                    setattr(record, column, value)
        return Sharing({name: at for at, name in enumerate(self.accounts)}, records)


SHARES = TypeAdapter(Shares)
"""Shares in a snapshot."""


def has_limits(user: User) -> bool:
    """Whether a user's running jobs are limited."""
    limits = user.limits
    return any(
        each is not None for each in (limits.max_running_jobs, limits.max_units, limits.max_memory_gib)
    )


def check_limits(user: User, spec: JobSpec) -> None:
    """Raise Refused for a job that its user's limits never let run."""
    limits, name = user.limits, user.name
    if limits.max_units is not None and spec.max_units > limits.max_units:
        raise Refused(f"the jobs of {name} may have {limits.max_units} units together", "max_units")
    memory_gib = spec.max_units * spec.unit.most[2] / MIB_A_GIB
    if limits.max_memory_gib is not None and memory_gib > limits.max_memory_gib:
        raise Refused(
            f"the jobs of {name} may have {limits.max_memory_gib:g} GiB of memory together, and this one needs "
            f"{memory_gib:g}",
            "memory_gib",
        )


def _or_none(limit: float | None) -> float:
    return math.inf if limit is None else float(limit)
