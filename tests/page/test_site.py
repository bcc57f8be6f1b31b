"""The pages as a browser gets them: signing in, views, actions, and what is refused."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from betimes.cluster import Offer
from betimes.errors import StoreUnreachable
from betimes.foresight.advice import Advice
from betimes.foresight.past_errors import LEAST
from betimes.page import session
from betimes.page.site import create_page
from betimes.service.api.app import create_app
from betimes.service.api.examples import ADVICE
from betimes.service.executors.virtual import WORK
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.view import TuningView
from betimes.service.views.models import MaintenanceSpec
from tests.page.conftest import BEGIN_AT, Paged, paged
from tests.service.tuning.fronts import front

OnPages = Callable[[Callable[[Paged], Awaitable[None]]], None]
HOSTILE = "<img src=x onerror=alert(1)>\"'&"


async def submitted(pages: Paged, *specs: dict[str, Any]) -> list[int]:
    """Jobs of these fields; by default estimated at an hour on one of the four cores, and over after a minute."""
    usual: dict[str, Any] = {"command": ["x"], "workdir": "/", "estimate_s": 3600.0, "env": {WORK: "60"}}
    given = [JobSpec(**{**usual, **each}) for each in specs]
    return [taken.job_id for taken in await pages.service.backend.submit(given, "ada")]


def shown(html: str) -> list[str]:
    """The rows of the queue."""
    return re.findall(r'<tr id="row-([^"]+)"', html)


def test_a_stranger_signs_in_by_token_and_the_cookie_is_closed_to_scripts(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        first = await pages.stranger.get("/queue?user=ada")
        assert first.status_code == 401
        assert 'name="back" value="queue?user=ada"' in first.text
        wrong = await pages.stranger.post("/sign-in", data={"token": "guess"})
        assert wrong.status_code == 401
        assert "This token is unknown" in wrong.text
        again = await pages.stranger.post("/sign-in", data={"token": "guess", "back": "queue?user=ada"})
        assert 'name="back" value="queue?user=ada"' in again.text
        right = await pages.stranger.post("/sign-in", data={"token": pages.token, "back": "queue?user=ada"})
        assert 'url=./queue?user=ada"' in right.text
        assert all(word in right.headers["set-cookie"] for word in ("HttpOnly", "SameSite=strict"))
        assert [word in right.headers["set-cookie"] for word in ("Path", "Secure", pages.token)] == [
            False
        ] * 3
        assert (await pages.stranger.get("/queue?user=ada")).status_code == 200
        ((name, session_id),) = pages.stranger.cookies.items()
        as_token = {"Authorization": f"Bearer {session_id}"}
        assert (await pages.browser.get("/api/v1/nodes", headers=as_token)).status_code == 401
        await pages.stranger.post("/sign-out")
        assert (await pages.stranger.get("/queue")).status_code == 401
        pages.stranger.cookies.set(name, session_id)  # a copy of it is worth nothing any more
        assert (await pages.stranger.get("/queue")).status_code == 401
        assert (await pages.at("/queue")).status_code == 200

    on_pages(story)


def test_a_session_outlasts_the_service(tmp_path: Path, on_pages: OnPages) -> None:
    kept = tmp_path / "sessions.json"

    def restarted(pages: Paged) -> httpx.AsyncClient:
        page = partial(create_page, pages.service.backend, sessions=kept)
        transport = httpx.ASGITransport(create_app(pages.service.backend, pages.tokens, page=page))
        return httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", cookies=pages.stranger.cookies
        )

    async def story(pages: Paged) -> None:
        async with restarted(pages) as before:
            await before.post("/sign-in", data={"token": pages.token})
            pages.stranger.cookies = before.cookies
        ((_, session_id),) = pages.stranger.cookies.items()
        assert session_id not in kept.read_text()
        assert kept.stat().st_mode & 0o777 == 0o600
        async with restarted(pages) as after:
            assert (await after.get("/")).status_code == 200
            await after.post("/sign-out")
        async with restarted(pages) as later:
            assert (await later.get("/")).status_code == 401
        kept.write_text("[")
        async with restarted(pages) as damaged:
            assert (await damaged.get("/")).status_code == 401

    on_pages(story)


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-Proto": "https"}], ids=["tls", "a proxy's tls"])
def test_a_cookie_that_came_by_tls_goes_by_tls_alone(on_pages: OnPages, headers: dict[str, str]) -> None:
    async def story(pages: Paged) -> None:
        url = "/sign-in" if headers else "https://127.0.0.1/sign-in"
        answer = await pages.stranger.post(url, data={"token": pages.token}, headers=headers)
        assert "Secure" in answer.headers["set-cookie"]

    on_pages(story)


def test_a_session_ends_with_its_token(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        tokens = pages.tokens
        tokens.role_of = lambda _: "user"
        token = tokens.issue("bob", "laptop", None)
        await pages.stranger.post("/sign-in", data={"token": token})
        assert (await pages.stranger.get("/queue")).status_code == 200
        await tokens.revoke("bob", "laptop")
        assert (await pages.stranger.get("/queue")).status_code == 401

    on_pages(story)


@pytest.mark.parametrize(
    "back", ["//elsewhere.example", "https://elsewhere.example", "/\\x", "javascript:x", "../x"]
)
def test_signing_in_leads_nowhere_else(on_pages: OnPages, back: str) -> None:
    async def story(pages: Paged) -> None:
        answer = await pages.stranger.post("/sign-in", data={"token": pages.token, "back": back})
        assert 'url=./"' in answer.text

    on_pages(story)


def test_a_link_signs_in_once_and_for_a_minute(on_pages: OnPages, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(pages: Paged) -> None:
        assert (await pages.stranger.post("/link")).status_code == 401
        bearer = {"Authorization": f"Bearer {pages.token}"}
        path = (await pages.stranger.post("/link", headers=bearer)).json()["path"]
        assert "You are signed in" in (await pages.stranger.get(path)).text
        assert (await pages.stranger.get("/queue")).status_code == 200
        assert "has expired or was used" in (await pages.browser.get(path)).text
        late = (await pages.stranger.post("/link", headers=bearer)).json()["path"]
        monkeypatch.setattr(session.time, "time", lambda: 1e11)
        assert "has expired or was used" in (await pages.browser.get(late)).text

    on_pages(story)


def test_every_answer_forbids_other_sources_and_the_api_stays_as_it_is(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {})
        for path in (
            "/",
            "/time",
            "/machines",
            "/policy",
            "/submit",
            "/job/1",
            "/nothing",
            "/static/page.js",
        ):
            answer = await pages.at(path)
            assert answer.headers["content-security-policy"].startswith("default-src 'self'"), path
            assert not re.search(r"<script(?! src)|\sstyle=|\son\w+=|https?://(?!www.w3.org)", answer.text), (
                path
            )
        assert (await pages.at("/api/v1/nothing")).json()["error"]["code"] == "unknown"
        assert (await pages.at("/healthz")).json() == {"status": "alive"}
        assert (await pages.at("/queue", Host="elsewhere.example")).status_code == 403
        assert (await pages.at("/events", Origin="https://elsewhere.example")).status_code == 403

    on_pages(story)


def test_another_site_changes_nothing(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        (number,) = await submitted(pages, {})
        for path, form in (
            ("/act", {"verb": "cancel", "job": str(number)}),
            ("/submit", {"kind": "command", "command": "true"}),
            ("/policy", {"policy": "srsf"}),
            ("/sign-out", {}),
        ):
            for headers in (
                {"Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "same-site"},
                {"Origin": "http://127.0.0.1:9999"},
                {"Origin": "https://127.0.0.1"},
                {"Origin": "http://localhost"},
                {"Origin": "null"},
            ):
                answer = await pages.browser.post(path, data=form, headers=headers)
                assert answer.status_code == 403, (path, headers)
        assert (await pages.service.backend.job(number)).job.status == "running"
        assert (await pages.service.backend.policy()).policy == "fifo"
        same = {"Origin": "http://127.0.0.1:80", "Sec-Fetch-Site": "same-origin"}
        form = {"verb": "cancel", "job": str(number)}
        assert (await pages.browser.post("/act", data=form, headers=same)).status_code == 303

    on_pages(story)


def test_a_form_of_too_many_fields_is_too_large(on_pages: OnPages, caplog: pytest.LogCaptureFixture) -> None:
    async def story(pages: Paged) -> None:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await pages.browser.post("/act", content=b"verb=cancel" + b"&job=1" * 25_000, headers=kind)
        assert (answer.status_code, caplog.records) == (413, [])
        assert "at most 20,000 fields" in answer.text

    on_pages(story)


def test_the_queue_is_in_the_order_of_promised_ends_and_nothing_typed_is_html(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(
            pages,
            {"name": "long", "estimate_s": 9000.0},
            {
                "name": f"{HOSTILE}\u202e",
                "estimate_s": 60.0,
                "command": [HOSTILE],
                "labels": {"team": HOSTILE},
            },
            {"name": "sweep", "array": "1-30%2", "estimate_s": 600.0},
            {"name": "held", "hold": True},
        )
        page = await pages.at("/queue")
        assert shown(page.text) == ["2", "array-3", "1", "33"]
        assert "<img" not in page.text
        assert "&lt;img src=x onerror=alert(1)&gt;" in page.text
        assert "&amp;\\u202e" in page.text
        assert "\u202e" not in page.text + (await pages.at("/job/2")).text
        assert "array 3, 30 left" in page.text
        assert "<img" not in (await pages.at("/job/2")).text
        assert "<img" not in (await pages.at("/queue")).text

    on_pages(story)


def test_the_first_page_is_what_is_busy_what_ends_next_and_ones_own(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        assert "No job runs or waits" in _text(await pages.at("/"))
        await submitted(
            pages,
            {"name": "long", "cpu": 2.0, "estimate_s": 9000.0},
            {"name": HOSTILE, "estimate_s": 600.0},
            {"name": "wide", "min_units": 2, "max_units": 2, "estimate_s": 60.0},
        )
        await pages.service.backend.submit([JobSpec(command=["x"], workdir="/", name="other")], "bob")
        page = await pages.at("/")
        words = " ".join(_text(page).split())
        assert "Cores 3 of 4 held, 1 free" in words
        assert "asks for 3 units, 3 cores" in words
        assert re.findall(r'id="next-(\d+)"', page.text) == ["2", "1"]  # in the order of their ends
        assert re.findall(r'id="own-(\d+)"', page.text) == ["2", "3", "1"]
        assert "No job with a promised interval has finished this week" in words
        assert "<img" not in page.text
        await pages.service.advance_to(BEGIN_AT + 100.0)
        assert "Lately over" in (await pages.at("/")).text

    on_pages(story)


def test_promises_kept_this_week_are_counted(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, *[{"estimate_s": 60.0}] * LEAST)
        await pages.service.advance_to(BEGIN_AT + 4000.0)
        await submitted(pages, {"estimate_s": 60.0})
        await pages.service.advance_to(BEGIN_AT + 8000.0)
        assert re.search(r"100 % of \d+ \(80 % should be\)", _text(await pages.at("/")))

    on_pages(story)


def test_addresses_of_the_queue_from_when_it_was_the_first_page_go_on(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        moved = await pages.at("/?user=ada&state=held")
        assert (moved.status_code, moved.headers["location"]) == (307, "./queue?user=ada&state=held")

    on_pages(story)


def test_the_queue_is_sorted_searched_and_grouped_by_its_address(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(
            pages,
            {"name": "beta", "estimate_s": 90.0},
            {"name": "Alpha", "min_units": 3, "max_units": 3, "estimate_s": 60.0},
            {"name": "beta", "estimate_s": 30.0, "cpu": 0.5},
            {"name": "50%_off", "hold": True, "array": "1-2"},
        )

        async def rows(query: str) -> list[str]:
            return shown((await pages.at(f"/queue?{query}")).text)

        assert await rows("sort=name") == ["array-4", "2", "1", "3"]
        assert await rows("sort=-name") == ["3", "1", "2", "array-4"]
        assert (await rows("sort=-units"))[0] == "2"
        assert await rows("search=BET&sort=submitted") == ["1", "3"]
        assert await rows("search=2&group=none") == ["2"]
        assert await rows("search=%25_") == ["array-4"]
        assert await rows("search=_%25&state=all") == []
        assert await rows("search=%25_o&state=all") == ["5", "4"]
        assert await rows("group=name&sort=name") == ["name-50%_off", "name-Alpha", "name-beta"]
        assert await rows("group=none&sort=submitted") == ["1", "2", "3", "4", "5"]
        assert await rows("group=user") == ["user-ada"]
        grouped = (await pages.at("/queue?group=name")).text
        assert 'value="name:' not in grouped  # a name is opened, and its jobs are chosen one by one
        assert 'href="?name=beta"' in grouped
        counts = " ".join(_text(await pages.at("/queue?search=beta")).split())
        assert "▶ running: 1 unit, 1 core" in counts
        assert "◌ queued: 1 unit, 0.5 cores" in counts
        for query, said in (("sort=moon", "sort: expected"), ("group=moon", "group: expected")):
            refused = await pages.at(f"/queue?{query}")
            assert refused.status_code == 422
            assert said in refused.text

    on_pages(story)


def test_pages_go_on_where_the_last_one_ended(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        specs = [{"name": f"n{number % 3}", "hold": number > 120} for number in range(130)]
        await submitted(pages, *specs)
        rows, path, pages_seen = list[str](), "/queue", 0
        while path:
            text = (await pages.at(path)).text
            rows += shown(text)
            following = re.search(r'<a href="(\?[^"]+)" rel="next"', text)
            path = f"/queue{following[1].replace('&amp;', '&')}" if following else ""
            pages_seen += 1
        assert pages_seen == 3
        assert sorted(map(int, rows)) == list(range(1, 131))
        at, by_name = "/queue?sort=-name&group=none", list[str]()
        while at:
            text = (await pages.at(at)).text
            by_name += shown(text)
            following = re.search(r'<a href="(\?[^"]+)" rel="next"', text)
            at = f"/queue{following[1].replace('&amp;', '&')}" if following else ""
        assert by_name == [
            str(n) for n in sorted(range(1, 131), key=lambda n: ((n - 1) % 3, n), reverse=True)
        ]
        named = shown((await pages.at("/queue?name=n1&state=held")).text)
        assert sorted(map(int, named)) == [number + 1 for number in range(121, 130) if number % 3 == 1]

    on_pages(story)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("state=nonsense", "state: expected one of"),
        ("label=team", "NAME=VALUE"),
        ("after=x,y", "after: expected"),
        ("array=one", "array: expected a whole number"),
    ],
)
def test_a_query_that_makes_no_sense_is_named(on_pages: OnPages, query: str, said: str) -> None:
    async def story(pages: Paged) -> None:
        answer = await pages.at(f"/queue?{query}")
        assert answer.status_code == 422
        assert said in answer.text

    on_pages(story)


def test_a_fragment_is_sent_without_the_rest_and_only_if_something_has_changed(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        first = await pages.at("/queue", **{"X-Fragment": "main"})
        assert "<h1>Queue</h1>" in first.text
        assert "<nav" not in first.text
        again = first
        while again.status_code == 200:  # until the first forecast is there
            again = await pages.at("/queue", **{"X-Fragment": "main", "If-None-Match": again.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert "<nav" in (await pages.at("/queue", **{"If-None-Match": first.headers["etag"]})).text

    on_pages(story)


def test_jobs_are_cancelled_held_and_released(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        job, later = await submitted(pages, {}, {"hold": True})
        (array,) = await submitted(pages, {"array": "1-5%1"})
        held = await pages.browser.post(
            "/act", data={"verb": "release", "job": str(later), "back": "?state=held"}
        )
        assert (held.status_code, held.headers["location"]) == (303, "./?state=held")
        await pages.browser.post("/act", data={"verb": "cancel", "job": [str(job), f"array:{array}"]})
        statuses = {j.job_id: j.status.value for j in (await pages.service.backend.jobs(_all())).items}
        assert statuses[later] == "running"
        assert {statuses[number] for number in range(array, array + 5)} <= {"cancelled", "stopping"}
        refused = await pages.browser.post("/act", data={"verb": "hold", "job": str(later)})
        assert refused.status_code == 409
        assert f"job {later}" in refused.text
        for form in ({"verb": "eat", "job": "1"}, {"verb": "cancel"}, {"verb": "cancel", "job": "1e9"}):
            assert (await pages.browser.post("/act", data=form)).status_code == 422

    on_pages(story)


def _all() -> Any:
    from betimes.service.views.models import JobFilter

    return JobFilter(limit=100)


def test_a_job_is_quoted_while_it_is_typed_and_submitted(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        form = {
            "kind": "command",
            "command": "python train.py --lr '0.1'",
            "estimate": "30m",
            "cpu": "2",
            "workdir": "/",
        }
        quote = await pages.browser.post("/quote", data=form)
        assert "30 min" in quote.text
        assert '<time datetime="2026-01-01T12:30:00Z"' in quote.text
        assert (
            "the command: no closing quotation"
            in (await pages.browser.post("/quote", data={**form, "command": "'"})).text
        )
        taken = await pages.browser.post("/submit", data=form)
        assert taken.headers["location"] == "./job/1"
        spec = (await pages.service.backend.job(1)).spec
        assert (spec.command, spec.cpu, spec.estimate_s) == (
            ["python", "train.py", "--lr", "0.1"],
            2.0,
            1800.0,
        )
        file = {
            "kind": "toml",
            "command": '[[jobs]]\nname = "a"\ncommand = "true"\n[[jobs]]\nname = "b"\ncommand = "x"\nafter = ["a"]',
        }
        assert "2 jobs" in (await pages.browser.post("/quote", data=file)).text
        assert (await pages.browser.post("/submit", data=file)).headers["location"] == "./job/2"
        wrong = await pages.browser.post("/submit", data={**form, "cpu": "many"})
        assert wrong.status_code == 422
        assert "cpu" in wrong.text
        too_large = await pages.browser.post("/submit", data={**form, "cpu": "96"})
        assert too_large.status_code == 422

    on_pages(story)


def test_the_options_of_daily_use_are_submitted_from_the_page(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        (first,) = await submitted(pages, {})
        form = {
            "kind": "command",
            "command": "python train.py",
            "workdir": "/",
            "name": "train",
            "units": "1-2",
            "memory": "2GiB",
            "time_limit": "2h",
            "begin": "+1h",
            "after": f"{first}:any",
            "priority": "5",
            "retries": "2",
            "output": "train.log",
            "labels": "team=vision\n\nrun=a=b",
            "env": "SEED=7\n",
            "hold": "yes",
        }
        taken = await pages.browser.post("/submit", data=form)
        assert taken.status_code == 303, _text(taken)
        spec = (await pages.service.backend.job(2)).spec
        assert (spec.name, spec.min_units, spec.max_units, spec.memory_gib) == ("train", 1, 2, 2.0)
        assert (spec.time_limit_s, spec.priority, spec.retries, spec.hold) == (7200.0, 5, 2, True)
        assert (spec.after, spec.labels, spec.env) == (
            [f"{first}:any"],
            {"team": "vision", "run": "a=b"},
            {"SEED": "7"},
        )
        assert spec.begin_at is not None
        assert spec.output is not None
        assert spec.output.endswith("train.log")
        for field, text in (
            ("labels", "vision"),
            ("env", "A=1\nA=2"),
            ("retries", "x"),
            ("after", "first:x"),
        ):
            refused = await pages.browser.post("/submit", data={**form, field: text})
            assert refused.status_code == 422
            assert field in refused.text

    on_pages(story)


def test_a_jobs_page_has_its_promise_beside_the_truth(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        (number,) = await submitted(pages, {})
        page = await pages.at(f"/job/{number}")
        assert re.search("(promised|expected) to end", page.text)
        assert "Quoted: done " in page.text
        await pages.service.advance_to(BEGIN_AT + 4000.0)
        await asyncio.sleep(0)
        over = await pages.at(f"/job/{number}")
        assert "finished" in over.text
        assert "59 min earlier than promised" in over.text
        assert 'class="axis"' in over.text.partition('class="promises"')[2]
        assert "No curves: nothing is kept: it ended within 2 s, its node is made up" in over.text
        assert 'log?run=1&amp;lines=300"' in over.text
        assert 'log?run=1&amp;lines=3000"' in (await pages.at(f"/job/{number}?lines=3000")).text
        for lines in ("0", "x", "30001"):
            for path in (f"/job/{number}?lines={lines}", f"/job/{number}/log?run=1&lines={lines}"):
                assert (await pages.at(path)).status_code == 422
        gone = await pages.at("/job/77")
        assert gone.status_code == 404
        assert "there is no job 77" in gone.text

    on_pages(story)


def test_a_promise_stands_with_its_interval_and_what_that_is_from(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, *[{"estimate_s": 60.0}] * LEAST)
        await pages.service.advance_to(BEGIN_AT + 4000.0)
        (number,) = await submitted(pages, {"estimate_s": 60.0, "env": {WORK: "9000"}})
        form = {"kind": "command", "command": "x", "estimate": "60", "workdir": "/"}
        of_job, quoted = await pages.at(f"/job/{number}"), await pages.browser.post("/quote", data=form)
        between = r"13:07 UTC \(2026-01-01 13:07 UTC to 2026-01-01 13:07 UTC\)"
        assert re.search(f"expected to end 2026-01-01 {between}", _text(of_job))
        assert re.search(f"Done2026-01-01 {between}", _text(quoted))
        assert f"as {LEAST} promises to jobs of this user and command turned out" in of_job.text
        await submitted(pages, {"estimate_s": 60.0, "array": "1-2"})
        assert re.search(f"2026-01-01 13:07 UTC to 2026-01-01 {between}", _text(await pages.at("/queue")))

    on_pages(story)


def _text(page: httpx.Response) -> str:
    return re.sub("<[^>]*>", "", page.text)


def test_time_marks_reservations_grace_periods_and_moves(
    on_pages: OnPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pages: Paged) -> None:
        await pages.service.backend.set_policy("conservative", "ada")
        await submitted(pages, {"cpu": 4.0, "grace_s": 60.0}, {"cpu": 4.0}, {"cpu": 4.0})
        await pages.at("/queue")  # the first look has the forecast made
        await asyncio.sleep(0.2)
        seen = await pages.at("/time")
        assert '<rect class="piece reserved' in seen.text
        assert '"url(#grace)" x' not in seen.text
        await pages.service.backend.steer("cancel", [1], "ada", False)
        assert '"url(#grace)" x' in (await pages.at("/time")).text
        columns = dict.fromkeys(("ended_at", "outcome"))
        job = {"job_id": 1, "name": "x", "user": "ada", "status": "running", **columns}
        first = {
            **job,
            "number": 1,
            "places": [["there", 1]],
            "started_at": BEGIN_AT - 90.0,
            "ended_at": BEGIN_AT,
        }
        second = {**job, "number": 2, "places": [["here", 1]], "started_at": BEGIN_AT}
        monkeypatch.setattr(pages.service.store, "runs_between", lambda *_: [second, first])
        assert (await pages.at("/time?span=1w")).text.count('class="moved"') == 1

    on_pages(story)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        (f"from={BEGIN_AT}&to={BEGIN_AT + 600}", 200),
        (f"from={BEGIN_AT}&to={BEGIN_AT}", 422),
        ("from=0&to=1e10", 422),
        ("from=x", 422),
        ("span=year", 422),
    ],
)
def test_the_window_of_time_is_in_the_address(on_pages: OnPages, query: str, status: int) -> None:
    async def story(pages: Paged) -> None:
        answer = await pages.at(f"/time?{query}")
        assert answer.status_code == status
        if status == 200:
            assert f'data-from="{BEGIN_AT}" data-to="{BEGIN_AT + 600}"' in answer.text
            assert (
                f"from={BEGIN_AT - 300:.0f}&amp;to={BEGIN_AT + 300:.0f}" in answer.text
            )  # half of it earlier

    on_pages(story)


def test_what_jobs_held_is_counted_in_cores_whatever_a_unit_is(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {"cpu": 2.0, "memory_gib": 4.0})
        on_node = " ".join(_text(await pages.at("/machines")).split())
        assert "2 of 4 held, 2 free" in on_node
        assert "4 of 16 GiB held, 12 free" in on_node
        assert "x ada" in on_node.partition("Jobs there")[2]
        await pages.service.advance_to(BEGIN_AT + 1800.0)  # one bar of the day
        found = re.findall("[0-9.]+ % in the last half hour", (await pages.at("/machines")).text)
        # One minute of it: two of four cores, 4 of 16 GiB.
        assert found == ["1.7 % in the last half hour", "0.8 % in the last half hour"]

    on_pages(story)


def test_a_rented_machine_has_its_bill(tmp_path: Path) -> None:
    """Of $3.60 an hour, in whole hours from the request on: 90 minutes later two of them are paid."""
    hourly: dict[str, Any] = {"bill_step_s": 3600.0, "bill_from": "request"}
    offer = Offer(type="c8", cpu=8, memory_gib=32, usd_per_h=3.6, boot_s=60.0, **hourly)

    async def story() -> None:
        async with paged(tmp_path, "eva:t=1", (offer,)) as pages:
            await submitted(pages, {"cpu": 8.0, "estimate_s": 1e5, "env": {"VIRTUAL_WORK_S": "1e5"}})
            await pages.service.advance_to(BEGIN_AT + 400.0)
            rented_at = (await pages.service.backend.fleet()).machines[0].rented_at
            await pages.service.advance_to(rented_at + 5400.0)
            text = (await pages.at("/machines")).text
            assert "Rented: $3.60 an hour, $86.40 a day" in text
            paid_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(rented_at + 7200.0))
            assert f'<td><time datetime="{paid_at}"' in text
            assert '<td class="number">$7.20</td>' in text

    asyncio.run(story())


def test_the_last_reconfiguration_stands_above_its_moves(tmp_path: Path) -> None:
    """A job has a c4 to itself once the other is over, and goes to a c2; the owned node is full."""
    offers = (
        Offer(type="c2", cpu=2, memory_gib=8, usd_per_h=0.1, boot_s=100.0),
        Offer(type="c4", cpu=4, memory_gib=16, usd_per_h=0.18, boot_s=100.0),
    )

    async def story() -> None:
        async with paged(tmp_path, "eva:t=1,rounds=fixed", offers) as pages:
            fields = [
                {"cpu": cpu, "grace_s": 10.0, "estimate_s": s, "env": {"VIRTUAL_WORK_S": f"{s}"}}
                for cpu, s in ((4.0, 1e5), (2.0, 550.0), (2.0, 6000.0))
            ]
            await submitted(pages, *fields)
            await pages.service.advance_to(BEGIN_AT + 1500.0)
            text = re.sub("<[^>]+>", "", (await pages.at("/machines")).text)
            assert (
                "moves 1 job, ends 1 machine and rents 1: it was to save $0.08 an hour as a whole, for $0.003"
                in text
            )

    asyncio.run(story())


def test_a_pipeline_is_one_row_and_is_cancelled_as_one(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(
            pages, {"name": "prepare"}, {"name": "train", "after": ["prepare"]}, {"name": "other"}
        )
        text = (await pages.at("/queue")).text
        assert sorted(shown(text)) == ["3", "pipeline-2"]
        assert "pipeline 2, 2 left" in text
        assert shown((await pages.at("/queue?pipeline=2")).text) == ["1", "2"]
        assert (await pages.at("/queue?pipeline=x")).status_code == 422
        await pages.browser.post("/act", data={"verb": "cancel", "job": "pipeline:2"})
        statuses = {j.job_id: j.status.value for j in (await pages.service.backend.jobs(_all())).items}
        assert {statuses[1], statuses[2]} <= {"cancelled", "stopping"}
        assert statuses[3] == "running"

    on_pages(story)


def test_time_machines_and_policy_show_what_is_there(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, *[{"name": f"j{number}"} for number in range(10)])
        await pages.at("/queue")  # the first look has the forecast made
        await asyncio.sleep(0.2)
        seen = await pages.at("/time?span=6h")
        assert len(re.findall(r'<rect class="piece running', seen.text)) == 4
        assert len(re.findall(r'<rect class="piece queued coming', seen.text)) == 6
        assert (await pages.at("/time?span=year")).status_code == 422
        assert "4 of 4" in (await pages.at("/machines")).text
        assert 'class="closed"' not in seen.text
        at = pages.service.backend.scheduler.now_at
        window = MaintenanceSpec(from_at=at + 60.0, to_at=at + 660.0, reason="<disks>")
        await pages.service.backend.add_maintenance(window, "ada")
        closed = re.findall(r'class="closed".*?<title>(.*?)</title>', (await pages.at("/time?span=6h")).text)
        assert closed == ["maintenance 1: &lt;disks&gt;"]
        assert "maintenance <time" in (await pages.at("/machines")).text
        await pages.service.backend.drain("here", "ada", "<fan>")
        assert "by ada: &lt;fan&gt;" in (await pages.at("/machines")).text
        assert "<strong>fifo</strong>" in (await pages.at("/policy")).text
        await pages.browser.post("/policy", data={"policy": "srsf"})
        assert "<strong>srsf</strong>" in (await pages.at("/policy")).text
        refused = await pages.browser.post("/policy", data={"policy": "nonsense"})
        assert refused.status_code == 422

    on_pages(story)


def test_a_row_of_the_timeline_opens_and_bars_have_names_where_there_is_room(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, *[{"name": "a long name of a job", "estimate_s": 40_000.0} for _ in range(4)])
        await submitted(pages, *[{"name": HOSTILE, "cpu": 4.0, "estimate_s": 60.0} for _ in range(12)])
        await pages.at("/")  # the first look has the forecast made
        await asyncio.sleep(0.2)
        closed = (await pages.at("/time?span=1d")).text
        assert 'class="inside ' in closed
        assert ">a long name of a job</text>" in closed
        assert "<img" not in closed
        many = re.search(r'<a href="(\?[^"]+)" aria-label="12 jobs: [^"]*"', closed)
        assert many is not None
        nearer = (await pages.at(f"/time{many[1].replace('&amp;', '&')}")).text
        window = re.search(r'data-from="([^"]+)" data-to="([^"]+)"', nearer)
        assert window is not None
        assert float(window[2]) - float(window[1]) == pytest.approx(8640.0)  # a tenth of the day
        opened = re.search(r'<a class="opens" href="(\?[^"]+)" aria-label="Open ada', closed)
        assert opened is not None
        assert 'aria-label="Close ada"' in (await pages.at(f"/time{opened[1].replace('&amp;', '&')}")).text

    on_pages(story)


def test_however_many_look_the_forecast_is_made_rarely(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        promises, made = pages.service.backend.promises, 0
        forecast = promises.forecast

        async def counted() -> Any:
            nonlocal made
            made += 1
            return await forecast()

        await submitted(pages, *[{} for _ in range(5)])
        promises.forecast = counted
        for number in range(40):
            assert (await pages.at(f"/job/{1 + number % 5}?run=1&x={number}")).status_code == 200
            assert (await pages.at(f"/queue?x={number}")).status_code == 200
        assert made <= 1

    on_pages(story)


def test_a_database_that_is_away_is_a_page_and_no_traceback(
    on_pages: OnPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pages: Paged) -> None:
        def away(*_: object) -> Any:
            raise StoreUnreachable("the database does not answer; start it again")

        monkeypatch.setattr(pages.service.store, "jobs_of", away)
        answer = await pages.at("/queue")
        assert answer.status_code == 503
        assert "the database does not answer" in answer.text
        assert "Traceback" not in answer.text
        monkeypatch.undo()
        assert (await pages.at("/queue")).status_code == 200

    on_pages(story)


def test_the_pages_are_imported_when_they_are_first_asked_for() -> None:
    code = (
        "import sys, betimes.cli.live.up, betimes.service.startup.bootstrap\n"
        "assert not {'jinja2', 'betimes.page.site'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_account_of_promises_is_a_page(on_pages: OnPages, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("early", "late", "cover_frac", "level", "err_p50_frac", "err_p90_frac", "bias_p50_frac")
    far = {"far_late_frac": 0.0125, "far_early_frac": None}
    figures = SimpleNamespace(promises=20, within_10min_frac=None, **dict.fromkeys(names, 0.25), **far)
    in_s = SimpleNamespace(promises=7, err_p50_s=7200.0, bias_mean_s=-10_800.0)
    beside = SimpleNamespace(promises=in_s, slurm=in_s, limit=in_s)
    figures.err_p50_s = figures.bias_mean_s = None
    groups = [SimpleNamespace(name=HOSTILE, figures=figures, slurm=beside)]

    async def accuracy(
        _: object, since: float | None, until: float, by: str, listed: bool, user: None
    ) -> Any:
        assert (since, until, listed) == (None, 0.0, False)
        given = dict.fromkeys(("first", "latest", "estimate", "ratio"), figures)
        watched = groups if by == "name" else []
        return SimpleNamespace(groups=groups if by == "user" else [], beside_slurm=watched, **given)

    monkeypatch.setattr(ServiceBackend, "accuracy", accuracy)

    async def story(pages: Paged) -> None:
        page = await pages.at("/promises?by=user")
        assert page.text.count("25 %") > 10
        assert "1.2 %" in page.text
        assert "<img" not in page.text
        assert "Beside Slurm" not in page.text
        beside_slurm = (await pages.at("/promises?by=name")).text.partition("Beside Slurm")[2]
        for text in (">7<", ">2 h<", ">-3 h<", ">\N{EN DASH}<"):
            assert text in beside_slurm
        assert "<img" not in beside_slurm
        assert (await pages.at("/promises?by=moon")).status_code == 422
        assert (await pages.at("/promises?by=partition")).status_code == 422  # Slurm is not watched

    on_pages(story)


def test_a_point_of_the_front_shows_its_figures_and_is_put_in_force(
    on_pages: OnPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pages: Paged) -> None:
        assert "There is no front yet" in (await pages.at("/policy")).text
        found, chosen = TuningView(at=BEGIN_AT, front=front()), list[str]()

        async def tuning() -> TuningView:
            return found

        async def set_policy(text: str, user: str) -> None:
            chosen.append(f"{user} {text}")

        monkeypatch.setattr(pages.service.backend, "tuning", tuning)
        monkeypatch.setattr(pages.service.backend, "set_policy", set_policy)
        page = await pages.at("/policy?point=1")
        assert page.text.count("<circle") == 3
        assert "Point 1: PCS-balanced" in page.text
        assert "120 s" in page.text or "2 min" in page.text
        assert 'name="policy" value="front:1"' in page.text
        answer = await pages.browser.post("/policy", data={"policy": "front:1"})
        assert (answer.headers["location"], chosen) == ("./policy", ["ada front:1"])
        assert (await pages.at("/policy?point=9")).status_code == 422

    on_pages(story)


def test_what_would_help_a_job_that_waits(on_pages: OnPages) -> None:
    """Three of four cores are busy: on one unit instead of two the job starts at once."""

    async def story(pages: Paged) -> None:
        first, wide = await submitted(
            pages,
            {"min_units": 3, "max_units": 3},
            {"estimate_s": 100.0, "min_units": 2, "max_units": 2},
        )
        page = (await pages.at(f"/job/{wide}")).text
        assert f'data-fill="../job/{wide}/helps"' in page
        helps = (await pages.at(f"/job/{wide}/helps")).text
        assert '<section id="effect">' in helps
        assert "Submitted again on 1 unit instead of 2: done" in helps
        assert "helps" not in (await pages.at(f"/job/{first}")).text
        assert (await pages.at("/job/99/helps")).status_code == 404

    on_pages(story)


def test_what_other_policies_would_do_is_asked_and_one_put_in_force_by_operators(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        backend, asked = pages.service.backend, asyncio.Event()

        async def advises(*_: object) -> Advice:
            await asked.wait()
            assert ADVICE.advice is not None
            return ADVICE.advice

        backend.adviser.advises = advises
        assert "Nobody has asked yet" in (await pages.at("/policy")).text
        refused = await pages.browser.post("/advice", data={"days": "7"})
        assert "no job has been submitted" in refused.text
        assert "days" in (await pages.browser.post("/advice", data={"days": "400"})).text
        await submitted(pages, {}, {})
        answer = await pages.browser.post("/advice", data={"days": "7"})
        assert answer.headers["location"] == "./policy"
        assert "being worked out" in (await pages.at("/policy")).text
        asked.set()
        await pages.service.settle()
        page = await pages.at("/policy")
        text = " ".join(_text(page).split())
        assert "774 jobs of 7 d" in text
        assert "One policy is worth having instead of nodes:fifo" in text
        assert "easy: balanced, shortest waits" in text
        assert "waits 30 min (now 90 min)" in text
        assert "betimes policy set easy" in text
        assert "<strong>nodes:fifo (in force)</strong>" in page.text
        assert 'data-label="Wait, mean">30 min +</td>' in page.text
        assert "no machines are on offer" in text
        assert '<input type="hidden" name="policy" value="easy"><button' in page.text
        pages.tokens.role_of = lambda user: "operator" if user == "ada" else "user"
        await pages.stranger.post("/sign-in", data={"token": pages.tokens.issue("bob", "laptop", None)})
        seen = await pages.stranger.get("/policy")
        assert "easy: balanced, shortest waits" in _text(seen)
        assert "<button data-confirm" not in seen.text
        assert "Work it out" not in seen.text
        assert (await pages.stranger.post("/advice", data={"days": "7"})).status_code == 403
        assert (await pages.stranger.post("/policy", data={"policy": "easy"})).status_code == 403
        await pages.browser.post("/policy", data={"policy": "easy"})
        assert (await backend.policy()).policy == "easy"
        assert "It is in force." in (await pages.at("/policy")).text

    on_pages(story)
