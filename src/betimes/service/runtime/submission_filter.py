"""The submission filter: an operator's command that changes or refuses jobs before they are taken.

It reads a job as JSON from its standard input, and writes it to its standard output; nothing: the job stays as it is.
Where it exits with another status than 0, the job is refused with the last line of its standard error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pydantic import ValidationError

from betimes.errors import Refused
from betimes.service.executors.commands import answer_of
from betimes.service.runtime.launches import Launches
from betimes.service.spec.job_spec import JobSpec
from betimes.units import length

LIMIT_S = 10.0
MOST_AT_ONCE = 8

log = logging.getLogger(__name__)


class SubmissionFilter:
    """Runs the command for each job that is submitted or quoted, an array once, as the service's user.

    limit_s: for each. What it may not do is change whose a job is: the user is in BETIMES_USER.
    """

    def __init__(self, command: str, launches: Launches, limit_s: float = LIMIT_S) -> None:
        self._command, self._launches, self._limit_s = command, launches, limit_s
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def of(self, specs: Sequence[JobSpec], user: str) -> list[JobSpec]:
        """The jobs as the command has changed them. Raises Refused."""
        asked = [asyncio.ensure_future(self._filtered(spec, user)) for spec in specs]
        try:
            return list(await asyncio.gather(*asked))
        finally:
            for task in asked:
                task.cancel()

    async def _filtered(self, spec: JobSpec, user: str) -> JobSpec:
        given = spec.model_dump_json(exclude_defaults=True)
        environment = {**self._launches.environment_of(None), "BETIMES_USER": user}
        try:
            async with self._slots:
                answer = await answer_of(self._command, environment, self._limit_s, given)
        except TimeoutError:
            log.error("the submission filter has not answered within %s", length(self._limit_s))
            raise Refused(
                f"the service's submission filter has not answered within {length(self._limit_s)}; try again, or ask "
                "an operator"
            ) from None
        except OSError as error:
            raise Refused(f"the service's submission filter cannot be run: {error}") from None
        if answer.status:
            why = f"the service's submission filter refuses it (exit status {answer.status})"
            raise Refused(answer.last_line or why)
        if not answer.out.strip():
            return spec
        try:
            return JobSpec.model_validate_json(answer.out)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "its answer"
            log.error("the submission filter answers with no job: %s: %s", where, first["msg"])
            raise Refused(
                f"the service's submission filter answers with no job ({where}: {first['msg']}); an operator has to "
                "mend it"
            ) from None
