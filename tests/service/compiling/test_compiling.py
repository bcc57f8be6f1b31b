"""A service whose policy is being compiled takes jobs, says so everywhere, and does them when it is compiled."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from betimes.client import AsyncClient
from betimes.errors import PolicyError, Refused, ServiceError, Unavailable
from betimes.service.compiling.kernels import Kernels
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import Service, running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import JobStory
from tests.service.compiling.by_hand import ByHand, before_listening
from tests.service.serving import PATIENCE_S, until

MACHINE = Machine("n-0", "virtual", "n", 2.0, 8.0, 0.0)


def options(state: Path, hand: ByHand, policy: str | None = None) -> ServiceConfig:
    return ServiceConfig(state=state, machines=[MACHINE], kernels=hand.kernels(), policy=policy)


@asynccontextmanager
async def asked(chosen: ServiceConfig) -> AsyncIterator[tuple[Service, AsyncClient]]:
    async with running(chosen) as service, AsyncClient(service.url, service.token) as client:
        yield service, client


async def is_in(client: AsyncClient, job: int, status: str) -> JobStory:
    async with asyncio.timeout(PATIENCE_S):
        while (story := await client.job(job)).job.status != status:
            await asyncio.sleep(0.01)
    return story


async def promised(client: AsyncClient, job: int) -> JobStory:
    async with asyncio.timeout(PATIENCE_S):
        while not (story := await client.job(job)).quotes:
            await asyncio.sleep(0.01)
    return story


def work(seconds: float) -> dict[str, str]:
    return {"VIRTUAL_WORK_S": str(seconds)}


def test_jobs_are_taken_meanwhile_and_promised_and_started_after_that(tmp_path: Path) -> None:
    hand = ByHand()

    async def main() -> None:
        async with asked(options(tmp_path, hand)) as (service, client):
            first = await client.submit(command=["x"], env=work(1000.0), key="once")
            assert first.quote is None
            assert first.reason is not None
            assert first.reason.code == "compiling"
            assert (
                first.reason.text
                == "waits until policy fifo is compiled; its completion time is promised then"
            )
            assert await client.submit(command=["x"], env=work(1000.0), key="once") == first
            second = (await client.submit(command=["x"], env=work(0.1))).job_id
            third = (await client.submit(command=["x"], env=work(1000.0))).job_id
            assert service.store.job(second) is not None
            shown = {job.job_id: job for job in (await client.jobs()).items}
            assert {job.status for job in shown.values()} == {"blocked"}
            assert {job.reason.code for job in shown.values() if job.reason is not None} == {"compiling"}
            story = await client.job(second)
            assert story.job.reason is not None
            assert story.job.reason.code == "compiling"
            assert (await client.cancel(third)).status == "cancelled"
            with pytest.raises(Refused, match="The largest machine here has 2 cores"):
                await client.submit(command=["x"], cpu=3)

            assert hand.asked == ["fifo"]
            hand.end("fifo")
            await is_in(client, second, "finished")
            await is_in(client, first.job_id, "running")
            story = await promised(client, first.job_id)
            assert story.quotes[0].finish_at is not None
            assert story.job.promised_finish_at == story.quotes[0].finish_at
            again = await client.submit(command=["x"], env=work(1000.0), key="once")
            assert (again.quote is not None, again.reason) == (True, None)
            assert (await client.submit(command=["x"], env=work(1.0))).quote is not None

    asyncio.run(main())


def test_what_watches_over_the_service_is_told(tmp_path: Path) -> None:
    hand = ByHand()

    async def main() -> None:
        async with asked(options(tmp_path, hand)) as (service, client), httpx.AsyncClient() as http:
            await until(lambda: hand.asked == ["fifo"])
            assert (await http.get(f"{service.url}/healthz")).status_code == 200
            ready = await http.get(f"{service.url}/readyz")
            assert ready.status_code == 503
            health = await client.health()
            assert (health.ready, health.compiling) == (False, "fifo")
            (problem,) = health.problems
            after = r"jobs are taken, and are promised an end and started after that"
            assert re.fullmatch(rf"compiling policy fifo, \d+ s so far; {after}", problem)
            quoted = await http.post(
                f"{service.url}/api/v1/quote",
                json={"command": ["x"], "workdir": "/"},
                headers={"Authorization": f"Bearer {service.token}"},
            )
            assert (quoted.status_code, quoted.headers["Retry-After"]) == (503, "1")
            with pytest.raises(Unavailable, match=r"^compiling policy fifo: nothing can be foreseen"):
                await client.quote(command=["x"])
            with pytest.raises(Refused, match="The largest machine here has 2 cores"):  # as it will be then
                await client.quote(command=["x"], cpu=3)
            hand.end("fifo")
            async with asyncio.timeout(PATIENCE_S):
                while not (await client.health()).ready:
                    await asyncio.sleep(0.01)
            assert (await http.get(f"{service.url}/readyz")).status_code == 200
            assert (await client.health()).compiling is None
            assert (await client.quote(command=["x"])).finish_at is not None

    asyncio.run(main())


def test_a_policy_whose_compiled_code_is_cached_decides_from_the_first_job_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(options(tmp_path, ByHand("fifo"))) as (_, client):
            assert (await client.health()).ready
            assert (await client.submit(command=["x"])).quote is not None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PolicyError("policy fifo does not compile: x"), "^policy fifo does not compile: x$"),
        (ServiceError("the process ended"), "^the service ended: the process ended$"),
    ],
)
def test_a_service_whose_policy_cannot_be_compiled_ends_and_keeps_its_jobs(
    tmp_path: Path, error: Exception, text: str
) -> None:
    hand = ByHand()

    async def main() -> int:
        async with asked(options(tmp_path, hand)) as (service, client):
            job = (await client.submit(command=["x"], env=work(1000.0))).job_id
            hand.end("fifo", error)
            await asyncio.wait((service.failed,))
            return job

    with pytest.raises(type(error), match=text):
        asyncio.run(main())

    async def again() -> None:
        async with asked(ServiceConfig(state=tmp_path, machines=[MACHINE], kernels=before_listening())) as (
            _,
            client,
        ):
            await promised(client, 1)
            await is_in(client, 1, "running")

    asyncio.run(again())


def test_a_policy_that_there_is_not_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    hand = ByHand()

    async def main() -> None:
        async with running(options(tmp_path, hand, "fofi")):
            pass

    with pytest.raises(PolicyError, match="unknown policy 'fofi'"):
        asyncio.run(main())
    assert hand.asked == []


def test_a_service_goes_on_under_its_policy_until_another_is_compiled(tmp_path: Path) -> None:
    hand = ByHand("fifo")

    async def main() -> None:
        async with asked(options(tmp_path, hand)) as (_, client):
            first = (await client.submit(command=["x"], env=work(1000.0))).job_id
            await is_in(client, first, "running")
            changing = asyncio.ensure_future(client.set_policy("srsf"))
            await until(lambda: "srsf" in hand.asked)
            health = await client.health()
            assert (health.ready, health.compiling, health.problems) == (True, "srsf", [])
            assert (await client.policy()).policy == "fifo"
            second = await client.submit(command=["x"], env=work(1000.0))
            assert second.quote is not None
            await is_in(client, second.job_id, "running")
            assert not changing.done()
            hand.end("srsf")
            assert (await changing).policy == "srsf"
            assert (await client.policy()).policy == "srsf"
            for job in (first, second.job_id):
                story = await client.job(job)
                assert (story.job.status, story.job.attempt) == ("running", 1)
            assert (await client.set_policy("fifo")).policy == "fifo"
            assert (await client.set_policy("srsf")).policy == "srsf"
            assert hand.asked == ["fifo", "srsf"]

    asyncio.run(main())


def test_a_policy_that_does_not_compile_leaves_the_one_in_force(tmp_path: Path) -> None:
    hand = ByHand("fifo")

    async def main() -> None:
        async with asked(options(tmp_path, hand)) as (_, client):
            for error, found in (
                (PolicyError("policy srsf does not compile: x"), Refused),
                (ServiceError("the process ended by signal 9"), ServiceError),
            ):
                changing = asyncio.ensure_future(client.set_policy("srsf"))
                await until(lambda: "srsf" in hand.asked)
                hand.end("srsf", error)
                with pytest.raises(found, match=str(error)):
                    await changing
                hand.asked.clear()
            assert (await client.policy()).policy == "fifo"
            assert (await client.health()).ready
            assert (await client.submit(command=["x"])).quote is not None

    asyncio.run(main())


def test_a_policy_may_be_changed_before_the_first_is_compiled(tmp_path: Path) -> None:
    hand = ByHand("srsf")

    async def main() -> None:
        async with asked(options(tmp_path, hand, "fifo")) as (_, client):
            job = (await client.submit(command=["x"], env=work(1000.0))).job_id
            changing = asyncio.ensure_future(client.set_policy("srsf"))
            await until(lambda: hand.asked == ["fifo"])
            hand.end("fifo")  # one after the other
            assert (await changing).policy == "srsf"
            await promised(client, job)
            await is_in(client, job, "running")

    asyncio.run(main())


def test_whoever_waits_for_a_policy_is_told_that_the_service_stops(tmp_path: Path) -> None:
    hand = ByHand("fifo")

    async def main() -> None:
        async with running(options(tmp_path, hand)) as service:
            client = AsyncClient(service.url, service.token)
            changing = asyncio.ensure_future(client.set_policy("srsf"))
            await until(lambda: "srsf" in hand.asked)
        async with client:
            with pytest.raises(Unavailable, match="the service is stopping"):
                await changing

    asyncio.run(main())


def test_a_service_stops_in_good_order_while_it_compiles(tmp_path: Path) -> None:
    hand = ByHand()

    async def main() -> None:
        async with asked(options(tmp_path, hand)) as (_, client):
            await client.submit(command=["x"])
            assert hand.asked == ["fifo"]

    asyncio.run(main())


@pytest.mark.parametrize("is_cached", [True, False])
def test_compiling_is_spoken_of_only_where_something_is_compiled(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_cached: bool
) -> None:
    monkeypatch.setattr("betimes.service.compiling.kernels.NOTICED_S", 0.01)
    caplog.set_level(logging.INFO, "betimes.service.compiling")

    async def takes_a_while(_: str) -> None:
        await asyncio.sleep(0.5)

    asyncio.run(Kernels(takes_a_while, lambda _: is_cached, interpreted=False).compile("fifo"))

    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(" policy")[0] for text in said] == ([] if is_cached else ["compiling", "compiled"])
