"""The rights of roles: the one place that decides them, for routes, pages and streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from betimes.errors import NotAllowed
from betimes.service.access.auth import OPERATOR, Caller

Action = Literal["see", "submit", "steer", "read", "operate"]
"""See the queue, the nodes and the account; submit, and ask what would be; change a job; read a job's output, command
and events; change nodes, policy, fleet, users.
"""


class Privacy(Protocol):
    """The jobs that users may know of, as another scheduler has it that is watched."""

    @property
    def is_private(self) -> bool:
        """Whether users see their own jobs alone."""
        ...

    def name_of(self, user: str) -> str:
        """The name of a user in the log."""
        ...


@dataclass(frozen=True)
class Rights:
    """The rights of the roles; reads_all: everybody may read every job. privacy: null: everybody sees the queue."""

    reads_all: bool = False
    privacy: Privacy | None = None

    def only(self, caller: Caller) -> str | None:
        """The user of the log whose jobs alone a caller may know of; null: those of all."""
        if self.privacy is None or caller.role == OPERATOR or not self.privacy.is_private:
            return None
        return self.privacy.name_of(caller.user)

    def owns(self, caller: Caller, owner: str | None) -> bool:
        """Whether a caller is the user of the log to whom a job belongs."""
        return owner == (caller.user if self.privacy is None else self.privacy.name_of(caller.user))

    def may(self, caller: Caller, action: Action, owner: str | None = None) -> bool:
        """Whether a caller may do that; owner: the user of the job that it is about, null: any job's."""
        if caller.role == OPERATOR or action == "see":
            return True
        match action:
            case "submit":
                return caller.role == "user"
            case "steer":
                return caller.role == "user" and self.owns(caller, owner)
            case "read":
                return (self.reads_all and self.only(caller) is None) or self.owns(caller, owner)
            case _:
                return False

    def check(self, caller: Caller, action: Action, owner: str | None = None, job: int | None = None) -> None:
        """Raise NotAllowed unless the caller may do that."""
        if self.may(caller, action, owner):
            return
        if action == "operate":
            raise NotAllowed(
                f"only operators do that, and {caller.user} is a {caller.role} here; ask one of them"
            )
        if caller.role == "viewer" and action != "read":
            raise NotAllowed(
                f"{caller.user} is a viewer here, who sees the queue and the account; ask an operator for the role user"
            )
        does = "change it" if action == "steer" else "read its command, output and events"
        raise NotAllowed(f"job {job} belongs to {owner}: only {owner} and operators {does}")
