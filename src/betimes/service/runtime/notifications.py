"""Notifications about jobs: a JSON document to a URL, or to a command on the service's machine; and mail.

They follow the event log: after a restart those go out that had not been delivered, so that each is delivered at least
once. Nothing here is waited for by a job or a turn, and what is under way is bounded.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from betimes.errors import NotAllowed, StoreError
from betimes.service.access.unix_users import account_of
from betimes.service.executors.commands import answer_of
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.mail import Mails, MailSettings, NotSent
from betimes.service.scheduling.events import Event
from betimes.service.spec.job_spec import hook_host, is_url
from betimes.service.store.batch import Batch, Row
from betimes.service.views.models import JobView, Reason
from betimes.units import instant, length, sure_of

if TYPE_CHECKING:
    import httpx

KINDS = ("started", "finished", "failed", "cancelled", "promise-broken")
ENDS = ("finished", "failed", "cancelled")
UPTO = "notified"
"""Of table `meta`: the last event up to which all are delivered, and the setting's hook then."""
LIMIT_S = 10.0  # of a delivery
DELAYS_S = (1.0, 10.0, 60.0)  # before each further try
MOST_AT_ONCE = 8
MOST_OPEN = 500  # to be delivered, or between two tries: further ones stay in the log until then

EVENTS_A_NOTE = 10_000  # a start after a crash reads as many again that notify nobody

_OF_THE_SHELL = re.compile(
    "alias|bg|break|case|cd|command|continue|eval|exec|exit|export|false|fg|for|function|getopts|hash|if|jobs|kill|local|"
    "printf|pwd|read|readonly|return|select|set|shift|test|time|times|trap|true|type|ulimit|umask|unalias|unset|until|"
    "wait|while"
)

log = logging.getLogger(__name__)


def missing_program(hook: str) -> str | None:
    """The program of a command to notify, where this machine certainly has none of that name; null: it may run."""
    first = re.match(r"\s*([A-Za-z0-9_][A-Za-z0-9_.+-]*)(\s|$)", hook)
    if (
        is_url(hook)
        or first is None
        or _OF_THE_SHELL.fullmatch(first[1])
        or shutil.which(first[1]) is not None
    ):
        return None
    return first[1]


class Notification(NamedTuple):
    """A message, and its receiver."""

    to: str  # a URL, or a command
    event_id: int
    body: dict[str, Any]
    folder: str | None  # of the job
    user: str | None = None  # the Unix user as whom a command runs; null: the service's
    mail: EmailMessage | None = None  # to be sent there instead


class Undelivered(Exception):
    """A try has failed; the text says why."""


class Notifier:
    """Delivers the notifications of one service while it is entered, in a thread with an event loop.

    So a name that does not resolve, or a hook that hangs, holds up nothing but other notifications.

    to: where those of all jobs go, besides where each job asks for its own; null: nowhere. mail: how mail is sent that
    jobs ask for; null: not at all. limit_s: of each try.
    delays_s: before each further try. A hook that has failed for good gets one try each until it works again.
    """

    def __init__(
        self,
        controller: Controller,
        to: str | None,
        *,
        mail: MailSettings | None = None,
        limit_s: float = LIMIT_S,
        delays_s: Sequence[float] = DELAYS_S,
    ) -> None:
        self._controller, self._store, self._to = controller, controller.store, to
        self._limit_s, self._delays_s = limit_s, delays_s
        self._mails = None if mail is None else Mails(mail, self._store, self._is_coming)
        controller.sends_mail = mail is not None
        jobs = controller.scheduler.ledger.jobs.values()
        self._asking = {job.job_id for job in jobs if job.spec.notify is not None or job.spec.mail_type}
        self._newest = self._since = self._store.last_event_id()
        self._kept = self._store.meta(UPTO)
        known = json.loads(self._kept) if self._kept else {"upto": self._newest, "to": to}
        self._read = max(int(known["upto"]), self._store.archived_upto)
        if known["to"] == to:  # else the events until now are no news for it
            self._since = self._read
        self._open: Counter[int] = Counter()  # notifications that are not settled, by event
        self._failing: set[str] = set()
        self._loop, self._woken, self._stopping = asyncio.new_event_loop(), asyncio.Event(), False
        self._http: httpx.AsyncClient | None = None  # from the first URL on
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._thread = threading.Thread(target=self._work, name="notifications", daemon=True)

    async def __aenter__(self) -> Self:
        """Begin with what an earlier service has left."""
        self._controller.listeners.append(self._heed)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop: what is not delivered by now is after the next start."""
        self._stopping = True
        self._controller.listeners.remove(self._heed)  # the service has turns still to take
        self._wake()
        await asyncio.to_thread(self._thread.join)

    def _heed(self, events: Sequence[Event]) -> None:
        """Note new events; the log is read only where somebody is to be notified."""
        if not events:
            return
        is_news, last = False, events[-1].event_id
        for event in events:
            if event.kind == "submitted" and not event.data["spec"].keys().isdisjoint(
                ("notify", "mail_type")
            ):
                self._asking.add(int(event.job or 0))
            is_news |= event.kind in KINDS and (self._to is not None or event.job in self._asking)
            if event.kind in ENDS:
                self._asking.discard(int(event.job or 0))
        is_time = last // EVENTS_A_NOTE > self._newest // EVENTS_A_NOTE
        if self._read >= self._newest and not is_news:
            self._read = last
        self._newest = last
        if is_news or is_time:
            self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, since the thread has failed; its error is logged
            self._loop.call_soon_threadsafe(self._woken.set)

    def _work(self) -> None:
        try:
            self._loop.run_until_complete(self._run())
        except Exception as error:
            log.error(
                "no more notifications are delivered until the service is started again", exc_info=error
            )
        finally:
            self._loop.close()

    async def _run(self) -> None:
        tries: set[asyncio.Task[None]] = set()
        while not self._stopping:
            self._woken.clear()
            try:
                for one in self._next():
                    task = asyncio.ensure_future(self._settle(one))
                    tries.add(task)
                    task.add_done_callback(tries.discard)
                self._keep()
            except StoreError as error:  # the events stay in the log
                log.warning("notifications wait: %s", error)
                self._loop.call_later(self._limit_s, self._woken.set)
            await self._woken.wait()
        for task in tries:
            task.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
        self._keep()

    def _next(self) -> list[Notification]:
        """The next notifications, as many as there is room for."""
        found: list[Notification] = []
        while self._read < (newest := self._newest) and (room := MOST_OPEN - len(self._open)) > 0:
            events = self._store.events(self._read, room, None, KINDS)
            for event in events:
                of = self._notifications(event)
                if of:
                    self._open[event.event_id] = len(of)
                    found += of
            last = events[-1].event_id if events else newest
            self._read = last if len(events) == room else max(newest, last)  # it may be ahead of `_heed`
        return found

    def _notifications(self, event: Event) -> list[Notification]:
        """Those of an event: none for later runs of a job, and for the trials of a set beyond what the set has."""
        row = self._store.job(event.job) if event.job is not None else None
        if row is None or (event.kind == "started" and event.data["number"] > 1):
            return []
        body, folder, asked = _body(event, row), row["spec"].get("workdir"), row["spec"].get("notify")
        user = self._controller.launches.owners.unix_user(row["user"])
        found = [Notification(asked, event.event_id, body, folder, user)] if asked else []
        is_news = event.event_id > self._since and not self._is_trial(row)
        if self._to is not None and is_news and (self._to != asked or user is not None):
            found.append(Notification(self._to, event.event_id, body, folder))
        if self._mails is not None and (mail := self._mails.of(event, row, body["text"])) is not None:
            found.append(Notification(mail[0], event.event_id, body, folder, mail=mail[1]))
        return found

    def _is_coming(self, array: int) -> bool:
        return array in self._controller.scheduler.ledger.arrays.of

    def _is_trial(self, row: Row) -> bool:
        if row["array_index"] is None:
            return False
        whole = self._store.job(row["array_id"])
        return whole is not None and whole["array_index"] is None

    def _keep(self) -> None:
        """Store up to which event all are delivered."""
        upto = min(self._open, default=self._read + 1) - 1
        kept = json.dumps({"upto": upto, "to": self._to})
        if kept != self._kept:
            self._store.commit(Batch(meta={UPTO: kept}))
            self._kept = kept

    async def _settle(self, one: Notification) -> None:
        """Try until it is delivered, or given up."""
        delays_s = () if one.to in self._failing else self._delays_s
        problem: Undelivered | None = None
        for delay_s in (0.0, *delays_s):
            await asyncio.sleep(delay_s)
            try:
                async with self._slots:
                    await self._deliver(one)
                problem = None
                break
            except Undelivered as error:
                problem = error
        if problem is None:
            self._failing.discard(one.to)
        else:
            self._failing.add(one.to)
            text = "event %d of job %d is not delivered to %s: %s"
            where = hook_host(one.to) if one.mail is None else "its user by mail"
            log.warning(text, one.event_id, one.body["job"]["job_id"], where, problem)
        if self._controller.metrics is not None:
            self._controller.metrics.notified(is_delivered=problem is None)
        self._open[one.event_id] -= 1
        if not self._open[one.event_id]:
            del self._open[one.event_id]
        self._woken.set()

    async def _deliver(self, one: Notification) -> None:
        if (
            one.mail is None and self._http is None and is_url(one.to)
        ):  # before its time begins: this takes a while
            import httpx

            self._http = httpx.AsyncClient(follow_redirects=False, timeout=None)  # tries have a limit
        try:
            async with asyncio.timeout(self._limit_s):
                if one.mail is not None and self._mails is not None:
                    await self._mails.send(one.to, one.mail, self._limit_s)
                elif self._http is not None and is_url(one.to):
                    await _post(one, self._http)
                else:
                    await _run(one, self._controller.launches)
        except TimeoutError:
            raise Undelivered(f"no answer within {length(self._limit_s)}") from None
        except NotSent as error:
            raise Undelivered(str(error)) from None


def _body(event: Event, row: Row) -> dict[str, Any]:
    """The document: the event, the job as it is now, and a sentence."""
    fields = {name: row[name] for name in JobView.model_fields if name in row and name != "reason"}
    fields["cpu"] = row["spec"].get("cpu", 1.0)
    reason = Reason(**row["reason"]) if row["reason"] else None
    return {
        "event": event.kind,
        "event_id": event.event_id,
        "at": event.at_s,
        "text": _sentence(event, row),
        "job": JobView(**fields, reason=reason).model_dump(mode="json", exclude={"estimate"}),
        "data": event.data,
    }


def _sentence(event: Event, row: Row) -> str:
    index = f"[{row['array_index']}]" if row["array_index"] is not None else ""
    text = f"Job {row['job_id']}, {row['name']}{index}: "
    if event.kind == "promise-broken":
        finish_at, promise = event.data["finish_at"], event.data["promise"]
        by_at = promise["finish_at"] if promise["finish_high_at"] is None else promise["finish_high_at"]
        sure = "" if promise.get("level") is None else f" ({sure_of(promise['level'])})"
        text += f"not done by {instant(by_at)}, as it was promised{sure}"
        why = f"; {event.data['because']}" if "because" in event.data else ""
        if finish_at is None:
            return f"{text}{'; it never ends as things stand' if event.data['why'] == 'never' else ''}{why}"
        ends = "it ended" if event.data["why"] == "ended" else "it is expected to end"
        return f"{text}; {ends} {instant(finish_at)}{why}"
    reason = (event.data.get("reason") or {}).get("text")
    return f"{text}{event.kind}: {reason}" if reason and reason != event.kind else text + event.kind


async def _post(one: Notification, http: httpx.AsyncClient) -> None:
    """POST it; raises Undelivered. A redirection is not followed: the hook is at the URL that was given."""
    import httpx

    try:
        async with http.stream("POST", one.to, json=one.body) as answer:
            if not answer.is_success:
                raise Undelivered(f"it answers {answer.status_code} {answer.reason_phrase}".rstrip())
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise Undelivered(str(error) or type(error).__name__) from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # their texts may quote the address
        raise Undelivered(type(error).__name__) from None


async def _run(one: Notification, launches: Launches) -> None:
    """Run it by a shell, in the job's folder where that is here, and as the job does; raises Undelivered.

    The caller limits its time.
    """
    job = one.body["job"]
    variables = {
        "BETIMES_EVENT": one.body["event"],
        "BETIMES_EVENT_ID": f"{one.event_id}",
        "BETIMES_JOB_ID": f"{job['job_id']}",
        "BETIMES_JOB_NAME": job["name"],
        "BETIMES_STATUS": job["status"],
        "BETIMES_TEXT": one.body["text"],
    }
    given, folder = f"{json.dumps(one.body)}\n", one.folder or "/"
    try:
        owner = await asyncio.to_thread(account_of, one.user) if one.user is not None else None
        environment = {**launches.environment_of(owner), **variables}
        answer = await answer_of(
            one.to, environment, None, given, output="dropped", owner=owner, folder=folder
        )
    except (NotAllowed, OSError, ValueError) as error:
        raise Undelivered(str(error)) from None
    if answer.status:
        raise Undelivered(
            f"the command exits with {answer.status}"
            if answer.status > 0
            else f"the command is ended by signal {-answer.status}"
        )
