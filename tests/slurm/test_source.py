"""A service that watches Slurm, driven by pictures: what is seen becomes events, promises and an account."""

from __future__ import annotations

import asyncio
import getpass
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from betimes.client import AsyncClient, JobSpec
from betimes.errors import BetimesError, Conflict, InputError
from betimes.service.runtime.slurm_source import ELEMENTS, number_of
from betimes.service.startup.bootstrap import Service, running
from betimes.service.startup.config import ServiceConfig, read_settings
from betimes.service.views.models import NodeSpec
from betimes.slurm.hostlist import hostnames
from tests.service.serving import PATIENCE_S
from tests.slurm.fake_slurm import FakeSlurm
from tests.slurm.real_slurm import NoSlurm, end_jobs, real_slurm
from tests.slurm.recording import MARK, printed, row

NODE = "NodeName=n{} CPUTot=4 RealMemory=4000 State=IDLE Partitions=batch\n"
ARRAY = 9 * ELEMENTS


class Slurm:
    """A Slurm of eight nodes of four CPUs, that shows what a test wants it to."""

    def __init__(self, folder: Path) -> None:
        self.shown = folder / "shown"
        self.shown.mkdir()
        for name in ("partition", "config", "reservation"):
            (self.shown / name).write_text(printed(name))
        (self.shown / "node").write_text("".join(NODE.format(number) for number in range(1, 9)))
        self.counts(None)
        self.queue()
        self.fake = FakeSlurm(folder, self.shown)

    def queue(self, *rows: str) -> None:
        """The rows of squeue from now on."""
        new = self.shown / "new"
        new.write_text("".join(f"{MARK}{each}\n" for each in rows))
        new.replace(self.shown / "squeue")

    def sets(self, **settings: str) -> None:
        """Lines of the configuration from now on."""
        lines = (self.shown / "config").read_text().split("\n")
        kept = [line for line in lines if line.partition("=")[0].strip() not in settings]
        (self.shown / "config").write_text(
            "\n".join([f"{name} = {value}" for name, value in settings.items()] + kept)
        )

    def counts(self, waiting: int | None) -> None:
        """What sdiag counts from now on; null: as many as there are."""
        now = int(time.time())
        text = f"sdiag output at x ({now})\nJob states ts:  x ({now if waiting is not None else 0})\n"
        (self.shown / "sdiag").write_text(f"{text}Jobs pending: {waiting or 0}\nJobs running: 0\n")


def ago(seconds: float) -> int:
    return int(time.time() - seconds)


def waiting(number: object, **fields: object) -> str:
    return row(**({"id": number, "submit": ago(100.0)} | fields))


def started(number: object, **fields: object) -> str:
    given = {"id": number, "state": "RUNNING", "submit": ago(100.0), "start": ago(60.0), "hosts": "n1"}
    return row(**(given | fields))


def over(number: object, state: str = "COMPLETED", **fields: object) -> str:
    return started(number, **({"state": state, "end": ago(1.0)} | fields))


@asynccontextmanager
async def watching(folder: Path, slurm: Slurm, **settings: Any) -> AsyncIterator[tuple[Service, AsyncClient]]:
    given: dict[str, Any] = {"poll_s": 0.05, "history_s": 0.0}
    config = ServiceConfig(
        state=folder / "state", slurm=True, slurm_bin=slurm.fake.folder, **(given | settings)
    )
    async with running(config) as service, AsyncClient(service.url, service.token) as client:
        yield service, client


async def until(is_so: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Wait for something; returns what is true then."""
    until_s = time.monotonic() + PATIENCE_S
    while not (found := await is_so()):
        assert time.monotonic() < until_s
        await asyncio.sleep(0.05)
    return found


async def shown(client: AsyncClient) -> dict[int, Any]:
    return {job.job_id: job for job in (await client.jobs(limit=100)).items}


def events(service: Service) -> list[tuple[str, int | None]]:
    return [(event.kind, event.job) for event in service.store.each_event(0)]


def test_what_is_seen_becomes_events_and_promises(tmp_path: Path) -> None:
    slurm, since = Slurm(tmp_path), ago(60.0)

    async def story() -> None:
        slurm.queue(
            over(1),  # before the service began
            started(2, cpus=32, nodes=8, hosts="n[1-8]", limit="10:00", start=since),
            waiting(3, cpus=4, priority=5),
            waiting(4, cpus=4, priority=9, user="bob"),
            waiting(5, reason="JobHeldUser"),
            waiting("9_3", reason="JobArrayTaskLimit"),
            waiting(6, name="x\x1b[31m\n9|y"),
        )
        async with watching(tmp_path, slurm) as (service, client):

            async def promised() -> bool:
                found = await shown(client)
                return all(number in found and found[number].promised_finish_at for number in (2, 3, 4, 6))

            await until(promised)
            jobs = await shown(client)
            assert {number: job.status for number, job in jobs.items()} == {
                2: "running", 3: "queued", 4: "queued", 5: "blocked", 6: "queued", ARRAY + 3: "blocked",
            }  # fmt: skip
            assert jobs[4].user == "bob"
            assert jobs[6].name == "x\\x1b[31m\\n9|y"
            assert jobs[5].reason.text == "it is held"
            assert (jobs[ARRAY + 3].array_id, jobs[ARRAY + 3].array_index) == (9, 3)
            whole = (await client.job(2)).job
            assert whole.started_at == since
            used = await client.curves(2)
            assert (used.points, used.cores_asked) == ([], 4.0)  # of the first of its nodes
            assert used.not_measured == "it is a job of Slurm, which runs it: nothing is measured here"
            assert whole.promised_finish_at == pytest.approx(since + 600.0, abs=5.0)
            assert jobs[4].promised_finish_at == pytest.approx(since + 4200.0, abs=10.0)
            assert jobs[5].promised_finish_at is None

            slurm.queue(
                over(2, cpus=32, nodes=8, hosts="n[1-8]", limit="10:00"),
                started(3, cpus=4, start=ago(0.0), hosts="n2"),
                over(4, "FAILED", cpus=4, user="bob", start=ago(3.0), hosts="n3"),
                waiting(5, reason="Priority", limit="5:00"),
                over(7, start=ago(2.0), submit=ago(3.0)),  # between two looks
                over("9_3", "CANCELLED", hosts="", start=ago(1.0)),
            )

            async def is_over() -> bool:
                found = await shown(client)
                return 7 in found and found[5].promised_finish_at is not None

            await until(is_over)
            assert {number: job.status for number, job in (await shown(client)).items()} == {
                2: "finished", 3: "running", 4: "failed", 5: "queued", 6: "cancelled", 7: "finished",
                ARRAY + 3: "cancelled",
            }  # fmt: skip
            assert "unknown" in str((await client.job(6)).job.reason)
            told = events(service)
            assert ("edited", 5) in told
            assert told.count(("submitted", 3)) == 1
            assert told.count(("quoted", 3)) == 1
            assert (await client.job(2)).quote_error_s == pytest.approx(60.0 - 600.0, abs=30.0)
            await until(lambda: _notes(client, ""))
        assert slurm.fake.nothing_was_written

    asyncio.run(story())


def test_a_restart_goes_on_and_ends_meanwhile_are_asked_of_accounting(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.queue(started(2), started(3, hosts="n2"), waiting(4), started(5, hosts="n3"))
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _has(client, 2, 3, 4, 5))
        (slurm.shown / "sacct").write_text(
            f"2|COMPLETED|{ago(60.0)}|{ago(5.0)}\n4|CANCELLED by 0|Unknown|{ago(4.0)}\n"
        )
        slurm.queue(started(5, hosts="n3"))
        async with watching(tmp_path, slurm) as (service, client):
            await until(lambda: _are(client, {2: "finished", 3: "failed", 4: "cancelled", 5: "running"}))
            told = events(service)
            assert [told.count((kind, 5)) for kind in ("submitted", "started")] == [1, 1]
            lost = await client.job(3)
            assert lost.job.reason is not None
            assert (lost.job.reason.code, lost.runs[0].outcome) == ("lost", "lost")
            assert "how it ended is unknown" in lost.job.reason.text
            assert (await client.job(2)).job.finished_at == pytest.approx(time.time() - 5.0, abs=5.0)
        assert slurm.fake.nothing_was_written

    asyncio.run(story())


def test_a_job_that_waits_for_another_is_promised_an_end(tmp_path: Path) -> None:
    slurm, since = Slurm(tmp_path), ago(60.0)
    first = {"cpus": 4, "limit": "10:00", "start": since}

    async def story() -> None:
        slurm.queue(
            started(2, **first),
            waiting(3, reason="Dependency", dependency="afterok:2(unfulfilled)", limit="5:00"),
            waiting(4, reason="Dependency", dependency="afterany:3(unfulfilled)", limit="5:00"),
            waiting(5, reason="Dependency", dependency="singleton(unfulfilled)"),
        )
        async with watching(tmp_path, slurm) as (service, client):
            await until(lambda: _promised(client, 2, 3, 4))
            jobs = await shown(client)
            assert [jobs[number].status for number in (2, 3, 4, 5)] == ["running", *["blocked"] * 3]
            assert jobs[3].promised_finish_at == pytest.approx(since + 900.0, abs=1.0)
            assert jobs[4].promised_finish_at == pytest.approx(since + 1200.0, abs=1.0)
            assert jobs[4].estimate.start_at == pytest.approx(since + 900.0, abs=1.0)
            assert jobs[3].reason.text == "it waits for job 2 to end"
            assert jobs[5].promised_finish_at is None
            assert jobs[5].reason.text == "it waits for other jobs (singleton(unfulfilled))"

            slurm.queue(
                over(2, **first),
                waiting(3, limit="5:00"),
                waiting(4, reason="Dependency", dependency="afterany:3(unfulfilled)", limit="5:00"),
            )
            await until(lambda: _are_at_least(client, {2: "finished", 3: "queued", 4: "blocked"}))
            # The first promise is the one that counts.
            assert (await shown(client))[3].promised_finish_at == jobs[3].promised_finish_at
            slurm.queue(started(3, limit="5:00", start=ago(0.0)))
            await until(lambda: _are_at_least(client, {3: "running"}))
            assert events(service).count(("quoted", 3)) == 1

    asyncio.run(story())


async def _are_at_least(client: AsyncClient, statuses: dict[int, str]) -> bool:
    jobs = await shown(client)
    return statuses.items() <= {number: job.status for number, job in jobs.items()}.items()


async def _has(client: AsyncClient, *numbers: int) -> bool:
    return set(numbers) <= (await shown(client)).keys()


async def _are(client: AsyncClient, statuses: dict[int, str]) -> bool:
    return {number: job.status for number, job in (await shown(client)).items()} == statuses


def test_a_job_that_is_requeued_waits_again(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.queue(started(2))
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _are(client, {2: "running"}))
            slurm.queue(waiting(2, submit=ago(0.0)))
            await until(lambda: _are(client, {2: "queued"}))
            slurm.queue(started(2, submit=ago(1.0), start=ago(0.0), hosts="n4"))
            await until(lambda: _are(client, {2: "running"}))
            assert [run.places[0].node for run in (await client.job(2)).runs] == ["n1", "n4"]

    asyncio.run(story())


def test_a_job_that_is_requeued_after_its_end_is_followed_again(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.queue(over(3), started(2))
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _are(client, {2: "running"}))
            slurm.queue(over(3), over(2))
            await until(lambda: _are(client, {2: "finished"}))
            # Job 3 was over before this service began.
            slurm.queue(started(3, start=ago(0.0), hosts="n3"), waiting(2, submit=ago(0.0)))
            await until(lambda: _are(client, {2: "queued", 3: "running"}))
            assert (await client.job(2)).job.finished_at is None
        async with watching(tmp_path, slurm) as (_, client):
            slurm.queue(over(2, submit=ago(1.0), start=ago(0.0), hosts="n4"), over(3, hosts="n3"))
            await until(lambda: _are(client, {2: "finished", 3: "finished"}))
            assert [run.places[0].node for run in (await client.job(2)).runs] == ["n1", "n4"]

    asyncio.run(story())


def test_the_account_has_the_answers_of_slurm_beside_the_promises(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)
    plans_at = ago(-3600.0)

    async def story() -> None:
        slurm.queue(
            waiting(2, start=plans_at, submit=ago(4000.0)),
            waiting(3, submit=ago(10.0), partition="short"),
        )
        async with watching(tmp_path, slurm) as (service, client):
            await until(lambda: _promised(client, 2, 3))
            slurm.queue(waiting(2, start=plans_at + 600, submit=ago(4000.0)), over(3, start=ago(5.0)))
            await until(lambda: _are(client, {2: "queued", 3: "finished"}))
            assert events(service).count(("slurm-planned", 2)) == 1  # its first answer
        ended_at = ago(0.0)
        slurm.queue(over(2, submit=ended_at - 4000, start=ended_at - 1, end=ended_at))
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _are(client, {2: "finished", 3: "finished"}))
            found = await client.accuracy(by="partition")
            every, waited = found.beside_slurm
            assert (every.name, every.figures.promises) == ("all", 2)
            assert (waited.name, waited.figures.promises) == ("waited over 5 min", 1)
            assert waited.slurm is not None
            assert waited.slurm == every.slurm
            assert waited.slurm.promises == waited.figures
            assert waited.slurm.slurm.err_p50_s == pytest.approx(plans_at + 3600.0 - ended_at, abs=3.0)
            assert waited.slurm.slurm.bias_mean_s == pytest.approx(ended_at - plans_at - 3600.0, abs=3.0)
            assert waited.slurm.limit.err_p50_s == pytest.approx(3600.0, abs=30.0)
            groups = {group.name: group for group in found.groups}
            assert groups.keys() == {"batch", "short"}
            assert groups["batch"].slurm == every.slurm

    asyncio.run(story())


def test_a_job_that_reaches_its_time_limit_is_judged(tmp_path: Path) -> None:
    slurm, since = Slurm(tmp_path), ago(300.0)
    given = {"limit": "5:00", "submit": since - 10, "start": since}

    async def story() -> None:
        slurm.queue(started(2, **given), started(3, hosts="n2", **given), started(4, hosts="n3", **given))
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _promised(client, 2, 3, 4))
            slurm.queue(
                over(2, "TIMEOUT", **given),
                over(3, "FAILED", hosts="n2", **given),
                over(4, "CANCELLED", hosts="n3", **given),
            )
            await until(lambda: _are(client, {2: "failed", 3: "failed", 4: "cancelled"}))
            late = await client.job(2)
            assert late.job.reason is not None
            assert (late.job.reason.code, late.job.reason.text) == ("time-limit", "Slurm: timeout")
            assert late.runs[0].outcome == "time-limit"
            assert late.quote_error_s is not None
            found = await client.accuracy(promises=True)
            assert [(one.job_id, one.finished_at) for one in found.promises] == [(2, late.job.finished_at)]
            assert found.beside_slurm[0].figures.promises == 1

    asyncio.run(story())


def test_what_slurm_planned_for_another_request_does_not_count(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        async with watching(tmp_path, slurm) as (service, client):
            for limit, start in (("1:00:00", ago(-60.0)), ("2:00:00", ago(-120.0))):
                slurm.queue(waiting(2, start=start, limit=limit))
                await until(lambda: _plans(service, start))  # noqa: B023
            await until(lambda: _promised(client, 2))
            assert [kind for kind, _ in events(service)].count("slurm-planned") == 2

    asyncio.run(story())


async def _plans(service: Service, start_at: float) -> bool:
    job = service.controller.scheduler.ledger.jobs.get(2)
    return job is not None and job.slurm_start_at == start_at


def test_partial_sight_promises_nothing_and_says_so(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.counts(7)
        slurm.queue(waiting(2), started(3))
        async with watching(tmp_path, slurm) as (service, client):
            await until(lambda: _has(client, 2, 3))
            notes = await until(lambda: _notes(client, "hidden"))
            assert "5 of 7 jobs are hidden from this user" in notes
            assert not [kind for kind, _ in events(service) if kind == "quoted"]
            slurm.counts(2)
            await until(lambda: _promised(client, 2, 3))
            await until(lambda: _notes(client, ""))

    asyncio.run(story())


async def _notes(client: AsyncClient, word: str) -> str | bool:
    """The notes of the service, once they hold a word; an empty one: once there are none."""
    notes = " ".join((await client.health()).notes)
    return notes if word and word in notes else not word and not notes


async def _promised(client: AsyncClient, *numbers: int) -> bool:
    found = await shown(client)
    return all(number in found and found[number].promised_finish_at is not None for number in numbers)


def test_a_slurm_that_goes_away_is_said_to_and_nothing_is_made_up(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.queue(waiting(2))
        squeue = slurm.fake.folder / "squeue"
        works = squeue.read_text()
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _promised(client, 2))
            squeue.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
            assert "Unable to contact slurm controller" in await until(
                lambda: _notes(client, "squeue failed")
            )
            assert await _are(client, {2: "queued"})
            squeue.write_text(works)
            slurm.queue(over(2, start=ago(2.0)))
            await until(lambda: _are(client, {2: "finished"}))

    asyncio.run(story())


def test_what_writes_is_refused_with_the_reason(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.queue(waiting(2))
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _promised(client, 2))
            for ask in (
                client.submit(JobSpec(command=["true"])),
                client.cancel(2),
                client.hold(2),
                client.edit([2], time_limit_s=60.0),
            ):
                with pytest.raises(BetimesError, match="this service watches Slurm; submit with sbatch"):
                    await ask
            for ask in (
                client.set_policy("fifo"),
                client.drain("n1"),
                client.undrain("n1"),
                client.add_nodes(NodeSpec(type="more", cpu=4.0, memory_gib=1.0)),
                client.add_maintenance(time.time() + 60.0, time.time() + 120.0),
                client.tune(),
            ):
                with pytest.raises(Conflict, match="this service watches Slurm, which has its own nodes"):
                    await ask
            assert await _are(client, {2: "queued"})
        assert slurm.fake.nothing_was_written

    asyncio.run(story())


def _asked(**fields: Any) -> JobSpec:
    given: dict[str, Any] = {"command": ["sbatch"], **fields}
    return JobSpec(**given)


def test_a_quote_is_the_end_of_one_more_job(tmp_path: Path) -> None:
    slurm, since = Slurm(tmp_path), ago(0.0)

    async def story() -> None:
        slurm.queue(
            started(2, cpus=32, nodes=8, hosts="n[1-8]", limit="10:00", start=since),
            waiting(3, cpus=32, nodes=8, limit="20:00"),
        )
        async with watching(tmp_path, slurm) as (service, client):
            await until(lambda: _promised(client, 2, 3))
            found = await client.quote(_asked(max_units=8, min_units=8, time_limit_s=300.0))
            # Behind both: the last of its partition.
            assert found.start_at == pytest.approx(since + 1800.0, abs=10.0)
            assert found.finish_at == pytest.approx(since + 2100.0, abs=10.0)
            assert (found.run_s, found.basis, found.job_id) == (300.0, "planned", None)
            assert found.reason is not None
            assert "needs 8 cores on nodes of partition batch" in found.reason.text
            other = await client.quote(
                _asked(labels={"partition": "short", "nodes": "2"}, time_limit_s=300.0, array="1-9")
            )
            # Its tier is higher, and it has the first nodes that are free.
            assert other.start_at == pytest.approx(since + 600.0, abs=10.0)
            assert other.elements == 1
            with_qos = await client.quote(_asked(labels={"qos": "gold"}))
            assert with_qos.note is not None
            assert "QOS gold is not modelled" in with_qos.note
            assert found.note is None
            behind = await client.quote(_asked(after=["2", "3:any"], time_limit_s=300.0))
            assert behind.start_at == pytest.approx(since + 1800.0, abs=10.0)
            assert behind.reason is not None
            assert behind.reason.text == "it waits for job 2 to end and 1 more"
            for spec, words in (
                (_asked(gpu=2.0), "it asks for gpu:2, and only CPUs are modelled"),
                (_asked(hold=True), "it is held"),
                (_asked(after=["3:fail"]), "it waits for other jobs (afternotok:3)"),
                (_asked(singleton=True), "it waits for other jobs (singleton)"),
                (_asked(after=["99"]), "it waits for job 99, which Slurm does not show"),
                (_asked(require={"avx512": "yes"}), "nodes with avx512"),
            ):
                unforeseen = await client.quote(spec)
                assert unforeseen.start_at is unforeseen.finish_at is None
                assert unforeseen.reason is not None
                assert words in unforeseen.reason.text
            for spec, words in (
                (
                    _asked(labels={"partition": "long"}),
                    "Slurm shows no partition long; there are: batch, short",
                ),
                (_asked(labels={"nodes": "x"}), "no number of nodes"),
                (_asked(labels={"nodes": "9"}), "partition batch has 8 nodes, and the job asks for 9"),
            ):
                with pytest.raises(BetimesError, match=words):
                    await client.quote(spec)
            assert await _are(client, {2: "running", 3: "queued"})
            assert ("quoted", 4) not in events(service)
        assert slurm.fake.nothing_was_written

    asyncio.run(story())


def test_what_if_a_job_asked_for_something_else(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        slurm.queue(
            started(2, cpus=28, nodes=7, hosts="n[1-7]", limit="10:00", start=ago(0.0)),
            waiting(3, cpus=32, nodes=8, limit="20:00", priority=9),
            waiting("9_1", cpus=8, nodes=2, limit="30:00", priority=5),
        )
        async with watching(tmp_path, slurm) as (_, client):
            await until(lambda: _promised(client, 2, 3, ARRAY + 1))

            async def ends(**asked: Any) -> dict[int, list[int]]:
                """By job: its end as it is and then, minutes from now."""
                found = await client.what_if(**asked)
                now_at = found.made_at
                return {
                    one.job_id: [
                        round((at - now_at) / 60.0) for at in (one.finish_before_at, one.finish_at) if at
                    ]
                    for one in found.jobs
                }

            # On one node, and for no longer than job 2 runs, element 1 starts at once.
            edit = {"job_id": ARRAY + 1, "time_limit_s": 480.0, "nodes": 1}
            assert await ends(edit=[edit]) == {2: [10, 10], 3: [30, 30], ARRAY + 1: [60, 8]}
            edit = {"job_id": 3, "units": 4, "nodes": 1}
            assert await ends(edit=[edit]) == {2: [10, 10], 3: [30, 20], ARRAY + 1: [60, 40]}
            assert await ends(cancel=[3]) == {2: [10, 10], 3: [30], ARRAY + 1: [60, 40]}
            assert await ends(edit=[{"job_id": 2, "time_limit_s": 60.0}]) == {
                2: [10, 1], 3: [30, 21], ARRAY + 1: [60, 51],
            }  # fmt: skip
            submitted = await ends(submit=[_asked(time_limit_s=300.0)])
            assert submitted == {2: [10, 10], 3: [30, 30], ARRAY + 1: [60, 60], 10: [5]}
            assert (await ends(remove_nodes=["n8"]))[3] == [30]
            assert (await ends(policy="fifo"))[3] == [30, 30]
            assert (await ends(policy="nodes:sjf"))[3] == [30, 30]
            for asked, words in (
                ({"edit": [{"job_id": 8, "units": 2}]}, "Slurm shows no job 8"),
                ({"edit": [{"job_id": 2, "nodes": 2}]}, "only another time limit can be asked"),
                ({"edit": [{"job_id": 3, "partition": "short"}]}, "partition short has 2 nodes"),
                ({"cancel": [8]}, "Slurm shows no job 8"),
                ({"remove_nodes": ["m1"]}, "no node m1"),
                ({"policy": "srsf"}, "srsf is for a pool of units"),
                ({"policy": "sww"}, "it rents machines, and none are offered"),
                ({"policy": "nosuch"}, "nosuch"),
                ({"load": 2.0}, "these can be asked about: submit, remove_nodes"),
                ({"add_nodes": {"slurm": 1}}, "these can be asked about"),
                ({}, "no change is given"),
            ):
                with pytest.raises(BetimesError, match=words):
                    await client.what_if(**asked)
        assert slurm.fake.nothing_was_written

    asyncio.run(story())


@pytest.mark.parametrize(
    ("private", "settings", "is_hashed"),
    [
        ("none", {"user_names": "hashed"}, True),
        ("none", {}, False),
        ("cloud,users", {}, True),
        ("users", {"own_jobs_only": True}, False),
        ("jobs,users", {}, False),
        ("users", {"user_names": "shown"}, False),
    ],
)
def test_names_are_hashed_on_request_and_where_readers_may_not_know_them(
    tmp_path: Path, private: str, settings: dict[str, Any], *, is_hashed: bool
) -> None:
    slurm = Slurm(tmp_path)
    slurm.counts(2)
    slurm.sets(PrivateData=private)

    async def story() -> None:
        slurm.queue(*(waiting(number, user="secretary", name="secret") for number in (2, 3)))
        async with watching(tmp_path, slurm, **settings) as (service, client):
            await until(lambda: _promised(client, 2, 3))
            jobs = await shown(client)
            assert jobs[2].user == jobs[3].user
            assert jobs[2].name == jobs[3].name != jobs[2].user
            kept = any("secret" in f"{event.data}" for event in service.store.each_event(0))
            assert kept is not is_hashed
            assert jobs[2].name != "secret" if is_hashed else jobs[2].user == "secretary"

    asyncio.run(story())


def test_accounting_teaches_run_times(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)
    head = "JobIDRaw|User|Submit|Start|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State|Partition|JobName"
    since = [ago(90_000.0 - 900.0 * number) for number in range(80)]
    lines = [
        f"{number}|{getpass.getuser()}|{at}|{at}|{120 + number % 7}|60|1|1|COMPLETED|batch|quick"
        for number, at in enumerate(since, 1)
    ]
    (slurm.shown / "sacct").write_text("\n".join([head, *lines, ""]))

    async def story() -> None:
        slurm.queue(waiting(102, name="quick", user=getpass.getuser(), submit=ago(0.0)))
        async with watching(tmp_path, slurm, history_s=1e6) as (service, client):
            await until(lambda: _promised(client, 102))
            job = await client.job(102)
            # The limit is an hour.
            assert job.job.promised_finish_at == pytest.approx(time.time() + 123.0, abs=60.0)
            assert job.quotes[0].finish_high_at is not None
            # So does a job that is asked about, of the same user and name.
            quoted = await client.quote(_asked(name="quick", time_limit_s=3600.0))
            assert (quoted.basis, quoted.run_s) == ("alike", pytest.approx(123.0, abs=10.0))
            assert quoted.start_at is not None
            assert quoted.finish_at == pytest.approx(quoted.start_at + quoted.run_s)
            assert quoted.finish_high_at is not None
            assert [kind for kind, _ in events(service)].count("history-learned") == 1
        async with watching(tmp_path, slurm, history_s=1e6) as (service, _):
            assert [kind for kind, _ in events(service)].count("history-learned") == 1

    asyncio.run(story())


@pytest.mark.slow
def test_beside_a_real_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve jobs on eight nodes: what runs is where it runs, what waits is promised an end, and ends are seen."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}

    def sbatch(*options: str, sleep_s: float = 120.0) -> None:
        words = ("sbatch", "-o/dev/null", *options, f"--wrap=sleep {sleep_s:g}")
        subprocess.run(words, env=env, cwd=tmp_path, check=True, capture_output=True)

    async def story() -> None:
        config = ServiceConfig(state=tmp_path / "state", slurm=True, poll_s=0.3, history_s=0.0)
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            await until(lambda: _as_in_slurm(client, env))
            await until(lambda: _promised(client, *({*range(1, 13)} - {11})))
            jobs = await shown(client)
            assert jobs[11].reason.text == "it is held"
            assert jobs[11].promised_finish_at is None
            for number, job in jobs.items():
                if job.promised_finish_at is not None:
                    assert job.promised_finish_at >= (job.started_at or time.time()) - 60.0, number
            held = service.controller.scheduler.occupancy.in_use[1]
            assert held == 1000 * sum(job.units for job in jobs.values() if job.status == "running")
            asked = _asked(min_units=4, max_units=4, time_limit_s=300.0, labels={"nodes": "1"})
            quoted = await client.quote(asked)
            as_it_is = {one.job_id: one for one in (await client.what_if(cancel=[9])).jobs}
            assert as_it_is[12].finish_before_at == pytest.approx(jobs[12].promised_finish_at, abs=5.0)
            sbatch("-n4", "-N1", "-t5")
            await until(lambda: _promised(client, 13))
            assert (await shown(client))[13].promised_finish_at == pytest.approx(quoted.finish_at, abs=5.0)
            sbatch("-n1", "-t1", sleep_s=0.0)
            subprocess.run(("scancel", "3"), env=env, check=True)
            await until(lambda: _show(client, {3: "cancelled"}))
            with pytest.raises(BetimesError, match="submit with sbatch"):
                await client.cancel(1)
            assert (await client.health()).notes == []

    with ExitStack() as stack:
        (tmp_path / "slurm").mkdir()
        try:
            env = stack.enter_context(real_slurm(tmp_path / "slurm", ours, 8))
        except NoSlurm as reason:
            pytest.skip(str(reason))
        monkeypatch.setenv("SLURM_CONF", env["SLURM_CONF"])
        monkeypatch.setenv("PATH", env["PATH"])
        sbatch("-n8", "-N2", "-w", "n[1-2]", "-t30")
        for _ in range(7):  # n3 to n8, and one that waits
            sbatch("-n4", "-N1", "-t10")
        sbatch("-n32", "-N8", "-t60")
        sbatch("-n4", "-p", "short", "-t5")
        sbatch("-n1", "--hold")
        sbatch("-n4", "-t5")
        try:
            asyncio.run(story())
        finally:
            end_jobs(env, PATIENCE_S)


async def _as_in_slurm(client: AsyncClient, env: dict[str, str]) -> bool:
    """Whether every job is shown as squeue shows it, running ones on their nodes."""
    words = ("squeue", "-h", "-r", "-o", "%i|%T|%N|%r")
    printed = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.split()
    theirs = {int(cells[0]): tuple(cells[1:]) for cells in (line.split("|") for line in printed)}
    status_of = {"RUNNING": "running", "PENDING": "queued"}
    for number, job in (await shown(client)).items():
        state, hosts, why = theirs.pop(number, ("", "", ""))
        expected = "blocked" if why.startswith("JobHeld") else status_of.get(state)
        if job.status != expected:
            return False
        if state == "RUNNING":
            [run] = (await client.job(number)).runs
            assert [place.node for place in run.places] == hostnames(hosts)
    return not theirs


async def _show(client: AsyncClient, statuses: dict[int, str]) -> bool:
    found = await shown(client)
    return all(number in found and found[number].status == status for number, status in statuses.items())


def test_numbers_of_jobs() -> None:
    assert [number_of(each) for each in ("4711", "4711_3", "10+1")] == [4711, 471100000003, 11]
    assert number_of(str(1 << 26)) is None  # of a federation


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"policy": "easy"}, "Slurm decides"),
        ({"ray": "auto"}, "leave out --ray"),
        ({"nodes": Path("x")}, "--nodes"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        ServiceConfig(slurm=True, **settings)


def test_settings_in_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 15s"):
        read_settings({"slurm": True, "poll": "5s", "state": str(tmp_path)}, None)
    with pytest.raises(InputError, match="auto, shown or hashed"):
        read_settings({"slurm": True, "user_names": "own", "state": str(tmp_path)}, None)
    with pytest.raises(InputError, match="add --slurm"):
        ServiceConfig(slurm_bin=tmp_path)


def test_a_state_directory_is_of_one_kind(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)

    async def story() -> None:
        async with watching(tmp_path, slurm):
            pass
        with pytest.raises(Conflict, match="has watched Slurm; start it with --slurm"):
            async with running(ServiceConfig(state=tmp_path / "state")):
                pass

    asyncio.run(story())
