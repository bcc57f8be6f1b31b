"""The view of other users' jobs: that something happened, when and why, and no details.

Everybody sees the queue: name, user, state, size, labels, promise and reason of each job (`JobView`). Where jobs are
private, nothing of it is shown (`runtime.seen`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from betimes.service.access.auth import Caller
from betimes.service.api.context import Context
from betimes.service.spec.job_spec import JobSpec, hook_host
from betimes.service.views.models import EventView, JobStory, JobView, Reason

_ABOUT_USERS = ("user-set", "token-made", "token-revoked")
_HIDDEN: dict[str, Any] = {"data": {}, "text": None}


class Events:
    """Events of the log as one caller may see them."""

    def __init__(self, here: Context, caller: Caller) -> None:
        self._here, self._caller, self._seen = here, caller, here.seen_by(caller)
        self._sees_all = here.rights.may(caller, "operate")
        self._owners: dict[int, str] = {}

    async def page(self, events: Sequence[EventView]) -> list[EventView]:
        """Some of them."""
        if self._sees_all:
            return list(events)
        jobs = {event.job_id for event in events if event.job_id is not None}
        self._owners |= await self._here.backend.owners(sorted(jobs - self._owners.keys()))
        return [self._shown(event) for event in events if not self.leaves_out(event)]

    def leaves_out(self, event: EventView) -> bool:
        """Whether an event, whose job's owner was looked up, is one of a private job of others."""
        return event.job_id is not None and not self._seen.shows(self._owners.get(event.job_id))

    def stream(self, events: AsyncIterator[EventView]) -> AsyncIterator[EventView]:
        """The same, as they come; of those that are left out only the number, with which a reader resumes."""
        return events if self._sees_all else self._streamed(events)

    async def _streamed(self, events: Any) -> AsyncGenerator[EventView, None]:
        async with contextlib.aclosing(events):
            async for event in events:
                shown = await self.page([event])
                yield shown[0] if shown else event.model_copy(update=_HIDDEN)

    def _shown(self, event: EventView) -> EventView:
        event = self._seen.event(event)
        if event.kind == "set-aside":  # a traceback may show anything
            return event.model_copy(update=_HIDDEN)
        if event.job_id is None:
            is_others = event.kind in _ABOUT_USERS and event.data.get("user") != self._caller.user
            return event.model_copy(update=_HIDDEN) if is_others else event
        owner = self._owners.get(event.job_id)
        if self._here.rights.owns(self._caller, owner):
            return event
        if not self._here.rights.may(self._caller, "read", owner):
            return event.model_copy(update=_HIDDEN)
        return _without_env(event)


def job_for(here: Context, caller: Caller, job: JobView) -> JobView:
    """A job in a list; what could not be started is part of its command, which is part of what was submitted."""
    if here.rights.may(caller, "read", job.user):
        spec = job.spec and _spec_for(here, caller, job.user, job.spec)
        return job if spec is job.spec else job.model_copy(update={"spec": spec})
    reason = job.reason
    if reason is not None and reason.code == "start-failed":
        reason = Reason(code=reason.code, text="its command could not be started")
    return job.model_copy(update={"spec": None, "reason": reason})


def story_for(here: Context, caller: Caller, story: JobStory) -> JobStory:
    """The story of a job that the caller may read; its environment and its hook are for its user and operators."""
    spec = _spec_for(here, caller, story.job.user, story.spec)
    if spec is story.spec:
        return story
    return story.model_copy(update={"spec": spec, "events": [_without_env(event) for event in story.events]})


def _spec_for(here: Context, caller: Caller, owner: str, spec: JobSpec) -> JobSpec:
    if here.rights.owns(caller, owner) or here.rights.may(caller, "operate"):
        return spec
    hook = spec.notify and hook_host(spec.notify)
    return spec.model_copy(update={"env": {}, "notify": hook, "mail_user": None})


def _without_env(event: EventView) -> EventView:
    spec = event.data.get("spec")
    if not (isinstance(spec, dict) and "env" in spec):
        return event
    return event.model_copy(update={"data": {**event.data, "spec": {**spec, "env": {}}}})
