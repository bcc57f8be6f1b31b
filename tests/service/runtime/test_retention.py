"""What is old leaves the database while the service runs, and a service that starts again is none the wiser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Refused, Unknown
from betimes.service.machines.machine import Machine
from betimes.service.runtime.retention import Retention, tidy
from betimes.service.scheduling.fold import recovered
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.store import Store, default_url
from betimes.service.store.event_file import archives, read_archive
from betimes.testing import InMemoryService
from betimes.units import Keep
from tests.service.compiling.by_hand import before_listening
from tests.service.reliability.cluster import seen
from tests.service.serving import PATIENCE_S
from tests.service.store.rows import events

JOBS = 12
SOON_S = 0.3


def options(state: Path, finished_s: float | None = None, events_s: float | None = None) -> ServiceConfig:
    machines = [Machine("n-0", "virtual", "n", 4.0, 8.0, 0.0)]
    return ServiceConfig(
        state=state,
        machines=machines,
        keep_finished_s=finished_s,
        keep_events=Keep(events_s),
        kernels=before_listening(),
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def some_jobs(client: AsyncClient) -> tuple[list[int], int]:
    """Jobs that finish, and one that goes on."""
    quick = [(await client.submit(command=["x"], env={"VIRTUAL_WORK_S": "0.01"})).job_id for _ in range(JOBS)]
    slow = (await client.submit(command=["x"], env={"VIRTUAL_WORK_S": "1000"})).job_id
    for job in quick:
        with suppress(Unknown):  # it has been over for so long that it is forgotten
            assert (await client.wait(job, PATIENCE_S)).status == "finished"
    return quick, slow


def test_old_events_go_to_files_and_the_state_stays(tmp_path: Path) -> None:
    async def first() -> None:
        async with (
            running(options(tmp_path, events_s=SOON_S)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            quick, slow = await some_jobs(client)
            newest = service.store.last_event_id()
            await until(lambda: service.store.archived_upto >= newest)
            assert (await client.job(quick[0])).job.status == "finished"
            assert (await client.job(slow)).job.status == "running"
            pages: list[int] = []
            async for job in client.iterate_jobs(limit=5):
                pages.append(job.job_id)
            assert pages == [slow, *reversed(quick)]
            upto = service.store.archived_upto
            with pytest.raises(Refused, match=r"events up to [0-9]+ are archived"):
                [event async for event in client.events(1)]
            await client.submit(command=["x"], env={"VIRTUAL_WORK_S": "1000"})
            assert all([event.event_id > upto async for event in client.events()])
            assert (await client.health()).archived_upto >= upto

    asyncio.run(first())
    events = [event for path in archives(tmp_path).values() for event in read_archive(path)]
    assert [event.event_id for event in events] == [*range(1, len(events) + 1)]
    assert [event.job for event in events if event.kind == "finished"] == [*range(1, JOBS + 1)]

    async def again() -> None:
        async with running(options(tmp_path)) as service:
            ledger = service.controller.scheduler.ledger
            await until(lambda: service.store.last_event_id() == ledger.next_event - 1)
            # An archive that the stop has cut short may have its file already, and its events in the database still.
            later = service.store.each_event(events[-1].event_id)
            whole = recovered(None, [*events, *later])
            assert seen(ledger) == seen(whole)
            assert list(ledger.jobs) == [JOBS + 1, JOBS + 2]

    asyncio.run(again())


def test_jobs_that_have_been_over_for_long_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path, finished_s=SOON_S)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            output = tmp_path / "runs" / "1" / "1"
            output.mkdir(parents=True)
            (output / "log").write_text("done\n")
            quick, slow = await some_jobs(client)
            await until(lambda: not output.parent.exists())
            await until(lambda: all(service.store.job(job) is None for job in quick))
            with pytest.raises(Unknown, match="no job 1"):
                await client.job(1)
            assert [job.job_id async for job in client.iterate_jobs()] == [slow]
            new = await client.submit(command=["x"], env={"VIRTUAL_WORK_S": "0.01"})
            assert new.job_id == slow + 1, "no number is used twice"
            cancelled = await client.cancel([*quick, slow], where_possible=True)
            assert [job.job_id for job in cancelled] == [slow], "those that are forgotten are left out"

    asyncio.run(main())


def test_output_that_cannot_be_removed_is_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path, finished_s=SOON_S)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            (tmp_path / "runs").mkdir()
            (tmp_path / "runs" / "1000").write_text("no folder")
            for first in (1, JOBS + 2):  # it is tried again with the next jobs
                folder = tmp_path / "runs" / str(first)
                folder.mkdir()
                quick, _ = await some_jobs(client)
                assert quick[0] == first
                await until(lambda folder=folder: not folder.exists())

    asyncio.run(main())
    assert "what job 1000 has printed cannot be removed" in caplog.text


def test_what_is_young_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path, finished_s=1e6, events_s=1e6)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            quick, _ = await some_jobs(client)
            assert (await client.job(quick[0])).job.status == "finished"
            assert service.store.archived_upto == 0

    asyncio.run(main())
    assert not (tmp_path / "archive").exists()


DAY_S, FOR_EVER = 86_400.0, Keep()


def folder_of_run(state: Path, job: int, printed: bytes = b"") -> Path:
    """As a supervisor leaves it."""
    folder = state / "runs" / str(job) / "1"
    (folder / "job").mkdir(parents=True)
    (state / "checkpoints" / str(job)).mkdir(parents=True)
    for name in ("launch.json", "shim.json", "exit.json"):
        (folder / name).write_text("{}")
    for name in ("lock", "shim.err"):
        (folder / name).touch()
    (folder / "log").write_bytes(printed)
    return folder


def test_folders_go_by_age_and_amount_and_the_accounts_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InMemoryService() as service:
        store = service._parts.store

        def tidied(runs: Keep = FOR_EVER) -> set[int]:
            """The jobs whose folders are left."""
            tidy(store, tmp_path, Retention(None, runs, FOR_EVER), service.now_s, 3600.0)
            return {int(path.name) for path in (tmp_path / "runs").iterdir()}

        def accounts() -> object:
            return service.usage(by="user"), service.accuracy(by="name", promises=True)

        jobs = [service.submit(command=["x"], work_s=3600.0, estimate_s=3000.0).job_id for _ in range(5)]
        service.finish()
        jobs.append(service.submit(command=["x"], work_s=3600.0 * 24 * 400).job_id)  # still runs at the end
        for job in jobs[:-1]:
            folder_of_run(tmp_path, job, b"" if job < 3 else b"x" * 100_000)
        (tmp_path / "runs" / "1" / "1" / "job" / "units.json").write_text("2")  # of the service
        (tmp_path / "runs" / "2" / "1" / "job" / "result").write_text("of the user")
        folder_of_run(tmp_path, jobs[-1])
        folder_of_run(tmp_path, 77)  # of another log
        (tmp_path / "checkpoints" / "3" / "model").touch()
        with monkeypatch.context() as here:  # of the user, too: deeper than any path
            here.chdir(tmp_path / "runs" / "4" / "1" / "job")
            for _ in range(2500):
                os.mkdir("in")  # noqa: PTH102
                os.chdir("in")

        assert tidied(Keep(30 * DAY_S)) == {*jobs, 77}, "all of it is young"
        service.advance(8 * DAY_S)
        assert tidied() == {2, 3, 4, 5, 6, 77}, "the first has left nothing that anybody could miss"
        assert not (tmp_path / "checkpoints" / "1").exists()
        assert tidied(Keep(None, 1 << 30)) == {2, 3, 4, 5, 6, 77}
        assert tidied(Keep(None, 250_000)) == {5, 6, 77}, "the oldest go first"
        assert (tmp_path / "checkpoints" / "3" / "model").exists()
        service.advance(30 * DAY_S)
        before = accounts()
        assert tidied(Keep(30 * DAY_S)) == {6, 77}
        with pytest.raises(Unknown, match="no output of job 4 is kept"):
            list(service.logs(4))
        assert service.job(4).job.status == "finished"
        assert accounts() == before


def test_events_go_by_age_and_amount(tmp_path: Path) -> None:
    store = Store.open(default_url(tmp_path), tmp_path)
    for number in range(1, 101):
        store.commit(events(number, number, kind="trouble", text="x" * 900))
    at_100 = 1_700_000_100.0

    def archived(keep: Keep, now_at: float) -> int:
        tidy(store, tmp_path, Retention(None, FOR_EVER, keep), now_at, 3600.0)
        return store.archived_upto

    try:
        assert archived(Keep(), at_100 + 1e9) == 0
        assert archived(Keep(100.0), at_100 + 5.0) == 0, "few are too old: they go together with later ones"
        assert archived(Keep(None, 95_000), at_100) == 0
        assert archived(Keep(100.0), at_100 + 20.5) == 20
        assert archived(Keep(100.0, 1 << 30), at_100 + 21.0) == 20
        assert archived(Keep(1e9, 50_000), at_100) == 100 - 50_000 // 1012
        assert len(archives(tmp_path)) == 2
        assert store.latest_snapshot() is not None
    finally:
        store.close()
