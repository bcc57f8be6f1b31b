"""Submissions: jobs are checked, accepted all or none, once for each idempotency key, and promised an end."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Sequence, Set
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from betimes.errors import BetimesError, Conflict, InputError, Refused
from betimes.service.machines.machine import REAL
from betimes.service.runtime.admission import (
    can_be_known,
    check_launchable,
    check_sent,
    rounding_note,
    spread_note,
)
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.inbox import IdempotencyKey, Newcomers
from betimes.service.runtime.promises import Promises
from betimes.service.runtime.requests import submit
from betimes.service.runtime.submission_filter import SubmissionFilter
from betimes.service.runtime.to_views import quote_view, submitted_view
from betimes.service.scheduling.admission import made_up_note
from betimes.service.scheduling.job import spec_text
from betimes.service.scheduling.reasons import compiling
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.waiting_for import in_vain
from betimes.service.spec.job_spec import JobSpec, split_after
from betimes.service.spec.pipelines import check_names
from betimes.service.uploads.kept import Uploads
from betimes.service.views.models import Quote, QuoteOption, Reason, Submitted

K = TypeVar("K", bound=Hashable)


class Locks(Generic[K]):
    """One lock per name; waiting requests get it in order of arrival."""

    def __init__(self) -> None:
        self._locks: dict[K, asyncio.Lock] = {}
        self._users: Counter[K] = Counter()  # that hold the lock of a name, or wait for it

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def held(self, name: K) -> AsyncIterator[None]:
        """The lock of a name, while this is entered."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._users[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._locks[name]


log = logging.getLogger(__name__)


class _Taken(NamedTuple):
    """Accepted jobs: the numbers of each, the promises that were quick to make, and what each has become."""

    numbers: list[list[int]]
    newcomers: Newcomers
    specs: Sequence[JobSpec]


class Submissions:
    """Takes jobs, and quotes for jobs that are not submitted. Calls may overlap."""

    def __init__(self, controller: Controller, promises: Promises, uploads: Uploads) -> None:
        self.controller, self.promises, self.uploads = controller, promises, uploads
        self.filter: SubmissionFilter | None = None
        self.keys = Locks[tuple[str, str]]()  # of submissions that are being taken, by user and key

    @property
    def scheduler(self) -> Scheduler:
        """The state; replaced if the store could not be written."""
        return self.controller.scheduler

    async def submit(self, specs: Sequence[JobSpec], user: str, key: str | None = None) -> list[Submitted]:
        """Take all of the jobs, or none, and promise them an end; the same key again gives the same answer.

        Raises Refused, Conflict.
        """
        if key is None:
            return await self._promised(await self._take(specs, user, None), user)
        async with self.keys.held((user, key)):  # its first answer may still be on its way
            before = await self._answer(user, key)
            taken = await self._take(specs, user, key) if before is None else None
        if taken is None:
            return await self._again(before, specs, user, key)
        return await self._promised(taken, user)

    async def quote(self, spec: JobSpec, user: str) -> Quote:
        """A job's promise if submitted now. Raises Refused."""
        check_names([spec])
        (spec,) = await self.prepared([spec], user)
        self.check_uploads([spec])
        await self._check_launchable([spec], user)
        promise = await self.promises.ask(spec, user)
        return promise.model_copy(update=self._notes(spec, user, promise))

    async def _answer(self, user: str, key: str) -> Any:
        """The store's answer under a key. A file is read at once: a thread would take longer."""
        store = self.controller.store
        if store.is_remote:
            return await asyncio.to_thread(store.answer, user, key)
        return store.answer(user, key)

    async def _options(self, specs: Sequence[JobSpec], user: str) -> list[QuoteOption]:
        """The options of a job submitted alone: wait, or rent a machine."""
        if len(specs) != 1 or specs[0].array:
            return []
        try:
            return await self.promises.options(specs[0], user)
        except InputError:
            # The submission, which comes next, refuses it.
            return []
        except BetimesError as error:
            log.warning("no options for the job to be submitted: %s", error)
            return []

    async def _take(self, specs: Sequence[JobSpec], user: str, key: str | None) -> _Taken:
        """Accept all of the jobs, or none."""
        asked, specs = specs, await self.prepared(specs, user)
        self.check_uploads(specs)
        await self._check_launchable(specs, user)
        options = await self._options(specs, user)
        idempotency = None if key is None else IdempotencyKey(user, key, [spec_text(spec) for spec in asked])
        newcomers = Newcomers(options)
        taken = await self.controller.ask(
            f"submission of {user}",
            partial(submit, specs=specs, user=user),
            idempotency,
            newcomers,
            jobs=[on for spec in specs for text in spec.after if isinstance(on := split_after(text)[0], int)],
        )
        return _Taken(taken, newcomers, specs)

    async def prepared(self, specs: Sequence[JobSpec], user: str) -> list[JobSpec]:
        """The jobs as the operator's filter leaves them, with what queues and users give them. Raises Refused."""
        found = specs if self.filter is None else await self.filter.of(specs, user)
        placed: list[JobSpec] = []
        for place, spec in enumerate(found):
            try:
                placed.append(self.scheduler.queues.placed(spec, user))
            except Refused as error:
                raise error.among(len(specs), place) from None
        return placed

    async def _promised(self, taken: _Taken, user: str) -> list[Submitted]:
        """The promises to accepted jobs; they stay accepted even if nothing can be promised now."""
        numbers, newcomers, specs = taken
        made = newcomers.quotes
        try:
            if any(ids[-1] in each.missing for each in self.scheduler.arrays.coming for ids in numbers):
                await self.controller.until_there(newcomers.numbers)
        except BetimesError as error:  # they are taken on after the next start
            log.warning("not all elements of the arrays just taken are jobs yet: %s", error)
        if made is None and not self.scheduler.stands_by:
            try:
                made = await self.promises.make(newcomers.numbers, newcomers.options)
            except BetimesError as error:
                log.warning("no promise yet for the jobs just taken: %s", error)
                self.promises.is_behind = True
        made = made or []
        made += await self._promised_later({quote.job_id for quote in made}, newcomers)
        quotes = {quote.job_id: quote for quote in made}
        return [
            self._annotated(submitted_view(ids, [quotes[n] for n in ids if n in quotes]), spec, user)
            for ids, spec in zip(numbers, specs, strict=True)
        ]

    async def _promised_later(self, promised: Set[int | None], newcomers: Newcomers) -> list[Quote]:
        """The promises to those of the jobs that wait for others before they may queue."""
        blocked = self.promises.blocked([n for n in newcomers.numbers if n not in promised])
        try:
            return await self.promises.make(blocked) if blocked else []
        except BetimesError as error:
            log.warning("no promise yet for the jobs just taken that wait for others: %s", error)
            return []

    async def _again(self, before: Any, specs: Sequence[JobSpec], user: str, key: str) -> list[Submitted]:
        """The same answer as to the first request with this key."""
        if before["asked"] != [spec_text(spec) for spec in specs]:
            raise Conflict(f"the key {key!r} was used for other jobs; choose another")
        answers: list[Submitted] = []
        for ids, spec in zip(before["job_ids"], specs, strict=True):
            rows = [
                row for n in ids for row in (await asyncio.to_thread(self.controller.store.quotes, n))[:1]
            ]
            answers.append(
                self._annotated(submitted_view(ids, [quote_view(row) for row in rows]), spec, user)
            )
        return answers

    def _annotated(self, submitted: Submitted, spec: JobSpec, user: str) -> Submitted:
        """With the reason, if nothing can be promised yet, and what its user should know."""
        found: dict[str, Any] = self._notes(spec, user, submitted.quote)
        if submitted.quote is None and (why := self._why_not_promised(submitted.job_id, spec)) is not None:
            found["reason"] = Reason(**why)
        return submitted.model_copy(update=found) if found else submitted

    def _why_not_promised(self, number: int, spec: JobSpec) -> dict[str, Any] | None:
        """Why a job cannot be promised an end yet, or waits in vain."""
        if self.scheduler.stands_by:
            return compiling(self.scheduler.ledger.policy)
        job = self.scheduler.ledger.jobs.get(number)
        return self._waits_in_vain(spec) if job is None else job.reason

    def _waits_in_vain(self, spec: JobSpec) -> dict[str, Any] | None:
        """The failed dependency for which it was cancelled at once."""
        for text in spec.after:
            waited_for, on = split_after(text)
            if isinstance(waited_for, int) and self.scheduler.is_met(waited_for, on) is False:
                return in_vain(waited_for, self.scheduler.ended_as(waited_for) or "")
        return None

    def _notes(self, spec: JobSpec, user: str, promise: Quote | None) -> dict[str, str]:
        """Notes on its run time, the rounding of its units and its promise, and whether its command is run."""
        ledger = self.scheduler.ledger
        nodes = self.scheduler.nodes_in_brief.samples
        texts = ledger.runtime_estimates.notes(user, spec)
        if (rounding := rounding_note(spec, nodes, ledger.policy)) is not None:
            texts.append(rounding)
        if (spread := spread_note(spec, nodes, ledger.policy)) is not None:
            texts.append(spread)
        if (narrower := self.scheduler.admission.narrower_note(spec)) is not None:
            texts.append(narrower)
        member = self.scheduler.temporary_member
        if member is not None and promise is not None and promise.finish_at is not None:
            texts.append(
                f"promised under {member}, the member of the portfolio in force now; the end changes if another member "
                "is selected"
            )
        if spec.mail_type and not self.controller.sends_mail:
            texts.append("no mail is sent: this service has no way to send any (betimes up --mail)")
        if spec.rent == "never" and self.scheduler.offers_for(spec):
            texts.append(
                f"{ledger.policy} rents for all jobs together: this one may run on a rented machine, too, though it is "
                "not to be rented for"
            )
        if (why := self.scheduler.leases.why_too_long(spec, user)) is not None:
            texts.append(f"{why}: it waits for a machine that is not rented")
        notes = {
            "note": "; ".join(texts) or None,
            "not_run": made_up_note(
                spec, nodes, self.scheduler.offers_for(spec) if self._rents_made_up else ()
            ),
        }
        return {name: text for name, text in notes.items() if text is not None}

    @property
    def _rents_made_up(self) -> bool:
        rentals = self.controller.rentals
        return rentals is not None and rentals.kind not in REAL

    def check_uploads(self, specs: Sequence[JobSpec]) -> None:
        """Raise Refused for a directory that was not sent; others stay until the jobs that name them are over."""
        for upload in dict.fromkeys(spec.upload for spec in specs):
            if upload is not None and self.uploads.use(upload) is None:
                raise Refused(
                    f"no directory with the SHA-256 {upload} was sent, or it is gone as no job had named it; send "
                    "it again: `betimes submit --upload DIR`, or `upload` of the Python client",
                    "upload",
                )

    async def _check_launchable(self, specs: Sequence[JobSpec], user: str) -> None:
        """Raise Refused for a command or a folder that no node has, NotAllowed for a user whose jobs cannot run here.

        In a thread, since the disk is asked; but not for what another Unix user names, who may see more or less of it.
        """
        owners = self.controller.launches.owners
        is_others = owners.unix_user(user) is not None
        if is_others:
            await asyncio.to_thread(owners.check, user)
        if any(spec.upload is not None for spec in specs):
            await asyncio.to_thread(check_sent, specs, self.uploads.path)
        if not is_others and can_be_known(self.scheduler.nodes_in_brief.samples):
            await asyncio.to_thread(check_launchable, specs, self.controller.launches.kept)
