"""What readers see of the jobs of others where Slurm hides them: what it would show, which is nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from betimes.page.site import create_page
from betimes.service.startup.bootstrap import Service
from tests.slurm.test_source import Slurm, ago, over, started, until, waiting, watching

OWN, OTHERS = (880001, 880002, 880003), (770001, 770002, 770003, 770004)
SECRET = re.compile(r"bob|thesis|\b77000\d\b|\b770009(_1|\d{8})\b")
"""The users, names and numbers of jobs of others, also in what is said of one's own."""
QUERIES: dict[str, tuple[dict[str, Any], ...]] = {
    "/api/v1/jobs": ({"user": "bob"}, {"name": "thesis"}, {"spec": True, "intervals": True}, {"label": "slurm=770001"}),
    "/api/v1/events": ({"job": 770001}, {"limit": 1000}, {"kind": "quoted"}, {"by": "bob"}),
    "/api/v1/accuracy": tuple({"by": by, "promises": True} for by in ("user", "name", "partition", "horizon")),
    "/api/v1/usage": tuple({"by": by} for by in ("user", "name", "label")),
}  # fmt: skip
PAGES = (
    "/", "/queue", "/queue?state=all", "/queue?state=over", "/queue?user=bob", "/queue?name=thesis",
    "/queue?search=bob", "/queue?search=770001", "/queue?group=user", "/queue?group=name", "/queue?sort=-user",
    "/time", "/time?span=1w", "/time?open=n5", "/machines", "/machines?node=n5",
    "/promises?by=user", "/promises?by=name", "/policy", "/what-if",
    "/what-if?policy=easy", "/what-if?cancel=880002", "/what-if?cancel=770002",
    "/what-if?job=880002&time=1m", "/what-if?job=770002&time=1m",
)  # fmt: skip


def queue(slurm: Slurm) -> None:
    """One job of each kind of ada, and of bob, whose jobs ada's wait for."""
    busy = {"cpus": 16, "nodes": 4, "limit": "10:00"}
    slurm.queue(
        started(OWN[0], user="ada", hosts="n[1-4]", **busy),
        waiting(OWN[1], user="ada", priority=1, **busy),
        over(OWN[2], user="ada", name="own"),
        started(OTHERS[0], user="bob", name="thesis", hosts="n[5-8]", **busy),
        waiting(OTHERS[1], user="bob", name="thesis", priority=9, **busy),
        over(OTHERS[2], user="bob", name="thesis"),
        waiting(OTHERS[3], user="bob", name="thesis", reason="Dependency"),
        waiting("770009_1", user="bob", name="thesis", priority=9),
    )


@asynccontextmanager
async def asking(service: Service, token: str = "") -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
        yield http


def private(
    folder: Path, story: Callable[[Slurm, Service, httpx.AsyncClient, httpx.AsyncClient], Awaitable[None]],
    sets: str = "jobs", **settings: Any,
) -> None:  # fmt: skip
    """Runs a story with a Slurm whose jobs are private, a service that has seen them, its operator, and ada."""
    slurm = Slurm(folder)
    slurm.sets(PrivateData=sets)
    slurm.counts(3)  # fewer than are seen, and those are counted
    queue(slurm)

    async def run() -> None:
        async with (
            watching(folder, slurm, page=create_page, poll_s=0.3, **settings) as (service, client),
            asking(service, service.token) as operator,
        ):

            async def is_seen() -> bool:
                shown = {job.job_id: job for job in (await client.jobs(limit=100)).items}
                waits = [
                    shown[number].promised_finish_at for number in (OWN[1], OTHERS[1]) if number in shown
                ]
                return len(shown) >= 6 and len(waits) == 2 and all(waits)

            await until(is_seen)
            (await operator.post("/api/v1/users", json={"name": "ada", "role": "user"})).raise_for_status()
            made = await operator.post("/api/v1/tokens", json={"user": "ada", "name": "laptop"})
            async with asking(service, made.json()["token"]) as ada:
                await ada.post("/sign-in", data={"token": made.json()["token"]})
                await operator.post("/sign-in", data={"token": service.token})
                await story(slurm, service, operator, ada)

    asyncio.run(run())


async def reads(http: httpx.AsyncClient) -> dict[str, str]:
    """The answer to every GET of the document, of each job where a path names one, and of all pages, by request."""
    document = (await http.get("/api/v1/openapi.json")).json()
    found = dict[str, str]()
    for path, methods in document["paths"].items():
        if "get" not in methods or path.endswith("/stream"):
            continue
        numbers = (*OWN, *OTHERS) if "{job_id}" in path else ("",)
        for number in numbers:
            first = {"timeout_s": 0} if path.endswith("/wait") else {}
            for query in (first, *QUERIES.get(path, ())):
                at = path.replace("{job_id}", str(number)).replace("{sha256}", "0" * 64)
                answer = await http.get(at, params=query)
                assert "{" not in at, "a path with a parameter that this test does not know"
                assert answer.status_code < 500 or at == "/readyz", (at, answer.text)
                found[f"{at} {query}"] = answer.text.replace(str(number) if number in OTHERS else "\0", "")
    for page in (*PAGES, *(f"/job/{number}" for number in (*OWN, *OTHERS))):
        answer = await http.get(page)
        number = (
            page.rpartition("/")[2] if page.startswith("/job") else page.partition("=")[2].partition("&")[0]
        )
        assert answer.status_code in (200, 404), (page, answer.text)
        found[page] = answer.text.replace(number if number in map(str, OTHERS) else "\0", "")
    return found


@pytest.mark.parametrize(
    ("sets", "settings"),
    [("jobs", {}), ("none", {"own_jobs_only": True, "read_all": True}), ("jobs", {"user_names": "hashed"})],
)
def test_no_answer_shows_a_reader_a_job_of_another(
    tmp_path: Path, sets: str, settings: dict[str, Any]
) -> None:
    async def story(_: Slurm, service: Service, operator: httpx.AsyncClient, ada: httpx.AsyncClient) -> None:
        names = re.compile(SECRET.pattern.replace("bob|thesis|", "")) if "user_names" in settings else SECRET
        seen_by_ada, seen_by_operator = await reads(ada), await reads(operator)
        for request, text in seen_by_ada.items():
            filters = "bob|thesis|770001" if request in PAGES else "\0"
            assert not names.search(re.sub(rf'value="({filters})"|=({filters})\b', "", text)), request
        telling = {request for request, text in seen_by_operator.items() if names.search(text)}
        assert {
            "/api/v1/jobs {}",
            "/api/v1/events {}",
            "/api/v1/nodes {}",
            "/",
            "/time",
            "/machines",
        } <= telling
        # Own jobs are there, in all of it.
        listed = (await ada.get("/api/v1/jobs")).json()["items"]
        assert {job["job_id"] for job in listed} == {OWN[0], OWN[1]}
        named = (await ada.get("/api/v1/jobs", params={"user": "ada"})).json()["items"]
        assert [job["job_id"] for job in named] == [job["job_id"] for job in listed]
        told = (await ada.get(f"/api/v1/jobs/{OWN[1]}")).json()
        assert told["job"]["reason"]["code"] in ("no-room", "turn")
        assert "expected" in told["job"]["reason"]["text"]
        assert [event["kind"] for event in told["events"]][:2] == ["submitted", "queued"]
        assert str(OWN[1]) in (await ada.get("/")).text
        for number in OTHERS:
            assert (await ada.get(f"/api/v1/jobs/{number}")).status_code == 404
            assert (await ada.get(f"/api/v1/jobs/{number}/wait")).status_code == 404
        assert (await ada.post(f"/api/v1/jobs/{OTHERS[0]}/cancel")).status_code == 404

    private(tmp_path, story, sets, **settings)


def test_questions_tell_of_own_jobs_alone(tmp_path: Path) -> None:
    async def story(_: Slurm, service: Service, operator: httpx.AsyncClient, ada: httpx.AsyncClient) -> None:
        asked = {
            "command": ["x"],
            "min_units": 16,
            "max_units": 16,
            "time_limit_s": 60.0,
            "labels": {"nodes": "4"},
        }
        quote = await ada.post("/api/v1/quote", json=asked)
        assert quote.json()["start_at"] is not None
        assert not SECRET.search(quote.text)
        own = {"edit": [{"job_id": OWN[1], "time_limit_s": 60.0}]}
        then = await ada.post("/api/v1/what-if", json=own)
        assert {one["job_id"] for one in then.json()["jobs"]} == {OWN[0], OWN[1]}
        assert then.json()["before"] is None
        everything = await operator.post("/api/v1/what-if", json=own)
        assert OTHERS[1] in {one["job_id"] for one in everything.json()["jobs"]}
        nobody = await ada.post("/api/v1/what-if", json={"cancel": [123456]})
        for asked in ({"cancel": [OTHERS[0]]}, {"edit": [{"job_id": OTHERS[1], "time_limit_s": 60.0}]}):
            refused = await ada.post("/api/v1/what-if", json=asked)
            assert (refused.status_code, nobody.status_code) == (404, 404)
            number = str((asked.get("cancel") or [asked["edit"][0]["job_id"]])[0])  # pyright: ignore
            assert refused.text.replace(number, "") == nobody.text.replace("123456", "")

    private(tmp_path, story)


def test_totals_are_of_own_jobs(tmp_path: Path) -> None:
    async def story(
        slurm: Slurm, service: Service, operator: httpx.AsyncClient, ada: httpx.AsyncClient
    ) -> None:
        slurm.queue(
            over(OWN[0], user="ada", start=ago(60.0), cpus=16, nodes=4, hosts="n[1-4]", limit="10:00"),
            over(OTHERS[0], user="bob", start=ago(60.0), cpus=16, nodes=4, hosts="n[5-8]", limit="10:00"),
        )

        async def is_over() -> bool:
            return (await operator.get("/api/v1/accuracy")).json()["first"]["promises"] == 2

        await until(is_over)
        counts = [(await http.get("/api/v1/accuracy")).json() for http in (operator, ada)]
        assert [found["first"]["promises"] for found in counts] == [2, 1]
        assert [found["beside_slurm"][0]["figures"]["promises"] for found in counts] == [2, 1]
        used = [(await http.get("/api/v1/usage")).json()["total"] for http in (operator, ada)]
        assert used[1]["jobs"] == 1
        assert used[0]["jobs"] == 2
        assert used[0]["unit_h"] == pytest.approx(2 * used[1]["unit_h"], rel=0.2)

    private(tmp_path, story)


def test_streams_leave_out_the_jobs_of_others(tmp_path: Path) -> None:
    async def story(slurm: Slurm, service: Service, _: httpx.AsyncClient, ada: httpx.AsyncClient) -> None:
        async def told(path: str, headers: dict[str, str]) -> str:
            text = ""
            async with ada.stream("GET", path, headers=headers) as answer:
                async for line in answer.aiter_lines():
                    text += line + "\n"
                    if f'"kind":"cancelled","cause":"slurm","job_id":{OWN[1]}' in line:
                        return text
            raise AssertionError(text)

        streams = [
            asyncio.ensure_future(told(path, headers))
            for path, headers in (
                ("/api/v1/events/stream", {}),
                ("/api/v1/events", {"Accept": "text/event-stream"}),
            )
        ]
        await asyncio.sleep(0.3)
        slurm.queue(
            over(OTHERS[1], "CANCELLED", user="bob", name="thesis", hosts=""),
            over(OWN[1], "CANCELLED", user="ada", hosts=""),
        )
        for text in await asyncio.gather(*streams):
            assert not SECRET.search(text)

    private(tmp_path, story)


def test_everybody_sees_the_queue_where_slurm_shows_it(tmp_path: Path) -> None:
    async def story(slurm: Slurm, service: Service, _: httpx.AsyncClient, ada: httpx.AsyncClient) -> None:
        async def is_shown() -> bool:
            return len((await ada.get("/api/v1/jobs")).json()["items"]) >= 6

        await until(is_shown)
        assert (await ada.get(f"/api/v1/jobs/{OTHERS[0]}")).status_code == 403

    private(tmp_path, story, "cloud")
