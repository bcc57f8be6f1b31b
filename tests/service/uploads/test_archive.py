"""A directory as one file: the same for the same content, and nothing that leads out of it or fills the disk."""

from __future__ import annotations

import io
import os
import socket
import stat
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from betimes.errors import InputError
from betimes.service.uploads.archive import MIB, DamagedArchive, examine, measure, unpack
from tests.service.uploads.packing import file, link, made, packed, sha256, some_code


def tree(folder: Path) -> dict[str, object]:
    """Everything below a directory: its kind, and its content."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = "directory"
        else:
            found[name] = (bool(path.stat().st_mode & stat.S_IXUSR), path.read_bytes())
    return found


def kept(at: Path, data: bytes) -> Path:
    path = at / "archive.zip"
    path.write_bytes(data)
    return path


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    code = some_code(tmp_path / "code")
    told, data = packed(code)
    assert (told.sha256, told.archive_bytes) == (sha256(data), len(data))
    assert told.contents == examine(kept(tmp_path, data), MIB) == measure(code, MIB)
    assert told.contents.files == 9

    unpack(kept(tmp_path, data), tmp_path / "copy")

    assert tree(tmp_path / "copy") == tree(code)
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


def test_the_archive_is_the_same_for_the_same_content(tmp_path: Path) -> None:
    first, second = some_code(tmp_path / "first"), tmp_path / "second"
    second.mkdir()
    (second / "empty").mkdir(mode=0o700)  # in another order, with other times and permissions
    some = some_code(tmp_path / "other")
    for name in ("run.sh", "lib"):
        (some / name).rename(second / name)
    (second / "run.sh").chmod(0o700)
    (second / "lib" / "data").chmod(0o600)
    os.utime(second / "lib" / "data", (1e9, 1e9))

    assert packed(first) == packed(second)

    (second / "lib" / "data").chmod(0o755)
    assert packed(first)[0].sha256 != packed(second)[0].sha256


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../outside", "deep/../../outside", "deep/../data", "./../x/../../y"]
)
def test_a_link_that_may_lead_out_is_refused_by_its_name(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)

    with pytest.raises(InputError, match=r"link: a link to .* may lead out of the directory; replace it"):
        packed(tmp_path)


def test_what_is_no_file_is_refused_and_not_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: neither file, directory nor link"):
        packed(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match=r"socket: neither file, directory nor link"):
            packed(tmp_path)


@pytest.mark.parametrize(("name", "why"), [(b"a\xffb", "is not UTF-8"), (b"a\\b", "has a backslash")])
def test_a_name_that_would_not_come_back_is_refused(tmp_path: Path, name: bytes, why: str) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()

    with pytest.raises(InputError, match=f"its name {why}; rename it"):
        packed(tmp_path)


def test_a_name_or_path_that_file_systems_refuse_is_not_packed(tmp_path: Path) -> None:
    deep = tmp_path / ("a" * 250)
    for _ in range(4):
        deep.mkdir()
        deep /= "b" * 250
    deep.mkdir()

    with pytest.raises(InputError, match="a name has at most 255 bytes, a path 1024; shorten it"):
        packed(tmp_path)


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"missing: does not exist; name the directory"):
        packed(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: is no directory; name the directory"):
        packed(tmp_path / "file")
    opened = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *more: _denied(path) if path.endswith("file") else opened(path, *more)
    )
    with pytest.raises(InputError, match=r"file: cannot be read \(Permission denied\); make it readable"):
        packed(tmp_path)


def _denied(path: str) -> int:
    raise PermissionError(13, "Permission denied", path)


def test_a_directory_has_a_size(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_bytes(bytes(MIB // 4))
    assert packed(tmp_path, MIB)[0].contents.bytes == MIB
    with pytest.raises(
        InputError, match=r"1\.0 MiB, and the service takes at most 0\.9 MiB; .*--upload-limit"
    ):
        packed(tmp_path, MIB - MIB // 10)
    with pytest.raises(InputError, match="more than 3 files"):
        packed(tmp_path, MIB, 3)


HOSTILE = {
    "above": [file("../x")],
    "above, later": [file("a/../../x")],
    "absolute": [file("/x")],
    "here": [file("./x")],
    "no name": [file("a//x")],
    "backslash": [file("a\\..\\x")],
    "absolute link": [link("x", "/etc")],
    "link above": [link("a/x", "../../etc")],
    "link through a link": [link("d", "a/b"), link("a/b/x", "../../d/../../..")],
    "file through a link": [link("a", "b"), file("a/x")],
    "file below a file": [file("a"), file("a/x")],
    "twice": [file("a"), file("a")],
    "file and directory": [file("a"), ("a/", stat.S_IFDIR | 0o755, b"")],
    "device": [("x", stat.S_IFCHR | 0o666, b"")],
    "pipe": [("x", stat.S_IFIFO | 0o666, b"")],
    "no kind": [("x", 0o644, b"")],
    "directory with content": [("x/", stat.S_IFDIR | 0o755, b"x")],
    "directory as a file": [("x", stat.S_IFDIR | 0o755, b"")],
    "long link": [link("x", "y" * 5000)],
    "empty link": [link("x", "")],
    "long name": [file("x" * 256)],
    "long name of a directory": [file("é" * 128 + "/x")],
    "deep": [file("a/" * 512 + "x")],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_what_no_directory_makes_is_not_unpacked(
    tmp_path: Path, entries: list[tuple[str, int, bytes]]
) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    with warnings.catch_warnings(action="ignore"):  # of a name that is there twice
        path = kept(tmp_path, made(*entries))

    with pytest.raises(DamagedArchive):
        examine(path, MIB)
    with pytest.raises(DamagedArchive):
        unpack(path, inside / "copy")

    assert list(inside.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "archive.zip"]


def test_what_would_fill_the_disk_is_not_taken(tmp_path: Path) -> None:
    path = kept(tmp_path, made(*(file(str(n), bytes(MIB)) for n in range(20))))
    assert path.stat().st_size < MIB // 10
    with pytest.raises(
        DamagedArchive, match=r"holds 20\.0 MiB; at most 10\.0 MiB are taken \(betimes up --upload-limit\)"
    ):
        examine(path, 10 * MIB)
    with pytest.raises(DamagedArchive, match="holds 20 files; at most 19 are taken"):
        examine(path, 100 * MIB, 19)


def test_a_size_that_is_not_true_is_found_when_it_is_unpacked(tmp_path: Path) -> None:
    data = made(file("a", bytes(MIB)))
    short = data.replace(MIB.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert examine(kept(tmp_path, short), MIB).bytes == 10
    with pytest.raises(DamagedArchive, match="damaged"):
        unpack(kept(tmp_path, short), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_what_an_archive_declares_falsely_takes_no_memory(tmp_path: Path) -> None:
    sizes = made(link("l", "a" * 64 * MIB)).replace(
        (64 * MIB).to_bytes(4, "little"), (10).to_bytes(4, "little")
    )
    one = made(file("a"))
    begin, end = one.rfind(b"PK\1\2"), one.rfind(b"PK\5\6")
    index = one[begin:end] * (40 * MIB // (end - begin))
    entries = one[:begin] + index + one[end : end + 12] + len(index).to_bytes(4, "little") + one[end + 16 :]
    for data in (sizes, entries):
        path = kept(tmp_path, data)
        tracemalloc.start()
        try:
            with pytest.raises(DamagedArchive):
                examine(path, MIB)
            assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        finally:
            tracemalloc.stop()


def test_a_copy_that_was_begun_is_begun_again(tmp_path: Path) -> None:
    path = kept(tmp_path, made(file("a", b"whole")))
    (tmp_path / "copy.part").mkdir()
    (tmp_path / "copy.part" / "a").write_bytes(b"half")

    unpack(path, tmp_path / "copy")

    assert tree(tmp_path / "copy") == {"a": (False, b"whole")}
    assert not (tmp_path / "copy.part").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return packed(some_code(tmp_path_factory.mktemp("code") / "code"))[1]


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(cuts=st.lists(st.tuples(st.integers(0, 2**16), st.binary(max_size=8), st.integers(0, 8)), max_size=4))
def test_a_damaged_archive_is_refused_or_unpacked_inside(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, cuts: list[tuple[int, bytes, int]]
) -> None:
    at = tmp_path_factory.mktemp("damaged")
    data = whole
    for anywhere, new, gone in cuts:
        place = anywhere % (len(data) + 1)
        data = data[:place] + new + data[place + gone :]
    path, inside = kept(at, data), at / "inside"
    inside.mkdir()
    try:
        examine(path, MIB)
        unpack(path, inside / "copy")
    except DamagedArchive:
        assert list(inside.iterdir()) == []
    else:
        assert_inside(inside / "copy")
    assert sorted(each.name for each in at.iterdir()) == ["archive.zip", "inside"]


names = st.lists(st.sampled_from(["a", "b", "..", "c"]), min_size=1, max_size=4).map("/".join)
entries = st.one_of(
    names.map(file),
    st.tuples(names, names).map(lambda both: link(*both)),
    st.just(("a/", stat.S_IFDIR | 0o755, b"")),
)


@quick
@given(entries=st.lists(entries, max_size=8))
def test_whatever_links_there_are_nothing_leads_out(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, int, bytes]]
) -> None:
    at = tmp_path_factory.mktemp("links")
    with warnings.catch_warnings(action="ignore"):
        path = kept(at, made(*entries))
    inside = at / "x" / "y" / "z"
    inside.mkdir(parents=True)
    try:
        unpack(path, inside / "copy")
    except DamagedArchive:
        assert list(inside.iterdir()) == []
    else:
        assert_inside(inside / "copy")


def assert_inside(copy: Path) -> None:
    """Every path below a directory leads to a place in it, be there anything or not."""
    root = copy.resolve()
    for path in copy.rglob("*"):
        try:
            led = path.resolve()
        except RuntimeError:  # a link to itself
            continue
        assert led == root or root in led.parents


def test_an_archive_with_a_password_is_refused(tmp_path: Path) -> None:
    data = bytearray(made(file("a", b"secret")))
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        data[data.index(mark) + (6 if mark.endswith(b"\x04") else 8)] |= 1
    with pytest.raises(DamagedArchive, match="encrypted"):
        examine(kept(tmp_path, bytes(data)), MIB)


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive", bytes(1000)])
def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DamagedArchive, match="is no archive of a directory, or damaged"):
        examine(kept(tmp_path, data), MIB)


def test_an_archive_of_another_maker_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", b"x" * 100)
    with pytest.raises(DamagedArchive):
        examine(kept(tmp_path, data.getvalue()), MIB)
