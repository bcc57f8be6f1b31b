"""The archives that a service keeps: taken whole or not at all, and gone once nobody needs them."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from betimes.errors import Refused, Unavailable
from betimes.service.uploads.archive import MIB
from betimes.service.uploads.kept import UNUSED_S, Uploads
from tests.service.executors.small_disk import small_disk
from tests.service.uploads.packing import file, made, packed, sha256, some_code

LONG_AGO = time.time() - UNUSED_S - 60.0


def receive(uploads: Uploads, name: str, data: bytes, read: list[int] | None = None) -> int:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 1000):
            if read is not None:
                read.append(start)
            yield data[start : start + 1000]

    return asyncio.run(uploads.receive(name, pieces()))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_archive_is_kept_under_the_name_of_its_content(tmp_path: Path) -> None:
    told, data = packed(some_code(tmp_path / "code"))
    uploads = Uploads(tmp_path / "state" / "uploads")
    assert uploads.use(told.sha256) is None

    assert receive(uploads, told.sha256, data) == len(data)

    assert uploads.use(told.sha256) == len(data)
    assert uploads.path(told.sha256).read_bytes() == data
    assert stat.S_IMODE(uploads.folder.stat().st_mode) == 0o700
    assert receive(uploads, told.sha256, data) == len(data), "again does no harm"
    assert names(uploads.folder) == [f"{told.sha256}.zip"]


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (
            made(file("a")),
            "0" * 64,
            "the SHA-256 of what came, .* bytes, is .*, and not 0000.*; send it again",
        ),
        (b"no archive", sha256(b"no archive"), "is no archive of a directory"),
        (made(file("../a")), sha256(made(file("../a"))), "no path inside the directory"),
        (
            made(file("a", bytes(MIB))),
            sha256(made(file("a", bytes(MIB)))),
            r"holds 1\.0 MiB; at most 0\.5 MiB",
        ),
    ],
)
def test_what_cannot_be_used_is_not_kept(tmp_path: Path, data: bytes, name: str, why: str) -> None:
    uploads = Uploads(tmp_path, MIB // 2)
    with pytest.raises(Refused, match=f"sha256: .*{why}"):
        receive(uploads, name, data)
    assert names(tmp_path) == []


def test_where_there_is_no_room_the_sender_reads_that(tmp_path: Path) -> None:
    data = made(file("a", os.urandom(MIB)))
    read: list[int] = []
    with small_disk(tmp_path / "disk") as disk:
        uploads = Uploads(disk.folder / "uploads")
        with pytest.raises(
            Unavailable, match=r"cannot be kept in .*uploads \(No space left on device\); make room"
        ):
            receive(uploads, sha256(data), data, read)
        assert read[-1] + 1000 >= len(data), "it is read to its end, or the answer would not be"
        assert names(uploads.folder) == []


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    told, data = packed(some_code(tmp_path / "code"))
    uploads = Uploads(tmp_path / "uploads")
    uploads.folder.write_text("")
    for attempt in (lambda: uploads.use(told.sha256), lambda: receive(uploads, told.sha256, data)):
        with pytest.raises(
            Unavailable, match=r"uploads is no directory, .*; an operator has to move it away"
        ):
            attempt()
    assert uploads.old() == [], "nothing is tidied there"


def test_an_archive_goes_once_it_has_not_been_used_for_long(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    assert uploads.old() == []
    archives = [made(file(name)) for name in "abcd"]
    young, used, named, unneeded = map(sha256, archives)
    for data in archives:
        receive(uploads, sha256(data), data)
    (tmp_path / f".{young}.0123").write_bytes(b"what an interrupted upload has left")
    for path in tmp_path.iterdir():
        if path.name != f"{young}.zip":
            os.utime(path, (LONG_AGO, LONG_AGO))

    old = uploads.old()
    assert sorted(old) == sorted([used, named, unneeded])
    assert uploads.use(used)
    uploads.remove(set(old) - {named})

    assert names(tmp_path) == sorted(f"{one}.zip" for one in (young, used, named))
