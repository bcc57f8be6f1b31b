"""Mail about jobs: by a program, over SMTP, one of a job and one of an array."""

from __future__ import annotations

import asyncio
import email
import email.policy
import socketserver
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from betimes.service.executors.virtual import EXIT_CODE, WORK
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.mail import MailSettings, checked_domain, checked_way
from betimes.service.runtime.notifications import Notifier
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import Assembly, assembled
from tests.service.runtime.test_notifications import until
from tests.service.serving import Serving

MACHINES = [Machine("a", "virtual", "plain", 2.0, 16.0, 0.0)]


def job(*types: str, exit_code: int = 0, **fields: Any) -> JobSpec:
    env = {WORK: "10", EXIT_CODE: str(exit_code)}
    fields |= {"command": ["x"], "workdir": "/", "env": env, "name": "train", "mail_type": [*types]}
    return JobSpec.model_validate(fields)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that takes mail as sendmail does, into a folder, a file each."""
    (tmp_path / "box").mkdir()
    found = tmp_path / "mailer"
    found.write_text(
        f'#!/bin/sh\nset -e\ncat > {tmp_path}/$$\necho "to: $3" >> {tmp_path}/$$\nmv {tmp_path}/$$ {tmp_path}/box\n'
    )
    found.chmod(0o755)
    return found


def mails(program: Path) -> list[EmailMessage]:
    texts = [path.read_bytes() for path in (program.parent / "box").iterdir()]
    return [cast(EmailMessage, email.message_from_bytes(text, policy=email.policy.default)) for text in texts]


def subjects(program: Path) -> list[str]:
    return sorted(mail["Subject"] for mail in mails(program))


@asynccontextmanager
async def service(folder: Path, mail: MailSettings | None) -> AsyncIterator[Assembly]:
    async with assembled(MACHINES, "fifo", folder, clock=VirtualClock(0.0, 0.0)) as parts:
        await parts.settle()
        async with Notifier(parts.controller, None, mail=mail, delays_s=()):
            yield parts


async def run_jobs(parts: Assembly, *specs: JobSpec) -> None:
    await parts.backend.submit(list(specs), "ann")
    await parts.settle()
    await parts.advance_to(parts.clock.now_s() + 1000.0)


def played(folder: Path, mail: MailSettings, done: Callable[[], bool], *specs: JobSpec) -> None:
    async def play() -> None:
        async with service(folder, mail) as parts:
            await run_jobs(parts, *specs)
            await until(done)

    asyncio.run(play())


def test_each_type_is_about_what_slurm_has_it_for(tmp_path: Path, program: Path) -> None:
    jobs = [
        job("BEGIN"),
        job("END"),
        job("FAIL"),
        job("FAIL", exit_code=3),
        job("END", exit_code=3),
        job("ALL"),
        job(),
    ]
    played(
        tmp_path / "s", MailSettings(str(program), domain="lab.org"), lambda: len(mails(program)) >= 6, *jobs
    )
    reason = "failed: exited with 3"
    assert subjects(program) == [
        "Job 1, train: started",
        "Job 2, train: finished",
        f"Job 4, train: {reason}",
        f"Job 5, train: {reason}",
        "Job 6, train: finished",
        "Job 6, train: started",
    ]
    assert {mail["To"] for mail in mails(program)} == {"ann@lab.org"}
    (done,) = (mail.get_content() for mail in mails(program) if mail["Subject"] == "Job 2, train: finished")
    assert "ran        10 s\n" in done
    assert "to: ann@lab.org" in done, "the address on the command line"


def test_of_an_array_there_is_one_mail_as_it_begins_and_one_as_it_is_over(
    tmp_path: Path, program: Path
) -> None:
    array = job("ALL", array="1-3", exit_code=3, mail_user="pi@lab.org")
    fine = job("FAIL", array="1-3")
    each = job("FAIL", "ARRAY_TASKS", array="5-6", exit_code=3)
    played(tmp_path / "s", MailSettings(str(program)), lambda: len(mails(program)) >= 4, array, fine, each)
    assert subjects(program) == [
        "Array 1, train: 3 failed",
        "Array 1, train: started",
        "Job 7, train[5]: failed: exited with 3",
        "Job 8, train[6]: failed: exited with 3",
    ]
    (digest,) = (mail for mail in mails(program) if mail["Subject"] == "Array 1, train: 3 failed")
    assert digest["To"] == "pi@lab.org"
    assert "Failed elements:\n1: exited with 3" in digest.get_content()
    assert {mail["To"] for mail in mails(program)} == {"pi@lab.org", "ann"}


class Letters(socketserver.ThreadingTCPServer):
    """A server of SMTP that keeps what it gets, or refuses addresses."""

    got: list[tuple[str, str]]
    refuses = False


@contextmanager
def receiving() -> Iterator[Letters]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            letters, to = cast(Letters, self.server), ""

            def say(text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

            say("220 here")
            while line := self.rfile.readline().decode().strip():
                verb = line.split()[0].upper()
                if verb == "RCPT":
                    to = line.split(":", 1)[1].strip("<>")
                    say("550 who?" if letters.refuses else "250 ok")
                elif verb == "DATA":
                    say("354 go on")
                    text = ""
                    while (one := self.rfile.readline().decode()) != ".\r\n":
                        text += one
                    letters.got.append((to, text))
                    say("250 ok")
                else:
                    say("221 bye" if verb == "QUIT" else "250 ok")

    with Letters(("127.0.0.1", 0), Handler) as server:
        server.got, server.daemon_threads = [], True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_it_goes_over_smtp_and_a_refusal_is_logged_without_the_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as letters:
        settings = MailSettings(f"smtp://127.0.0.1:{letters.server_address[1]}", "jobs@lab.org", "lab.org")
        played(tmp_path / "s", settings, lambda: len(letters.got) == 1, job("END"))
        ((to, text),) = letters.got
        assert (to, "From: jobs@lab.org" in text) == ("ann@lab.org", True)
        letters.refuses = True
        played(tmp_path / "t", settings, lambda: "not delivered" in caplog.text, job("END"))
        with_password = MailSettings(settings.by.replace("smtp://", "smtp://me:pw@"))
        played(tmp_path / "u", with_password, lambda: "no TLS" in caplog.text, job("END"))
    assert "its user by mail: the server refuses the address (550)" in caplog.text
    assert "ann@" not in caplog.text


def test_a_service_without_a_way_says_so_to_who_submits(tmp_path: Path) -> None:
    async def play() -> tuple[str | None, str | None]:
        async with service(tmp_path, None) as parts:
            asking, silent = await parts.backend.submit([job("END"), job()], "ann")
            return asking.note, silent.note

    asking, silent = asyncio.run(play())
    assert "no mail is sent: this service has no way to send any" in (asking or "")
    assert "mail" not in (silent or "")


def test_the_address_is_for_its_user_and_operators_alone(tmp_path: Path) -> None:
    it = Serving(tmp_path).start()
    try:
        tokens = {user: it.token_of(user) for user in ("ann", "eve")}
        body = {"command": ["true"], "mail_type": "end,fail", "mail_user": "ann@secret.org"}
        asked = {"Authorization": f"Bearer {tokens['ann']}"}
        assert it.ask("POST", "/api/v1/jobs", json=body, headers=asked).status_code == 201
        story = it.ask("GET", "/api/v1/jobs/1", headers=asked).json()
        assert (story["spec"]["mail_user"], story["spec"]["mail_type"]) == ("ann@secret.org", ["END", "FAIL"])
        for path in ("jobs/1", "jobs?spec=true", "events?limit=100"):
            other = it.ask("GET", f"/api/v1/{path}", headers={"Authorization": f"Bearer {tokens['eve']}"})
            assert "secret.org" not in other.text, path
        assert "secret.org" not in it.ask("GET", "/api/v1/events?limit=100").text, (
            "nor in the log that operators see"
        )
    finally:
        it.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"mail_type": ["SOMETIMES"]},
        {"mail_user": "-oQ/tmp"},
        {"mail_user": "a@b\nBcc: c"},
        {"mail_user": "a b@c"},
    ],
)
def test_what_is_no_address_or_type_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobSpec(command=["x"], **fields)


@pytest.mark.parametrize("text", ["smtp://", "http://host", "no-such-program-here", "smtp://host/path"])
def test_what_is_no_way_to_send_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write smtp://HOST"):
        checked_way(text)
    with pytest.raises(ValueError, match="no address"):
        checked_domain("a b")
