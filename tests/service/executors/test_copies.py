"""A run has its own copy of the directory that was sent along with its job."""

from __future__ import annotations

import os
from pathlib import Path

from betimes.service.executors.supervision.files import COPY
from betimes.service.scheduling.events import Ended, Started, Trouble
from betimes.service.uploads.archive import MIB
from tests.service.executors.running import RUN, a_launch, executing, log_of, play, run_to_end, until
from tests.service.executors.small_disk import small_disk
from tests.service.uploads.packing import file, made, packed, some_code


def an_archive(at: Path, data: bytes | None = None) -> str:
    path = at / "archive.zip"
    path.write_bytes(packed(some_code(at / "code"))[1] if data is None else data)
    return str(path)


def test_a_command_runs_in_the_copy_and_finds_its_program_there(at: Path) -> None:
    launch = a_launch(at, "./run.sh", workdir="/", archive=an_archive(at))

    assert run_to_end(launch).exit_code == 0
    assert log_of(launch) == "data\n"
    assert Path(launch.folder, COPY, "lib", "data").read_text() == "data\nmore\n"
    assert (at / "code" / "lib" / "data").read_text() == "data\n"


def test_each_run_has_a_fresh_copy(at: Path) -> None:
    archive = an_archive(at)
    for number in (1, 2):
        launch = a_launch(at, "./run.sh", run=RUN._replace(number=number), archive=archive)
        run_to_end(launch)
        assert log_of(launch) == "data\n"


def test_a_run_that_was_being_copied_when_the_service_went_is_started(at: Path) -> None:
    launch = a_launch(at, "./run.sh", archive=an_archive(at))
    begun = Path(launch.folder, f"{COPY}.part")
    begun.mkdir(parents=True)
    (begun / "run.sh").write_text("half")

    async def scenario() -> Ended:
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            return await heard.ended()

    assert play(scenario()).exit_code == 0
    assert log_of(launch) == "data\n"


def test_an_adopted_run_keeps_its_copy(at: Path) -> None:
    command = f"echo mine > lib/data; until [ -e {at}/gate ]; do sleep 0.02; done; cat lib/data"
    launch = a_launch(at, "sh", "-c", command, archive=an_archive(at))

    async def scenario() -> Ended:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
            await until(lambda: "mine" in Path(launch.folder, COPY, "lib", "data").read_text())
        Path(str(launch.archive)).unlink()  # nobody needs it any more
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            assert (await heard.started()).adopted
            (at / "gate").touch()
            return await heard.ended()

    assert play(scenario()).exit_code == 0
    assert log_of(launch) == "mine\n"


def test_an_archive_that_is_not_there_or_damaged_is_named(at: Path) -> None:
    missing = run_to_end(a_launch(at, "true", archive=str(at / "archive.zip")))
    damaged = run_to_end(a_launch(at, "true", run=RUN._replace(number=2), archive=an_archive(at, b"x")))

    assert missing.why == damaged.why == "start-failed"
    assert (
        missing.message
        == f"its uploaded directory is missing ({at}/archive.zip); submit it again with --upload"
    )
    assert damaged.message is not None
    assert damaged.message.startswith(
        f"its uploaded directory ({at}/archive.zip) is no archive of a directory, or damaged"
    )
    assert damaged.message.endswith("; remove that file, and submit again with --upload")


def test_where_there_is_no_room_for_a_copy_the_run_starts_once_there_is(at: Path) -> None:
    archive = an_archive(at, made(file("data", os.urandom(MIB // 4))))
    with small_disk(at / "disk") as disk:
        launch = a_launch(disk.folder, "wc", "-c", "data", archive=archive)

        async def scenario() -> None:
            async with executing() as (executor, heard):
                disk.fill()
                await executor.start(launch)
                await until(lambda: any(isinstance(one, Trouble) for one in heard.reports))
                disk.make_room()
                assert (await heard.ended()).exit_code == 0
                assert [type(one) for one in heard.reports] == [Trouble, Started, Ended]

        play(scenario())
        assert log_of(launch) == f"{MIB // 4} data\n"
