"""Machines that are processes: they end by themselves, and jobs really run on them, whatever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.cluster import Cluster
from betimes.errors import ClusterError, Conflict, InputError
from betimes.service.executors.rented.local_cloud import LOCAL_OFFERS, LocalCloud, open_local
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import NodeSpec
from tests.service.compiling.by_hand import before_listening
from tests.service.executors.rented.clouds import LocalStage
from tests.service.executors.running import clear_up, until
from tests.service.machines.kinds import kind
from tests.service.serving import PATIENCE_S

HERE = Machine("here", "local", "cpu", 1.0, 8.0, 0.0)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Path]:
    """A folder; the machines that a failed test has left end with their leases."""
    yield tmp_path
    for lease in tmp_path.rglob("*.lease"):
        lease.unlink()
    clear_up(tmp_path)


def test_a_machine_ends_by_itself_without_a_service(at: Path) -> None:
    cloud = LocalCloud(FakeCloud([kind("small", 1, 1)]), at, alone_s=1.0)
    cloud.request(0.0, "small", 1)
    assert cloud.process_of("small-0") is not None
    assert not cloud.poll()

    async def alone() -> None:
        await until(lambda: cloud.process_of("small-0") is None)

    asyncio.run(alone())
    assert cloud.poll()


def test_a_copied_folder_leaves_the_machines_of_the_original_alone(at: Path) -> None:
    stage = LocalStage(at / "original")
    (machine,) = stage.rent()
    lease = at / "original" / "small-0.lease"
    copy = at / "copy" / "small-0.lease"
    copy.parent.mkdir()
    copy.write_bytes(lease.read_bytes())
    copied = open_local(LOCAL_OFFERS, copy.parent)([(machine, 1000.0)], {"small": 1})
    assert copied.process_of("small-0") is None
    assert copied.poll()
    copied.advance(1001.0)
    assert stage.local.process_of("small-0") is not None
    assert not copy.exists()


def test_gpus_are_refused(at: Path) -> None:
    with pytest.raises(ClusterError, match=r"offer a100, field gpu: .* leave it out"):
        open_local(Cluster("gpus", (), offers=(kind("a100", 1, 1, 1),)), at)


@pytest.mark.slow
def test_jobs_run_on_rented_machines_and_go_on_elsewhere_when_one_is_killed(at: Path) -> None:
    options = ServiceConfig(
        state=at / "state", machines=[HERE], fleet="local", policy="nodes:fifo", kernels=before_listening()
    )
    offers = Cluster("quick", (), offers=(kind("small", 1, 1, usd_per_h=0.05),))
    go, cloud = at / "go", open_local(offers, at / "state" / "rented")
    waits = f'echo "on $BETIMES_NODES" "rank $RANK"; until [ -e {go} ]; do sleep 0.1; done'

    async def up(client: AsyncClient, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len([node for node in await client.nodes() if node.status == "up"]) < count:
                await asyncio.sleep(0.05)

    async def is_running(client: AsyncClient, job: int, attempt: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = (await client.job(job)).job
                if (found.status, found.attempt) == ("running", attempt):
                    return
                await asyncio.sleep(0.05)

    async def first() -> tuple[int, int]:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            rented = await client.add_nodes(NodeSpec(kind="rented", type="small"))
            assert [(node.name, node.kind, node.usd_per_h) for node in rented] == [
                ("small-0", "rented", 0.05)
            ]
            await up(client, 2)
            # One unit on this machine, one on the rented one.
            wide = await client.submit(
                command=["sh", "-c", waits], cpu=1, memory_gib=0.5, min_units=2, max_units=2
            )
            assert wide.not_run is None
            await is_running(client, wide.job_id, 1)
            process = cloud((), {}).process_of("small-0")
            assert process is not None
            os.kill(process, signal.SIGKILL)
            await client.add_nodes(NodeSpec(kind="rented", type="small"))
            await is_running(client, wide.job_id, 2)
            return wide.job_id, len(await client.nodes())

    async def again(job: int) -> None:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            go.touch()
            done = await client.wait(job, PATIENCE_S)
            assert (done.status, done.attempt) == ("finished", 2)
            second = b"".join([chunk async for chunk in client.logs(job, rank=1)])
            assert b"on 127.0.0.1,127.0.0.1 rank 1" in second
            assert (await client.drain("small-1")).status == "gone"
            await until(lambda: cloud((), {}).process_of("small-1") is None)

    async def made_up() -> None:
        async with running(ServiceConfig(state=options.state, machines=[HERE])):
            pass

    job, nodes = asyncio.run(first())
    assert nodes == 2
    with pytest.raises(
        Conflict, match=r"node small-1 is rented; say from what cloud .--fleet., as last time"
    ):
        asyncio.run(made_up())
    asyncio.run(again(job))


FIGHTS = """
import os, pathlib, sys, time
from betimes import progress
here, job = pathlib.Path(sys.argv[1]), os.environ["BETIMES_JOB_ID"]
kept, mine = here / f"steps-{job}", here / f"on-{job}"
start = int(kept.read_text() or 0) if kept.exists() else 0
for step in progress(range(start, 100_000), 100_000, start=start):
    on = mine.read_text() if mine.exists() else job
    others = [file for file in here.glob("on-*") if file != mine and file.read_text() == on]
    time.sleep(1.0 if others else 0.1)
    draft = kept.with_suffix(".new")
    draft.write_text(f"{step + 1}")
    draft.replace(kept)  # whole, whenever it is stopped
"""
"""A job whose steps take ten times as long while another one is on its machine, as the test notes it in files.

A busy machine adds something to each step; up to 0.8 s, those beside another one still take more than twice as long as
those alone, so that the two together do less than one on a machine of its own.
"""


@pytest.mark.slow
def test_jobs_that_fight_are_found_out_by_their_progress_and_kept_apart(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.service.scheduling.throughputs.LEAST_ALONE_S", 5.0)
    monkeypatch.setattr("betimes.service.scheduling.throughputs.LEAST_BESIDE_S", 3.0)
    offers = at / "offers.toml"
    offers.write_text('[[offers]]\ntype = "pair"\ncpu = 2\nmemory_gib = 2\nusd_per_h = 0.09\nboot_s = 0.5\n')
    options = ServiceConfig(
        state=at / "state",
        machines=[Machine("here", "local", "cpu", 0.5, 8.0, 0.0)],
        fleet="local",
        cloud=str(offers),
        policy="eva:t=1,profile=1h,period=2",
        kernels=before_listening(),
    )
    script = at / "job.py"
    script.write_text(FIGHTS)

    async def main() -> list[str]:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            command = [sys.executable, str(script), str(at)]
            told = [
                await client.submit(command=command, cpu=1, memory_gib=0.5, estimate_s=300.0, grace_s=1.0)
                for _ in range(2)
            ]
            seen: list[str] = []
            async with asyncio.timeout(5 * PATIENCE_S):
                while seen != ["apart", "together", "apart"]:
                    stories = [await client.job(one.job_id) for one in told]
                    if all(story.job.status == "running" for story in stories):
                        on = [story.runs[-1].places[0].node for story in stories]
                        for story, machine in zip(stories, on, strict=True):
                            (at / f"on-{story.job.job_id}").write_text(machine)
                        how = "together" if len(set(on)) == 1 else "apart"
                        seen += [how] if seen[-1:] != [how] else []
                    await asyncio.sleep(0.1)
            await client.cancel([one.job_id for one in told])
            for one in told:
                await client.wait(one.job_id, PATIENCE_S)
            await client.give_back(now=True)
            steps = [int((at / f"steps-{one.job_id}").read_text()) for one in told]
            assert min(steps) > 5, "it went on where it was"
            return seen

    assert asyncio.run(main()) == ["apart", "together", "apart"]


def test_a_fleet_and_made_up_nodes_are_not_mixed() -> None:
    with pytest.raises(InputError, match=r"--fleet local: .* leave out --nodes"):
        ServiceConfig(fleet="local", nodes=Path("nodes.toml"))
