"""The submission filter: an operator's command that changes or refuses jobs before they are taken.

It reads a job as JSON from its standard input, and writes it to its standard output; nothing: the job stays as it is.
Where it exits with another status than 0, the job is refused with the last line of its standard error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import suppress

from pydantic import ValidationError

from betimes.errors import Refused
from betimes.printing import printable
from betimes.service.runtime.launches import Launches
from betimes.service.spec.job_spec import JobSpec
from betimes.units import length

LIMIT_S = 10.0
MOST_AT_ONCE = 8
MOST_SAID = 500  # characters of its reason

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
        async with self._slots:
            status, out, said = await self._answer(spec.model_dump_json(exclude_defaults=True), user)
        if status:
            last = printable(said.strip().rpartition("\n")[2])[:MOST_SAID]
            raise Refused(last or f"the service's submission filter refuses it (exit status {status})")
        if not out.strip():
            return spec
        try:
            return JobSpec.model_validate_json(out)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "its answer"
            log.error("the submission filter answers with no job: %s: %s", where, first["msg"])
            raise Refused(
                f"the service's submission filter answers with no job ({where}: {first['msg']}); an operator has to "
                "mend it"
            ) from None

    async def _answer(self, job: str, user: str) -> tuple[int, str, str]:
        """Exit status, standard output and standard error. Raises Refused."""
        variables = {
            **self._launches.kept_for(None),  # and none of the service's secrets
            "BETIMES_STATE": str(self._launches.state),
            "BETIMES_USER": user,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", self._command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/", env=variables,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Refused(f"the service's submission filter cannot be run: {error}") from None
        try:
            async with asyncio.timeout(self._limit_s):
                out, said = await process.communicate(job.encode())
        except TimeoutError:
            log.error("the submission filter has not answered within %s", length(self._limit_s))
            raise Refused(
                f"the service's submission filter has not answered within {length(self._limit_s)}; try again, or ask "
                "an operator"
            ) from None
        finally:
            with suppress(ProcessLookupError):  # and what it has left behind
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return process.returncode or 0, out.decode(errors="replace"), said.decode(errors="replace")
