"""Notifications about jobs, to an address and to commands."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from betimes.foresight.past_errors import LEAST
from betimes.service.executors.virtual import EXIT_CODE, WORK
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.notifications import Notifier, missing_program
from betimes.service.scheduling.fold import recovered
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.store.store import Store
from betimes.service.views.models import JobFilter
from tests.service.serving import PATIENCE_S

MACHINES = [Machine("a", "virtual", "plain", 4.0, 16.0, 0.0)]


@dataclass
class Receiver:
    """A server that keeps what it gets; it refuses the first `refusals` requests."""

    url: str = ""
    refusals: int = 0
    hangs: bool = False
    redirects: bool = False
    got: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: int = 0


@contextmanager
def receiving() -> Iterator[Receiver]:
    it, over = Receiver(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            it.asked += 1
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if it.hangs:
                over.wait(PATIENCE_S)
                return
            if it.redirects:
                self.send_response(307)
                self.send_header("Location", it.url)
            elif it.asked <= it.refusals:
                self.send_response(503)
            else:
                it.got.append(body)
                self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    it.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield it
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@asynccontextmanager
async def service(
    folder: Path, to: str | None = None, store: Store | None = None, *, limit_s: float = 30.0, tries: int = 3
) -> AsyncIterator[Assembly]:
    """One in memory that notifies, and tries at once again."""
    clock = VirtualClock(0.0 if store is None else recovered(None, store.each_event()).last_at, 0.0)
    async with assembled(MACHINES, "fifo", folder, clock=clock, store=store) as parts:
        await parts.settle()
        async with Notifier(parts.controller, to, limit_s=limit_s, delays_s=(0.0,) * (tries - 1)):
            yield parts


async def run_jobs(parts: Assembly, *specs: JobSpec) -> None:
    await parts.backend.submit(list(specs), "ann")
    await parts.settle()
    await parts.advance_to(parts.clock.now_s() + 1000.0)


def job(notify: str | None = None, exit_code: int = 0, **fields: Any) -> JobSpec:
    env = {WORK: "10", EXIT_CODE: str(exit_code)}
    return JobSpec(command=["x"], workdir="/", env=env, notify=notify, **fields)


async def until(done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end_s, "nothing has come"
        await asyncio.sleep(0.01)


def kinds(got: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return sorted((one["job"]["job_id"], one["event"]) for one in got)


def test_a_url_is_sent_what_its_job_does(tmp_path: Path) -> None:
    async def play(hook: Receiver) -> None:
        async with service(tmp_path) as parts:
            await run_jobs(parts, job(hook.url, name="train"), job(hook.url, exit_code=3), job())
            await until(lambda: len(hook.got) == 4)

    with receiving() as hook:
        asyncio.run(play(hook))
    assert kinds(hook.got) == [(1, "finished"), (1, "started"), (2, "failed"), (2, "started")]
    done = next(one for one in hook.got if one["event"] == "finished")
    assert done["text"] == "Job 1, train: finished"
    assert done["at"] == 10.0
    assert done["job"]["status"] == "finished"
    assert done["job"]["promised_finish_at"] is not None
    failed = next(one for one in hook.got if one["event"] == "failed")
    assert failed["text"].startswith("Job 2, x: failed: ")
    assert failed["job"]["reason"]["code"]


def test_a_broken_promise_says_how_sure_it_was(tmp_path: Path) -> None:
    async def play(hook: Receiver) -> None:
        async with service(tmp_path) as parts:
            await run_jobs(parts, *[job(estimate_s=10.0) for _ in range(LEAST)])
            late = job(hook.url, estimate_s=10.0)
            await run_jobs(parts, late.model_copy(update={"env": {WORK: "900"}}))
            await until(lambda: len(hook.got) >= 3)

    with receiving() as hook:
        asyncio.run(play(hook))
    texts = [one["text"] for one in hook.got if one["event"] == "promise-broken"]
    assert texts[0].endswith("Z, as it was promised (90 % sure)")


def test_the_setting_is_for_all_jobs_but_trials(tmp_path: Path) -> None:
    async def play(hook: Receiver) -> None:
        async with service(tmp_path, hook.url) as parts:
            await run_jobs(parts, job(), job(hook.url), job(array="1-3", as_one=True), job(array="1-2"))
            await until(lambda: len(hook.got) >= 9)

    with receiving() as hook:
        asyncio.run(play(hook))
    each = ("finished", "started")
    assert kinds(hook.got) == [
        *[(number, kind) for number in (1, 2) for kind in each],
        (3, "finished"),  # the set; its trials are 4 to 6
        *[(number, kind) for number in (7, 8) for kind in each],
    ]


def test_a_command_gets_the_event_on_its_input_and_in_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    command = (
        'cat > "$BETIMES_JOB_ID-$BETIMES_EVENT.json"; echo "$BETIMES_TEXT$PGPASSWORD" > "$BETIMES_EVENT.txt"'
    )

    async def play() -> None:
        async with service(tmp_path) as parts:
            await run_jobs(parts, job(command).model_copy(update={"workdir": str(tmp_path)}))
            await until(lambda: all((tmp_path / f"{each}.txt").exists() for each in ("started", "finished")))

    asyncio.run(play())
    assert json.loads((tmp_path / "1-finished.json").read_text())["job"]["user"] == "ann"
    assert (tmp_path / "started.txt").read_text() == "Job 1, x: started\n"


def test_the_service_goes_on_when_nobody_notifies_any_more(tmp_path: Path) -> None:
    """As it ends, the service still takes turns."""

    async def play() -> None:
        clock = VirtualClock(0.0, 0.0)
        async with assembled(MACHINES, "fifo", tmp_path, clock=clock) as parts:
            await parts.settle()
            async with Notifier(parts.controller, None):
                await parts.backend.submit([job("true")], "ann")
                await parts.settle()
            await run_jobs(parts, job("true"))
            assert [view.status for view in (await parts.backend.jobs(JobFilter())).items] == ["finished"] * 2

    asyncio.run(play())


@pytest.mark.parametrize(
    ("hook", "shown"),
    [
        ("http://ann:s3cret@127.0.0.1:9/hooks/s3cret?t=s3cret", "127.0.0.1: "),
        ("http://127.0.0.1:s3cret/", "127.0.0.1: InvalidURL"),
        ("false s3cret", "a command: the command exits with 1"),
    ],
)
def test_the_address_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hook: str, shown: str
) -> None:
    async def play() -> None:
        async with service(tmp_path, tries=1) as parts:
            await run_jobs(parts, job(hook, hold=True))
            await parts.backend.steer("cancel", [1], "ann")
            await until(lambda: "is not delivered" in caplog.text)

    asyncio.run(play())
    assert f"of job 1 is not delivered to {shown}" in caplog.text
    assert "s3cret" not in caplog.text


def test_it_is_tried_again_and_given_up_in_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A hook that is down for good gets one try for each later event."""

    async def play(hook: Receiver) -> None:
        async with service(tmp_path) as parts:
            hook.refusals = 2
            await run_jobs(parts, job(hook.url, hold=True))
            assert hook.asked == 0
            await parts.backend.steer("cancel", [1], "ann")
            await until(lambda: len(hook.got) == 1)
            hook.refusals = 10_000
            await run_jobs(parts, job(hook.url, hold=True))
            await parts.backend.steer("cancel", [2], "ann")
            await until(lambda: "is not delivered" in caplog.text)
            assert hook.asked == 6
            await run_jobs(parts, job(hook.url, hold=True))
            await parts.backend.steer("cancel", [3], "ann")
            await until(lambda: caplog.text.count("is not delivered") == 2)
            assert hook.asked == 7
            hook.refusals = 0
            await run_jobs(parts, job(hook.url, hold=True))
            await parts.backend.steer("cancel", [4], "ann")
            await until(lambda: len(hook.got) == 2)

    with receiving() as hook:
        asyncio.run(play(hook))
    assert "it answers 503" in caplog.text


@pytest.mark.parametrize(
    ("command", "why"),
    [("exit 7", "exits with 7"), ("kill -9 $$", "signal 9"), ("no-such-program", "exits with 127")],
)
def test_a_command_that_fails_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, command: str, why: str
) -> None:
    async def play() -> None:
        async with service(tmp_path) as parts:
            await run_jobs(parts, job(command))
            await until(lambda: caplog.text.count(why) == 2)

    asyncio.run(play())


def test_what_hangs_is_ended_and_holds_up_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "survives"
    hanging = f"(sleep 8; touch {mark}) & sleep 600"

    async def play(hook: Receiver, fine: Receiver) -> None:
        hook.hangs = True
        async with service(tmp_path, limit_s=3.0, tries=1) as parts:
            await run_jobs(parts, job(hanging), job(hook.url), job(fine.url))
            assert parts.controller.scheduler.ledger.jobs == {}  # the jobs are over, whatever is delivered
            await until(lambda: len(fine.got) == 2)
            await until(lambda: caplog.text.count("no answer within") == 4)

    with receiving() as hook, receiving() as fine:
        asyncio.run(play(hook, fine))
    assert not mark.exists()


def test_a_redirection_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(hook: Receiver) -> None:
        hook.redirects = True
        async with service(tmp_path, tries=1) as parts:
            await run_jobs(parts, job(hook.url))
            await until(lambda: caplog.text.count("it answers 307") == 2)
        assert hook.asked == 2

    with receiving() as hook:
        asyncio.run(play(hook))


def test_what_was_not_delivered_is_after_a_restart_and_the_rest_is_not(tmp_path: Path) -> None:
    async def play(hook: Receiver) -> None:
        with_history = Store.in_memory(tmp_path)
        async with service(tmp_path, hook.url, with_history) as parts:
            await run_jobs(parts, job())
            await until(lambda: len(hook.got) == 2)
            hook.hangs = True
            await run_jobs(parts, job())
            await until(lambda: hook.asked == 4)
        hook.hangs = False
        async with service(tmp_path, hook.url, with_history) as parts:
            await until(lambda: len(hook.got) == 4)
            await run_jobs(parts, job())
            await until(lambda: len(hook.got) == 6)
        with_history.close()

    with receiving() as hook:
        asyncio.run(play(hook))
    assert kinds(hook.got) == [(n, kind) for n in (1, 2, 3) for kind in ("finished", "started")]


def test_a_new_setting_is_not_sent_the_past(tmp_path: Path) -> None:
    async def play(hook: Receiver) -> None:
        with_history = Store.in_memory(tmp_path)
        async with service(tmp_path, None, with_history) as parts:
            await run_jobs(parts, job(), job())
        async with service(tmp_path, hook.url, with_history) as parts:
            await run_jobs(parts, job())
            await until(lambda: len(hook.got) >= 2)
        with_history.close()

    with receiving() as hook:
        asyncio.run(play(hook))
    assert kinds(hook.got) == [(3, "finished"), (3, "started")]


def test_a_running_service_notifies_and_counts(tmp_path: Path) -> None:
    async def play(hook: Receiver) -> None:
        config = ServiceConfig(state=tmp_path / "state", machines=MACHINES, notify=hook.url)
        async with running(config) as it:
            (taken,) = await it.backend.submit([job(hold=True)], "ann")
            await it.backend.steer("cancel", [taken.job_id], "ann")
            await until(lambda: len(hook.got) == 1)
            assert it.controller.metrics is not None
            of = it.controller.metrics.registry.get_sample_value
            await until(lambda: of("betimes_notifications_total", {"outcome": "delivered"}) == 1.0)

    with receiving() as hook:
        asyncio.run(play(hook))
    assert kinds(hook.got) == [(1, "cancelled")]


@pytest.mark.parametrize(
    ("hook", "program"),
    [
        ("foo", "foo"), ("  foo.sh --now", "foo.sh"), ("cat >>ends", None), ("test -e told || cat", None),
        ("./foo", None), ("A=1 foo", None), ("{ id; }", None), ("https://host/foo", None), ("$NOTE", None),
    ],
)  # fmt: skip
def test_a_command_that_certainly_cannot_run_is_found(hook: str, program: str | None) -> None:
    assert missing_program(hook) == program


@pytest.mark.parametrize("text", ["ftp://host/x", "http://", "https:///path", "http://a b/", " ", ""])
def test_what_is_neither_a_url_nor_a_command_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        JobSpec(command=["x"], notify=text)
