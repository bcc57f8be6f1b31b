"""Commands before and after each run on the service's machine, by real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict, InputError
from betimes.service.executors import local
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import JobView, NodeSpec, NodeView
from tests.service.compiling.by_hand import before_listening
from tests.service.executors.running import alive
from tests.service.reliability.starting import starter, until
from tests.service.serving import PATIENCE_S


async def _until(client: AsyncClient, is_so: Callable[[JobView, NodeView], bool]) -> tuple[JobView, NodeView]:
    """The first job and the node, once they are as they are to be."""
    async with asyncio.timeout(60.0):
        while True:
            (node,) = await client.nodes()  # first: the node has drained once the job has left it
            story = await client.job(1)
            if is_so(story.job, node):
                return story.job, node
            await asyncio.sleep(0.05)


async def _until_there(log: Path, word: str, times: int = 1) -> None:
    """Once a word stands so often in this log."""
    async with asyncio.timeout(PATIENCE_S):
        while not log.exists() or log.read_text().split().count(word) < times:
            await asyncio.sleep(0.02)


def played(
    folder: Path,
    is_so: Callable[[JobView, NodeView], bool],
    command: str,
    *,
    requeue: bool = True,
    **settings: Any,
) -> tuple[JobView, NodeView]:
    """A job on a service with these settings."""

    async def play() -> tuple[JobView, NodeView]:
        config = ServiceConfig(state=folder / "state", **settings)
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            await client.submit(command=["sh", "-c", command], name="study", requeue=requeue)
            return await _until(client, is_so)

    return asyncio.run(play())


def test_they_run_before_and_after_a_run_and_know_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    about = "$BETIMES_JOB_ID $BETIMES_JOB_NAME $BETIMES_ATTEMPT"
    job, node = played(
        tmp_path,
        lambda job, _: job.status.is_over,
        f"echo run >> {log}; exit 7",
        prolog=f'echo "before {about}" >> {log}',
        epilog=f'echo "after {about} $BETIMES_ENDED $BETIMES_EXIT_CODE" >> {log}',
    )
    assert log.read_text().splitlines() == ["before 1 study 1", "run", "after 1 study 1 exited 7"]
    assert (job.status.value, node.status) == ("failed", "up")


@pytest.mark.parametrize("requeue", [True, False])
def test_one_that_fails_before_a_run_drains_the_node_and_the_job_waits(tmp_path: Path, requeue: bool) -> None:
    job, node = played(
        tmp_path,
        lambda _, node: node.status == "drained",
        f"echo run >> {tmp_path}/log",
        requeue=requeue,
        prolog="echo '/scratch is read-only' >&2; exit 3",
    )
    why = "the prolog of job 1 failed: /scratch is read-only"
    assert (job.status.value, node.drained_by, node.drain_reason) == ("queued", "prolog", why)
    assert not (tmp_path / "log").exists()


def test_one_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    _, node = played(
        tmp_path, lambda _, node: node.status == "drained", "true", prolog="sleep 60", prolog_limit_s=0.3
    )
    assert node.drain_reason == "the prolog of job 1 failed: it has not ended within 0.3 s"


def test_one_that_fails_after_a_run_drains_the_node_and_the_job_has_ended(tmp_path: Path) -> None:
    job, node = played(
        tmp_path, lambda job, node: job.status.is_over and node.status == "drained", "true", epilog="exit 4"
    )
    why = "the epilog of job 1 failed: it exits with 4"
    assert (job.status.value, node.drained_by, node.drain_reason) == ("finished", "epilog", why)


def test_a_run_that_is_cancelled_before_it_begins_is_not_started(tmp_path: Path) -> None:
    begun, log = tmp_path / "begun", tmp_path / "log"

    async def play() -> str:
        config = ServiceConfig(state=tmp_path / "state", prolog=f"touch {begun}; sleep 2")
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            await client.submit(command=["sh", "-c", f"echo run >> {log}"])
            async with asyncio.timeout(60.0):
                while not begun.exists():
                    await asyncio.sleep(0.02)
            await client.cancel(1)
            job, _ = await _until(client, lambda job, _: job.status.is_over)
            return job.status.value

    assert asyncio.run(play()) == "cancelled"
    assert not log.exists()


@pytest.mark.parametrize("when", ["prolog", "epilog"])
def test_one_that_a_restart_of_the_service_cuts_short_runs_again(tmp_path: Path, when: str) -> None:
    log, may_end = tmp_path / "log", tmp_path / "may-end"
    command = f"echo {when} >> {log}; until [ -e {may_end} ]; do sleep 0.02; done"
    setting: dict[str, Any] = {when: command}
    config = ServiceConfig(state=tmp_path / "state", kernels=before_listening(), **setting)

    async def first() -> None:
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            await client.submit(command=["sh", "-c", f"echo run >> {log}"], requeue=False)
            await _until_there(log, when)

    async def second() -> None:
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            await _until_there(log, when, times=2)
            assert not (await client.job(1)).job.status.is_over
            may_end.touch()
            job, node = await _until(client, lambda job, _: job.status.is_over)
            (run,) = (await client.job(1)).runs
            assert (job.status.value, run.outcome, node.status) == ("finished", "exited", "up")

    asyncio.run(first())
    asyncio.run(second())
    expected = {"prolog": ["prolog", "prolog", "run"], "epilog": ["run", "epilog", "epilog"]}
    assert log.read_text().split() == expected[when]


@pytest.mark.parametrize("when", ["prolog", "epilog"])
def test_one_that_a_killed_service_has_left_is_ended_before_it_runs_again(tmp_path: Path, when: str) -> None:
    log, may_end = tmp_path / "log", tmp_path / "may-end"
    waits = f"echo $$ >> {log}; until [ -e {may_end} ]; do sleep 0.02; done"
    with starter() as one:
        one.start(tmp_path / "state", **{when: waits})
        job = one.ask("POST", "/jobs", {"command": ["true"], "workdir": "/"})["job_id"]
        until(lambda: log.exists() and len(log.read_text().split()) == 1)
        one.kill()
        one.start(tmp_path / "state", **{when: waits})
        until(lambda: len(log.read_text().split()) == 2)
        first, second = map(int, log.read_text().split())
        until(lambda: not alive(first))
        assert alive(second)
        may_end.touch()
        until(lambda: one.ask("GET", f"/jobs/{job}")["job"]["status"] == "finished")


def test_during_a_long_one_a_job_is_cancelled_and_not_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_PATIENCE_S", 0.1)
    log, may_end = tmp_path / "log", tmp_path / "may-end"
    config = ServiceConfig(
        state=tmp_path / "state",
        kernels=before_listening(),
        prolog=f"echo prolog >> {log}; until [ -e {may_end} ]; do sleep 0.02; done",
        epilog=f'echo "epilog $BETIMES_ENDED" >> {log}',
    )

    async def play() -> None:
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            await client.submit(command=["sh", "-c", f"echo run >> {log}"])
            await _until_there(log, "prolog")
            await asyncio.sleep(0.2)  # longer than others wait for it
            with pytest.raises(Conflict, match="is being started; only a job that runs can be suspended"):
                await client.suspend(1)
            with pytest.raises(Conflict, match="is being started; only a job that runs can get a signal"):
                await client.signal(1, "USR1")
            await client.cancel(1)
            await asyncio.sleep(0.2)
            assert not (await client.job(1)).job.status.is_over
            may_end.touch()
            job, node = await _until(client, lambda job, _: job.status.is_over)
            (run,) = (await client.job(1)).runs
            assert (job.status.value, run.outcome, node.status) == ("cancelled", "cancelled", "up")
            assert log.read_text().splitlines() == ["prolog", "epilog stopped"]
            await client.submit(command=["sh", "-c", f"echo run >> {log}"])  # its place is free
            assert (await client.wait(2, PATIENCE_S)).status.value == "finished"

    asyncio.run(play())
    assert log.read_text().splitlines()[2:] == ["prolog", "run", "epilog exited"]


def test_a_rented_machine_whose_prolog_or_check_fails_is_given_back_with_the_reason(tmp_path: Path) -> None:
    config = ServiceConfig(
        state=tmp_path / "state",
        machines=[Machine("here", "local", "cpu", 1.0, 1.0, 0.0)],
        fleet="local",
        policy="nodes:fifo",
        kernels=before_listening(),
        prolog="[ $BETIMES_NODE_NAMES = here ] || { echo 'no /scratch'; exit 1; }",
        node_health="[ $BETIMES_NODE_NAME != small-1 ] || { echo 'bad fan'; exit 1; }",
        node_health_every_s=0.2,
    )

    async def play() -> dict[str | None, str | None]:
        async with running(config) as service, AsyncClient(service.url, service.token) as client:

            async def rented_and_gone(count: int) -> dict[str | None, str | None]:
                await client.add_nodes(NodeSpec(kind="rented", type="small"))
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        gone = [one async for one in client.events(kinds=["node-gone"])]
                        if len(gone) == count:
                            return {one.node: one.text for one in gone}
                        await asyncio.sleep(0.05)

            await client.submit(command=["sleep", "600"], cpu=1)
            await client.submit(command=["true"], cpu=1, requeue=False)
            await rented_and_gone(1)
            assert (await client.job(2)).job.status == "queued"
            await client.cancel(2)
            gone = await rented_and_gone(2)
            await client.cancel(1)
            return gone

    why = "given back: the prolog of job 2 failed: no /scratch"
    assert asyncio.run(play()) == {"small-0": why, "small-1": "given back: bad fan"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"slurm": True, "prolog": "true"}, "--prolog: with --slurm no command is run on nodes; leave out"),
        ({"nodes": "cluster.toml", "epilog": "true"}, "--epilog: with --nodes no command"),
        ({"nodes": "cluster.toml", "node_health": "true"}, "--node-health: with --nodes no command"),
    ],
)
def test_they_are_refused_where_no_commands_are_run(
    tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    (tmp_path / "cluster.toml").write_text('[[nodes]]\ntype = "a"\ncount = 1\ncpu = 1\nmemory_gib = 1\n')
    if "nodes" in settings:
        settings = {**settings, "nodes": tmp_path / "cluster.toml"}

    async def play() -> None:
        async with running(ServiceConfig(state=tmp_path / "state", **settings)):
            pass

    with pytest.raises(InputError, match=why):
        asyncio.run(play())
    assert not (tmp_path / "state").exists()
