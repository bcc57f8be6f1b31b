"""A directory is sent to a real service, and its jobs run in copies of it on this machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from betimes.client import AsyncClient
from betimes.errors import InputError, Refused
from betimes.service.machines.machine import Machine
from betimes.service.runtime.retention import tidy_uploads
from betimes.service.startup.bootstrap import Service, running
from betimes.service.startup.config import ServiceConfig
from betimes.service.uploads.archive import MIB
from betimes.service.uploads.kept import UNUSED_S, Uploads
from tests.service.compiling.by_hand import before_listening
from tests.service.executors.running import clear_up
from tests.service.serving import PATIENCE_S
from tests.service.uploads.packing import some_code


@asynccontextmanager
async def served(state: Path, **given: Any) -> AsyncIterator[tuple[Service, AsyncClient]]:
    machines = [Machine("here", "local", "here", 1.0, 1.0, 0.0)]
    options = ServiceConfig(state=state, **{"machines": machines, "kernels": before_listening(), **given})
    try:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            yield service, client
    finally:
        clear_up(state)


async def printed(client: AsyncClient, job: int, attempt: int) -> str:
    return b"".join([piece async for piece in client.logs(job, attempt=attempt)]).decode()


def test_each_attempt_runs_in_a_fresh_copy_also_after_a_restart(tmp_path: Path) -> None:
    code = some_code(tmp_path / "code")

    async def first() -> int:
        async with served(tmp_path / "state") as (_, client):
            sent = await client.upload(code)
            failing = (
                await client.submit(
                    command=["sh", "-c", "./run.sh; rm run.sh; exit $((2 - BETIMES_ATTEMPT))"],
                    upload=sent.sha256,
                    retries=1,
                    backoff_s=0.0,
                )
            ).job_id
            assert (await client.wait(failing, PATIENCE_S)).status == "finished"
            assert [await printed(client, failing, attempt) for attempt in (1, 2)] == ["data\n"] * 2
            assert (await client.job(failing)).spec.upload == sent.sha256
            return (await client.submit(command=["./run.sh"], upload=sent.sha256, hold=True)).job_id

    async def second(held: int) -> None:
        async with served(tmp_path / "state") as (_, client):
            await client.release(held)
            assert (await client.wait(held, PATIENCE_S)).status == "finished"
            assert await printed(client, held, 1) == "data\n"
            assert not (await client.upload(code)).sent

    asyncio.run(second(asyncio.run(first())))


def test_a_job_cannot_name_what_was_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, client):
            for ask in (client.submit, client.quote):
                with pytest.raises(Refused, match=r"upload: no directory with the SHA-256 0000.* was sent"):
                    await ask(command=["true"], upload="0" * 64)
            assert (await client.jobs()).items == []

    asyncio.run(main())


def test_a_program_of_the_copy_is_looked_for_there_and_others_here(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "state") as (_, client):
            sha256 = (await client.upload(some_code(tmp_path / "code"))).sha256
            for command in (
                "./run.sh",
                "lib/deep/up",
                "lib/latest/up",
                "../elsewhere",
                "lib/../run.sh",
                "sh",
            ):
                await client.quote(command=[command], upload=sha256)
            for command, why in (
                ("./train.sh", "'./train.sh' is not in the directory that was sent"),
                ("run.sh/more", "'run.sh/more' is not in the directory that was sent"),
                (
                    "lib/data",
                    r"'lib/data' is not executable in the directory that was sent; make it so \(chmod \+x\)",
                ),
                ("./lib", "'./lib' is not executable"),
            ):
                with pytest.raises(Refused, match=f"command: the command {why}"):
                    await client.submit(command=[command], upload=sha256)
            await client.quote(command=["mine"], upload=sha256, env={"PATH": "lib:/usr/bin"})
            for command in ("no-such-program", "/no/such/program"):
                with pytest.raises(Refused, match="does not exist"):
                    await client.quote(command=[command], upload=sha256)

    asyncio.run(main())


def test_the_limit_is_the_services(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_bytes(bytes(2 * MIB))

    async def main() -> None:
        async with served(tmp_path / "state", upload_bytes=MIB) as (_, client):
            with pytest.raises(InputError, match=r"code: 2\.0 MiB, and the service takes at most 1\.0 MiB"):
                await client.upload(tmp_path / "code")

    asyncio.run(main())


def test_an_array_as_one_job_has_it_in_each_trial(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "state") as (_, client):
            sha256 = (await client.upload(some_code(tmp_path / "code"))).sha256
            job = (await client.submit(command=["./run.sh"], upload=sha256, array="0-1", as_one=True)).job_id
            assert (await client.wait(job, PATIENCE_S)).status == "finished"
            for trial in (job + 1, job + 2):
                assert await printed(client, trial, 1) == "data\n"

    asyncio.run(main())


def test_what_no_job_names_goes_after_a_while(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "state") as (service, client):
            code = some_code(tmp_path / "code")
            named = (await client.upload(code)).sha256
            await client.submit(command=["./run.sh"], upload=named)
            (code / "lib" / "data").write_text("another")
            unneeded = (await client.upload(code)).sha256
            uploads = Uploads(tmp_path / "state" / "uploads")
            tidy_uploads(service.store, uploads)
            assert len(list(uploads.folder.iterdir())) == 2
            for sha256 in (named, unneeded):
                long_ago = time.time() - UNUSED_S - 60.0
                os.utime(uploads.path(sha256), (long_ago, long_ago))
            tidy_uploads(service.store, uploads)
            assert list(uploads.folder.iterdir()) == [uploads.path(named)]
            with pytest.raises(Refused, match="was sent"):
                await client.submit(command=["./run.sh"], upload=unneeded)

    asyncio.run(main())
