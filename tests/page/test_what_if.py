"""The what-if page: before and after a change, which changes nothing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from betimes.service.tuning.view import TuningView
from tests.page.conftest import BEGIN_AT, Paged
from tests.page.test_site import HOSTILE, submitted
from tests.service.tuning.fronts import front, policy

OnPages = Callable[[Callable[[Paged], Awaitable[None]]], None]
WIDE = {"cpu": 4.0}  # all that there is


def told(html: str) -> str:
    """The words of a page."""
    return " ".join(re.sub(r"<title>.*?</title>|<[^>]+>", " ", html).split())


def rows(html: str) -> list[str]:
    """The jobs in the table, and what becomes of them."""
    table = html[html.index("<tbody>") : html.index("</tbody>")]
    return [told(row) for row in table.split("<tr>")[1:]]


def test_before_and_after_stand_beside_each_other(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {**WIDE, "name": "long"}, {**WIDE, "name": HOSTILE, "estimate_s": 60.0})
        assert "Before and after" not in (await pages.at("/what-if")).text
        cancelled = await pages.at("/what-if?policy=&add:n=&cancel=1")
        assert "<img" not in cancelled.text
        assert re.findall("<h3>(.*?)</h3>", cancelled.text) == ["As it is", "After the change"]
        first, second = rows(cancelled.text)
        assert re.fullmatch("long 1 ada 2026-01-01 1[23]:.. UTC cancelled &ndash;", first)
        assert re.search("2026-01-01 13:0. UTC 2026-01-01 12:0. UTC 60 min earlier$", second)
        assert "1 ends earlier, 0 later" in told(cancelled.text)
        same = await pages.at("/what-if?policy=srsf")
        assert "For 2 jobs nothing changes" in told(same.text)
        assert (await pages.service.backend.job(1)).job.status == "running"
        assert (await pages.service.backend.policy()).policy == "fifo"

    on_pages(story)


def test_a_job_asks_for_something_else(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {**WIDE, "name": "long"}, {**WIDE, "name": "next"})
        shorter = await pages.at("/what-if?job=2&time=30m")
        assert rows(shorter.text)[0].startswith("next 2 ada")
        assert "30 min earlier" in shorter.text
        assert 'name="time" value="30m"' in shorter.text

    on_pages(story)


def test_nodes_come_and_go(on_pages: OnPages) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {**WIDE, "name": "long"}, {**WIDE, "name": "next"})
        more = await pages.at("/what-if?add%3An=1")
        assert [row.split(" 2026")[0] for row in rows(more.text)] == ["next 2 ada"]
        assert "60 min earlier" in more.text
        less = await pages.at("/what-if?remove=here")
        assert "1 would not end any more" in told(less.text)
        assert rows(less.text)[0].endswith("UTC never &ndash;")

    on_pages(story)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("cancel=one", "cancel: expected a whole number"),
        ("cancel=77", "there is no job 77"),
        ("job=1", "job: say what it is to ask for"),
        ("time=60s", "job: name the one"),
        ("job=1&time=60", "time limit: is it minutes? write 60m"),
        ("job=1&units=0", "units: expected a whole number from 1 on"),
        ("add:n=many", "nodes of type n: expected a whole number"),
        ("add:n=5000", "add_nodes"),
        ("add:moon=1", "no node of type moon"),
        ("policy=nonsense", "nonsense"),
        ("policy=front:1", "there is no front yet"),
    ],
)
def test_a_change_that_cannot_be_tried_is_named_above_what_was_asked(
    on_pages: OnPages, query: str, said: str
) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {})
        answer = await pages.at(f"/what-if?{query}")
        assert answer.status_code == 200
        assert said in told(answer.text[answer.text.index('role="alert"') :])
        assert 'id="change"' in answer.text

    on_pages(story)


def test_a_point_of_the_front_leads_to_its_effect_on_the_queue(
    on_pages: OnPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pages: Paged) -> None:
        await submitted(pages, {**WIDE, "name": "long"}, {**WIDE, "name": "next"})

        async def tuning() -> TuningView:
            return TuningView(at=BEGIN_AT, front=front())

        monkeypatch.setattr(pages.service.backend, "tuning", tuning)
        monkeypatch.setattr(pages.service.backend.tuner, "chosen", lambda text: (policy(int(text[6:])), {}))
        page = await pages.at("/policy?point=1")
        found = re.search(r'data-fill="([^"]+)"', page.text)
        assert found is not None
        effect = await pages.at(found[1].removeprefix("."), **{"X-Fragment": "main"})
        assert 'id="effect"' in effect.text
        assert "of 2 jobs" in told(effect.text)
        assert 'role="alert"' not in effect.text

    on_pages(story)
