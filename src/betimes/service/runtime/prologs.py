"""Prolog and epilog: commands of the operator's before and after each run on the service's machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from betimes.service.access.unix_users import own_name
from betimes.service.executors.protocol import Launch
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.node_health import drain_here, failure_of

VARIABLES = ("JOB_ID", "JOB_NAME", "ATTEMPT", "UNITS", "NODE_NAMES", "CHECKPOINT_DIR", "STATE")
"""Of a job's variables, those that its prolog and epilog have, too; none that the job can choose."""


@dataclass(frozen=True)
class Prologs:
    """Runs them as the service's user. One that fails, or takes longer than `limit_s`, has the node drained."""

    controller: Controller
    prolog: str | None
    epilog: str | None
    limit_s: float

    async def __call__(
        self, when: Literal["prolog", "epilog"], launch: Launch, variables: Mapping[str, str]
    ) -> str | None:
        """Run the one of a run; why it failed, once the node is drained."""
        command = self.prolog if when == "prolog" else self.epilog
        if command is None:
            return None
        known = {name: launch.env[name] for name in (f"BETIMES_{word}" for word in VARIABLES)}
        user = {"BETIMES_UNIX_USER": launch.user or own_name()}
        why = await failure_of(
            command, self.controller.launches, self.limit_s, "it", {**known, **user, **variables}
        )
        if why is None:
            return None
        why = f"the {when} of job {launch.run.job} failed: {why}"
        await drain_here(self.controller, when, why)
        return why
