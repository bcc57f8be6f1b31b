"""A user of the service: role, share and limits, as the API takes and returns them and the event log keeps them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from betimes.service.spec.job_limits import JobLimits
from betimes.service.spec.job_spec import MOST_UNITS, WHOLE, in_schema

Role = Literal["viewer", "user", "operator"]
"""The rights of a user: see the queue and the account; run jobs, too; everything."""

USER_WORD = "[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}"
USER_NAME = f"^(?!operator$){USER_WORD}$"  # `operator` is a cause of events by itself


def _name(name: str) -> str:
    if not re.fullmatch(USER_NAME, name):
        raise ValueError(
            f"{name[:40]!r} is no name here: give up to 64 letters, digits and _ . @ + -, and not `operator`"
        )
    return name


UserName = Annotated[str, in_schema(pattern=USER_NAME), AfterValidator(_name)]
_Jobs = Annotated[int, Field(ge=1, le=10**9), WHOLE]


class UserLimits(JobLimits):
    """Limits of what a user may have at once, and spend, and of each job; null: no limit."""

    max_running_jobs: _Jobs | None = None
    max_queued_jobs: _Jobs | None = None
    max_units: Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE] | None = Field(
        default=None, description="of the jobs that run, together"
    )
    max_memory_gib: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = Field(
        default=None, description="likewise"
    )
    max_usd_per_day: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = Field(
        default=None, description="for rented machines, by the day in UTC"
    )


_Weight = Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)]


class User(BaseModel):
    """A user, from the last event `user-set`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"name": "ada", "weight": 2.0}]}
    )

    name: UserName
    role: Role = "user"
    weight: _Weight = Field(default=1.0, description="of the fair share, relative to those of others")
    limits: UserLimits = UserLimits()
    disabled: bool = False

    def changed(self, changes: UserChanges) -> User:
        """The user after these changes."""
        given = {name: getattr(changes, name) for name in changes.model_fields_set - {"limits"}}
        if changes.limits is not None:
            limits = changes.limits.model_dump(exclude_unset=True)
            given["limits"] = self.limits.model_copy(update=limits)
        return self.model_copy(update={name: value for name, value in given.items() if value is not None})


class UserChanges(BaseModel):
    """Changes of a user: fields left out, or null, stay as they are; of the limits, null removes one."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"limits": {"max_units": 64}}, {"disabled": True}]},
    )

    role: Role | None = None
    weight: _Weight | None = None
    limits: UserLimits | None = None
    disabled: bool | None = None


class TokenSpec(BaseModel):
    """A token of a user, which is named so that it can be found and revoked."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"user": "ada", "name": "laptop", "expires_s": 7_776_000}]},
    )

    user: UserName
    name: UserName = Field(default="token", description="of the user's tokens, as in laptop")
    expires_s: Annotated[float, Field(gt=0, le=1e10, allow_inf_nan=False)] | None = Field(
        default=None, description="for how long it is good; null: until it is revoked"
    )
