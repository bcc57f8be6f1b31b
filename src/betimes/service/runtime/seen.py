"""The service as one reader sees it: all of it, or, where jobs are private, a user's own jobs and nothing of others.

What is asked about jobs goes through here, from routes and pages alike. `access.rights` decides whose jobs a reader may
know of; a job of others is one that there is not, as `squeue` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from betimes.errors import Unknown
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.runtime.to_views import words_of
from betimes.service.scheduling.reasons import CODES
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.view import AdviceView
from betimes.service.views.models import (
    AccuracyView,
    By,
    EventView,
    JobFilter,
    JobStory,
    JobView,
    NodeView,
    Page,
    PolicyView,
    Quote,
    Reason,
    UsageView,
    WhatIfSpec,
    WhatIfView,
)
from betimes.units import instant

_OWN = frozenset(("observed", "lost"))
"""Codes of reasons whose sentences are about the job alone; others may name the jobs ahead."""

T = TypeVar("T", JobView, Quote)


class Seen:
    """Answers about jobs. only: the user of the log whose jobs alone are shown; null: all are, and as they are.

    reader: the name by which that user asks, where the log has another.
    """

    def __init__(self, backend: ServiceBackend, only: str | None = None, reader: str = "") -> None:
        self.backend, self.only, self._reader = backend, only, reader

    def shows(self, owner: str | None) -> bool:
        """Whether the jobs of a user are shown."""
        return self.only is None or owner == self.only

    async def owners(self, numbers: Sequence[int], /) -> dict[int, str]:
        """The owners of jobs, by their numbers; those that are shown."""
        found = await self.backend.owners(numbers)
        return {number: owner for number, owner in found.items() if self.shows(owner)}

    def filtered(self, which: JobFilter) -> JobFilter | None:
        """The conditions that select shown jobs alone; null: they select none."""
        if self.only is None:
            return which
        is_own = which.user in (None, self.only, self._reader)
        return which.model_copy(update={"user": self.only}) if is_own else None

    async def jobs(self, which: JobFilter, /) -> Page[JobView]:
        """Some of the jobs, newest first."""
        wanted = self.filtered(which)
        if wanted is None:
            return Page(items=[])
        page = await self.backend.jobs(wanted)
        return page.model_copy(update={"items": [self.shown(job) for job in page.items]})

    async def job(self, number: int, /, *, renews: bool = True) -> JobStory:
        """Everything about a job. Raises Unknown."""
        story = await self.backend.job(number, renews=renews)
        if self.only is None:
            return story
        if not self.shows(story.job.user):
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        narrowed = {
            "job": self.shown(story.job),
            "quotes": [self.shown(quote) for quote in story.quotes],
            "no_quote": _alone(story.no_quote),
            "events": [self.event(event) for event in story.events],
            "preempted": [],
            "displaced": [],
        }
        return story.model_copy(update=narrowed)

    def shown(self, view: T) -> T:
        """A job or a promise, with no other job in its reason."""
        if self.only is None or view.reason is None:
            return view
        return view.model_copy(update={"reason": _alone(view.reason)})

    def event(self, event: EventView) -> EventView:
        """An event of a job that is shown, or of none: of the latter only that it happened."""
        if self.only is None:
            return event
        if event.job_id is None:
            return event.model_copy(update={"data": {}, "text": None})
        data = _without_others(event.data)
        return event.model_copy(update={"data": data, "text": words_of(event.kind, data)})

    async def accuracy(
        self, since_s: float | None, until_s: float, by: By | None, listed: bool
    ) -> AccuracyView:
        """The accuracy of the promises of a period to the jobs that are shown. Raises Refused."""
        return await self.backend.accuracy(since_s, until_s, by, listed, self.only)

    async def usage(
        self,
        since_s: float | None,
        until_s: float,
        by: Literal["user", "group", "name", "label", "account"] | None,
    ) -> UsageView:
        """The use by the jobs that are shown in a period. Raises Refused."""
        return await self.backend.usage(since_s, until_s, by, self.only)

    async def nodes(self) -> list[NodeView]:
        """Every node, with the jobs there that are shown."""
        nodes = await self.backend.nodes()
        if self.only is None:
            return nodes
        own = await self.owners([number for node in nodes for number in node.jobs])
        return [
            node.model_copy(update={"jobs": [each for each in node.jobs if each in own]}) for node in nodes
        ]

    async def policy(self) -> PolicyView:
        """The policy in force; why it started no job names one."""
        found = await self.backend.policy()
        return found if self.only is None else found.model_copy(update={"idle": _alone(found.idle)})

    async def advice(self) -> AdviceView:
        """The latest advice; the reasons why policies were left out may name jobs."""
        found = await self.backend.advice()
        if self.only is None or found.advice is None:
            return found
        return found.model_copy(update={"advice": found.advice.model_copy(update={"left_out": ()})})

    async def quote(self, spec: JobSpec, user: str) -> Quote:
        """A job's promise if submitted now. Raises Refused."""
        return self.shown(await self.backend.quote(spec, user))

    async def what_if(self, asked: WhatIfSpec, user: str) -> WhatIfView:
        """The ends of the jobs that are shown after changes to these. Raises as the backend does."""
        if self.only is None:
            return await self.backend.what_if(asked, user)
        named = [*asked.cancel, *(edit.job_id for edit in asked.edit)]
        own = await self.owners(named)
        for number in named:
            if number not in own:
                raise Unknown(f"there is no job {number}; `betimes jobs` lists them")
        found = await self.backend.what_if(asked, user)
        jobs = [one for one in found.jobs if self.shows(one.user)]
        return found.model_copy(update={"jobs": jobs, "before": None, "after": None})


def _alone(reason: Reason | None) -> Reason | None:
    """A reason that names no other job: its code in words, and when the job is expected to start."""
    if reason is None or reason.code in _OWN:
        return reason
    text, about_at = CODES[reason.code], reason.evidence.get("about_at")
    if about_at is None:
        return Reason(code=reason.code, text=text)
    return Reason(
        code=reason.code, text=f"{text}; expected {instant(about_at)}", evidence={"about_at": about_at}
    )


def _without_others(value: Any) -> Any:
    """The details of an event with every reason in them as `_alone` has it."""
    if isinstance(value, list):
        return [_without_others(each) for each in value]
    if not isinstance(value, dict):
        return value
    of: Mapping[str, Any] = value
    if "code" in of and of["code"] in CODES and "text" in of:
        alone = _alone(Reason(code=of["code"], text=of["text"], evidence=of.get("evidence", {})))
        assert alone is not None, "it was made of one"
        return alone.model_dump()
    return {name: _without_others(each) for name, each in of.items()}
