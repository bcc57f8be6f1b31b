"""Prolog and epilog: commands of the operator's before and after each run, on each of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from betimes.service.access.unix_users import own_name
from betimes.service.executors.commands import failure_of
from betimes.service.executors.protocol import Launch

VARIABLES = ("JOB_ID", "JOB_NAME", "ATTEMPT", "UNITS", "NODE_NAMES", "CHECKPOINT_DIR")
"""Of a job's variables, those that its prolog and epilog have, too; none that the job can choose."""


@dataclass(frozen=True)
class Prologs:
    """Runs them as the service's user. One that takes longer than `limit_s` has failed."""

    prolog: str | None
    epilog: str | None
    limit_s: float
    environment: Mapping[str, str]  # of each, before what it knows of a run

    async def __call__(
        self, when: Literal["prolog", "epilog"], launch: Launch, variables: Mapping[str, str]
    ) -> str | None:
        """Run the one of a run; why it failed."""
        command = self.prolog if when == "prolog" else self.epilog
        if command is None:
            return None
        known = {name: launch.env[name] for name in (f"BETIMES_{word}" for word in VARIABLES)}
        user = {"BETIMES_UNIX_USER": launch.user or own_name()}
        environment = {**self.environment, **known, **user, **variables}
        mark = f"{when} {launch.identity} {launch.folder}"
        why = await failure_of(command, environment, self.limit_s, "it", mark)
        return None if why is None else f"the {when} of job {launch.run.job} failed: {why}"
