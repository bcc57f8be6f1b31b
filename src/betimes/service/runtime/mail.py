"""Mail about jobs, as users of Slurm ask for it: one for each job, or one digest for an array.

It goes out as notifications do (`notifications.Notifier`), by a sendmail program of the service's machine or over SMTP.
"""

from __future__ import annotations

import asyncio
import shutil
import smtplib
import socket
import ssl
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from betimes.printing import printable
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.spelling import checked_address
from betimes.service.store.batch import Row
from betimes.service.store.store import Store
from betimes.service.views.models import JobFilter
from betimes.units import instant, length

SENDMAIL = "sendmail"
WHERE = (
    "/usr/sbin:/usr/lib:/usr/bin:/usr/local/sbin:/usr/local/bin"  # it is mostly not in the PATH of a service
)
PAGE = 1000  # elements of an array that are read at a time
MOST_LISTED = 20  # elements that have failed, in a digest
TYPES = {"started": ("BEGIN",), "finished": ("END",), "cancelled": ("END",), "failed": ("END", "FAIL")}
"""The types of mail that are about an event, by its kind."""
OPEN = [status for status in Status if not status.is_over]


class NotSent(Exception):
    """A mail could not be handed over; the text says why, without an address."""


@dataclass(frozen=True)
class MailSettings:
    """by: `sendmail`, the path of such a program, or smtp://[USER:PASSWORD@]HOST[:PORT], smtps://... . domain: of
    users' addresses; null: mail goes to the user of that name on the machine.
    """

    by: str
    sender: str | None = None
    domain: str | None = None

    def address(self, user: str, asked: str | None) -> str:
        """The address for a user's mail, who may have asked for another."""
        return asked or (user if self.domain is None or "@" in user else f"{user}@{self.domain}")


def checked_way(text: str) -> str:
    """Read the way in which mail is sent (`MailSettings.by`). Raises ValueError for a bad one, or no program here."""
    if "://" in text:
        url = urlsplit(text)
        with suppress(ValueError):
            if url.scheme in ("smtp", "smtps") and url.hostname and url.port != 0 and url.path in ("", "/"):
                return text
        raise ValueError("write smtp://HOST, smtps://HOST:465 or smtp://USER:PASSWORD@HOST:587")
    if _program(text) is None:
        raise ValueError(
            f"there is no program {text!r} here; install one, such as that of Postfix, or write smtp://HOST"
        )
    return text


def checked_domain(text: str) -> str:
    """A domain of addresses. Raises ValueError."""
    checked_address(f"user@{text}")
    return text


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=WHERE)


@dataclass
class Mails:
    """The mails of one service. is_coming: whether elements of an array are still to be made jobs."""

    settings: MailSettings
    store: Store
    is_coming: Callable[[int], bool]
    # Arrays whose begin, or whose end, a mail was about.
    _begun: set[int] = field(default_factory=set[int])
    _over: set[int] = field(default_factory=set[int])

    def of(self, event: Event, row: Row, sentence: str) -> tuple[str, EmailMessage] | None:
        """The address and the mail about an event of a job that asks for one; null: it does not, or not about this."""
        spec = row["spec"]
        asked = frozenset(spec.get("mail_type") or ())
        is_alone = row["array_index"] is None or "ARRAY_TASKS" in asked
        about = TYPES.get(event.kind, ()) if is_alone or event.kind == "started" else ("END", "FAIL")
        if asked.isdisjoint(about):
            return None
        if is_alone:
            subject, lines = sentence, [*_facts(row), "", f"`betimes job {row['job_id']}` shows more."]
        elif (digest := self._digest(event, row, asked)) is not None:
            subject, lines = digest
        else:
            return None
        mail, to = EmailMessage(), self.settings.address(row["user"], spec.get("mail_user"))
        mail["Subject"] = printable(subject)[:200]
        mail["From"] = self.settings.sender or f"betimes@{socket.getfqdn()}"
        mail["To"] = to
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content("\n".join([printable(subject), "", *lines, ""]))
        return to, mail

    def _digest(self, event: Event, row: Row, asked: frozenset[str]) -> tuple[str, list[str]] | None:
        """Subject and text about an array as a whole, as its first element starts and once all are over."""
        number = row["array_id"]
        name = f"Array {number}, {row['name']}"
        if event.kind == "started":
            if number in self._begun:
                return None
            self._begun.add(number)
            first = self.store.jobs(JobFilter(array_id=number, after=number + PAGE, limit=PAGE))
            if any(each["started_at"] is not None and each["started_at"] < event.at_s for each in first):
                return None  # its mail went out before the service was started again
            return f"{name}: started", [f"`betimes job {number}` shows more."]
        if (
            number in self._over
            or self.is_coming(number)
            or self.store.jobs(JobFilter(array_id=number, status=OPEN, limit=1))
        ):
            return None
        count, failed = Counter[str](), deque[str](maxlen=MOST_LISTED)
        for each in self._elements(number):
            count[each["status"]] += 1
            if each["status"] == "failed":
                failed.appendleft(f"{each['array_index']}: {(each['reason'] or {}).get('text', 'failed')}")
        self._begun.discard(number)
        self._over.add(number)
        if "END" not in asked and not count["failed"]:
            return None
        ends = [status for status in ("finished", "failed", "cancelled") if count[status]]
        sums = ", ".join(f"{count[status]:,} {status}" for status in ends)
        more = f"and {count['failed'] - len(failed):,} more" if count["failed"] > len(failed) else ""
        failures = ["Failed elements:", *failed, *([more] if more else []), ""] if failed else []
        return f"{name}: {sums}", [printable(line) for line in failures] + [
            f"`betimes job {number}` shows more."
        ]

    def _elements(self, number: int) -> Iterator[Row]:
        """The jobs of an array, the last first."""
        after: int | None = None
        while found := self.store.jobs(JobFilter(array_id=number, after=after, limit=PAGE)):
            yield from found
            after = found[-1]["job_id"]

    async def send(self, to: str, mail: EmailMessage, limit_s: float) -> None:
        """Hand a mail over. Raises NotSent; when it is cancelled, the program is ended."""
        if "://" in self.settings.by:
            await asyncio.to_thread(_by_smtp, self.settings.by, to, mail, limit_s)
        else:
            await _by_program(self.settings.by, to, mail)


def _facts(row: Row) -> list[str]:
    """The lines of a mail about a job."""
    promised_at, reason = row["promised_finish_at"], (row["reason"] or {}).get("text")
    facts = {
        "user": row["user"],
        "submitted": instant(row["submitted_at"]),
        "started": instant(row["started_at"]) if row["started_at"] is not None else None,
        "ended": instant(row["finished_at"]) if row["finished_at"] is not None else None,
        "ran": length(row["finished_at"] - row["started_at"])
        if row["finished_at"] is not None and row["started_at"] is not None
        else None,
        "promised": instant(promised_at) if promised_at is not None else None,
        "reason": reason,
    }
    return [f"{name:<10} {printable(str(fact))}" for name, fact in facts.items() if fact is not None]


def _by_smtp(way: str, to: str, mail: EmailMessage, limit_s: float) -> None:
    url, context = urlsplit(way), ssl.create_default_context()
    host, is_secure = url.hostname or "", url.scheme == "smtps"
    try:
        with (
            smtplib.SMTP_SSL(host, url.port or 465, timeout=limit_s, context=context)
            if is_secure
            else smtplib.SMTP(host, url.port or 25, timeout=limit_s)
        ) as server:
            server.ehlo()
            if not is_secure and server.has_extn("starttls"):
                server.starttls(context=context)
                server.ehlo()
            elif not is_secure and url.password:
                raise NotSent("the server offers no TLS, and the password is not sent without")
            if url.username:
                server.login(unquote(url.username), unquote(url.password or ""))
            server.send_message(mail, to_addrs=[to])
    except smtplib.SMTPRecipientsRefused as error:
        code = next(iter(error.recipients.values()))[0]
        raise NotSent(f"the server refuses the address ({code})") from None
    except smtplib.SMTPResponseException as error:
        raise NotSent(f"the server answers {error.smtp_code}") from None
    except (OSError, smtplib.SMTPException, UnicodeError) as error:
        raise NotSent(str(error) if isinstance(error, OSError) else type(error).__name__) from None


async def _by_program(name: str, to: str, mail: EmailMessage) -> None:
    program = _program(name)
    if program is None:
        raise NotSent(f"there is no program {name!r} any more")
    try:
        process = await asyncio.create_subprocess_exec(
            program, "-i", "--", to, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, cwd="/"
        )
    except OSError as error:
        raise NotSent(str(error)) from None
    try:
        await process.communicate(mail.as_bytes())
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise NotSent(f"the program exits with {process.returncode}")
