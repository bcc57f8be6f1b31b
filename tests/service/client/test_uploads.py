"""Directories are sent by either kind of client, once each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from betimes import JobSpec
from betimes.errors import InputError, Refused, Unavailable
from betimes.service.uploads.archive import MIB, examine, unpack
from tests.service.client.both import Both
from tests.service.serving import Background
from tests.service.uploads.packing import some_code


@pytest.fixture
def kept(running: Background) -> Path:
    """The folder in which the service keeps what is sent."""
    running.it.backend.uploads.most_bytes = 4 * MIB
    return running.it.backend.uploads.folder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return some_code(tmp_path / "code")


def test_a_directory_is_sent_once(kept: Path, call: Both, code: Path, tmp_path: Path) -> None:
    first, second = call("upload", code), call("upload", str(code))
    assert (first.sent, second.sent) == (True, False)
    assert first.model_copy(update={"sent": False}) == second
    assert (first.folder, first.files) == (str(code), 9)
    (archive,) = kept.iterdir()
    assert (archive.stem, archive.stat().st_size) == (first.sha256, first.archive_bytes)
    assert examine(archive, MIB).bytes == first.bytes
    unpack(archive, tmp_path / "copy")
    assert (tmp_path / "copy" / "lib" / "data").read_text() == "data\n"
    (code / "lib" / "data").write_text("another")
    assert call("upload", code).sent
    assert len([*kept.iterdir()]) == 2


def test_a_directory_of_several_pieces_arrives(kept: Path, call: Both, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_bytes(os.urandom(2 * MIB))
    sent = call("upload", tmp_path / "code")
    assert (kept / f"{sent.sha256}.zip").stat().st_size == sent.archive_bytes > 2 * MIB


def test_what_is_too_large_is_not_even_packed(kept: Path, call: Both, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    with (tmp_path / "code" / "data").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(InputError, match=r"code: 953674\.3 MiB, and the service takes at most 4\.0 MiB"):
        call("upload", tmp_path / "code")
    with pytest.raises(InputError, match="missing: does not exist"):
        call("upload", tmp_path / "missing")
    assert not kept.exists()


def test_the_services_errors_are_raised(kept: Path, call: Both, code: Path) -> None:
    kept.parent.mkdir(exist_ok=True)
    kept.symlink_to("no-such-folder")  # nothing can be written into it
    with pytest.raises(Unavailable, match="an operator has to move it away"):
        call("upload", code)


def test_a_job_that_names_it_has_no_working_directory(running: Background, call: Both, code: Path) -> None:
    sha256 = call("upload", code).sha256
    call("submit", command=["./run.sh"], upload=sha256)
    call("submit", [JobSpec(command=["./run.sh"], upload=sha256)])
    for spec in [job.spec for job in running.it.jobs()]:
        assert spec is not None
        assert (spec.upload, spec.workdir) == (sha256, None)
    with pytest.raises(
        Refused, match=r"upload: './code' is no SHA-256 of a directory that was sent; `betimes submit"
    ):
        call("submit", command=["./run.sh"], upload="./code")
    with pytest.raises(Refused, match="upload and workdir exclude each other"):
        call("submit", command=["./run.sh"], upload=sha256, workdir="/")
