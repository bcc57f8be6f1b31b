"""Users of the service: how they are added and changed, and what the runs of each hold now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from betimes.errors import Conflict, Refused, Unknown
from betimes.service.scheduling.job import memory_of
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.shares import MIB_A_GIB, check_limits
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.groups import Groups
from betimes.service.spec.job_spec import JobSpec, parse_array
from betimes.service.spec.users import TokenSpec, User, UserChanges

WAITING = (Status.QUEUED, Status.BLOCKED, Status.HELD)  # for whatever: in the queue of their user


class Held(NamedTuple):
    """The holdings of a user's runs together."""

    running_jobs: int
    units: int
    memory_gib: float


def held_now(ledger: Ledger, name: str, *, to_be: bool = False) -> Held:
    """The holdings of the user's runs; one whose job is stopping counts until it has ended.

    to_be: with jobs whose machines are rented or have still to be left by others, at their full width.
    """
    jobs = units = 0
    memory_gib = 0.0
    for job in ledger.jobs.values():
        if job.user != name:
            continue
        if job.run is not None:
            jobs, units = jobs + 1, units + sum(units for _, units in job.run.places)
            memory_gib += memory_of(job.spec, job.run.places, ledger.nodes)
        elif to_be and (job.rental is not None or job.is_nominated):
            jobs, units = jobs + 1, units + job.spec.max_units
            memory_gib += job.spec.max_units * job.spec.unit.most[2] / MIB_A_GIB
    return Held(jobs, units, memory_gib)


class Users(Part):
    """The users of the service; while there are none, whoever has the state directory's token does everything."""

    name = "users"

    def __init__(self, state: SchedulerState, groups: Groups) -> None:
        self._state, self._groups = state, groups

    def add(self, user: User, cause: str) -> User:
        """Add a user. Raises Conflict for a name that is taken; Refused, as `change` does."""
        if user.name in self._state.ledger.users:
            raise Conflict(f"there is a user {user.name} already; `betimes users set {user.name}` changes it")
        self._check_limits(user)
        return self._log(user, cause)

    def change(self, name: str, changes: UserChanges, cause: str) -> User:
        """Change a user. Raises Unknown; Refused, naming the field, for a limit below what runs now."""
        before = self._user(name)
        user = before.changed(changes)
        if user.limits != before.limits:
            self._check_limits(user)
        return user if user == before else self._log(user, cause)

    def check_queue(self, specs: Sequence[JobSpec], name: str) -> None:
        """Raise Refused for new jobs that are together too many in the queue for their user, or that user's group."""
        user, group = self._state.ledger.users.get(name), self._groups.of(name)
        limits = list[tuple[str, Collection[str], int | None]]()
        if user is not None:
            limits.append((name, {name}, user.limits.max_queued_jobs))
        if group is not None:
            limits.append((f"group {group.name}", set(group.users), group.max_queued_jobs))
        coming = [len(parse_array(spec.array)[0]) if spec.array and not spec.as_one else 1 for spec in specs]
        for whose, names, most in limits:
            if most is not None and (queued := self.queued(names)) + sum(coming) > most:
                raise Refused(
                    f"{whose} may have {most} jobs in the queue, and has {queued}; wait for some to start, or cancel "
                    "some",
                    "array" if len(specs) == 1 and coming[0] > 1 else None,
                )

    def queued(self, names: Collection[str]) -> int:
        """The jobs of these users that wait."""
        ledger = self._state.ledger
        waiting = sum(
            job.user in names and job.set_id is None and job.status in WAITING for job in ledger.jobs.values()
        )
        return waiting + sum(map(ledger.arrays.count, names))

    def refuses(self, spec: JobSpec, user: str) -> None:
        """A job that the limits of its user never let run."""
        if user in self._state.ledger.users:
            check_limits(self._state.ledger.users[user], spec)

    def note_token(self, what: str, spec: TokenSpec, cause: str) -> None:
        """A token of a user is made or revoked. Raises Unknown."""
        self._state.log(what, cause, **{**spec.model_dump(mode="json"), "user": self._user(spec.user).name})

    def _user(self, name: str) -> User:
        user = self._state.ledger.users.get(name)
        if user is None:
            raise Unknown(
                f"there is no user {name[:64]!r}; `betimes users` lists them, `betimes users add` adds one"
            )
        return user

    def _check_limits(self, user: User) -> None:
        for what, has in held_now(self._state.ledger, user.name, to_be=True)._asdict().items():
            limit = getattr(user.limits, f"max_{what}")
            if limit is not None and limit < has:
                shown = what.replace("_", " ").replace("memory gib", "GiB of memory")
                raise Refused(
                    f"{limit:g} is less than the {has:g} {shown} that {user.name} has now; give that at least, or "
                    "cancel some jobs first",
                    f"limits.max_{what}",
                )

    def _log(self, user: User, cause: str) -> User:
        data = user.model_dump(mode="json", exclude_none=True)
        self._state.log("user-set", cause, user=data.pop("name"), **data)
        return user
