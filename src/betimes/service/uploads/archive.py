"""A directory as one file: a zip that is the same, byte for byte, for the same names, contents and executable bits.

It holds regular files, directories, also empty ones, and symbolic links that lead to a place inside the directory.
Nothing else is packed, and nothing is left out silently. Of permissions only the executable bit is kept.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from betimes.errors import BetimesError, InputError, ServiceError

MOST_FILES = 100_000  # of a directory, with those below it and links
MOST_LINK_BYTES = 4095
MOST_NAME_BYTES = 255  # that file systems take
MOST_PATH_BYTES = 1024  # below the directory: the run folder is before it, and systems take 4096
MIB = 2**20

_MOST_INDEX_BYTES = 32 * MIB  # an entry takes 46 and its path

_MOST_BYTES_OF_ZIP32 = 2**31 - 2**24  # of a file, compressed or not, in a zip without wide numbers
_UNIX = 3
_ENCRYPTED = 1
_LEVEL = 1  # of compression: more than twice as fast as by default, and an eighth larger
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    LookupError,
    RuntimeError,  # a method of compression that zipfile does not know, or a password
)
"""Errors of zipfile for an invalid or damaged archive."""


@dataclass(frozen=True)
class Contents:
    """Counts of unpacked content."""

    files: int  # directories and links included
    bytes: int


@dataclass(frozen=True)
class Packed:
    """A new archive: its SHA-256 in hexadecimal digits, its size, and its unpacked size."""

    sha256: str
    archive_bytes: int
    contents: Contents


@dataclass(frozen=True)
class _Entry:
    name: str  # of a directory with a slash at its end, as zip has it
    path: str
    mode: int
    size: int


@dataclass(frozen=True)
class _Member:
    """An entry of an archive that may be unpacked."""

    info: zipfile.ZipInfo
    kind: int  # S_IFREG, S_IFDIR, S_IFLNK
    target: str = ""  # of a link


class DamagedArchive(BetimesError):
    """A file is no archive of a directory, or holds forbidden entries."""


def measure(folder: Path, most_bytes: int, most_files: int = MOST_FILES) -> Contents:
    """The size of a directory. Raises InputError for one that cannot be packed, or exceeds these limits."""
    entries = _entries(folder, most_bytes, most_files)
    return Contents(len(entries), sum(entry.size for entry in entries))


def pack(folder: Path, archive: IO[bytes], most_bytes: int, most_files: int = MOST_FILES) -> Packed:
    """Write the archive of a directory into an empty file that can be read, too.

    Raises InputError for a directory that cannot be packed, or exceeds these limits; ServiceError without room.
    """
    entries = _entries(folder, most_bytes, most_files)
    written = 0
    try:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as made:
            for entry in entries:
                written += _write(made, entry)
                if written > most_bytes:  # it has grown meanwhile
                    raise _too_large(folder, written, most_bytes)
        archive.flush()
    except OSError as error:
        raise ServiceError(
            f"{folder}: its archive cannot be written in {tempfile.gettempdir()} ({error.strerror}); make room there, "
            "or name another folder in TMPDIR"
        ) from None
    archive.seek(0)
    digest = hashlib.sha256()
    while piece := archive.read(MIB):
        digest.update(piece)
    return Packed(digest.hexdigest(), archive.tell(), Contents(len(entries), written))


def examine(path: Path, most_bytes: int, most_files: int = MOST_FILES) -> Contents:
    """The unpacked size of an archive. Raises DamagedArchive for one that `unpack` refuses, or that is too large."""
    with _opened(path) as archive:
        members = _members(archive, most_files)
    total = sum(each.info.file_size for each in members)
    if total > most_bytes:
        raise DamagedArchive(
            f"holds {total / MIB:.1f} MiB; at most {most_bytes / MIB:.1f} MiB are taken (betimes up --upload-limit)"
        )
    return Contents(len(members), total)


def unpack(path: Path, into: Path, owner: tuple[int, int] | None = None) -> None:
    """Unpack an archive into a new folder; a failure leaves nothing.

    owner: the user and group to whom all of it is to belong; null: this process's.
    Nothing is written outside the folder. Raises DamagedArchive; OSError where it cannot be read or written.
    """
    draft = into.with_name(f"{into.name}.part")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    try:
        with _opened(path) as archive:
            members = _members(archive, MOST_FILES)
            for member in members:
                _place(archive, member, draft)
            for member in members:  # last, so that nothing can be written through one
                if member.kind == stat.S_IFLNK:
                    (draft / member.info.filename).symlink_to(member.target)
        if owner is not None:  # the top last: until then nobody else can enter
            for folder, folders, names in os.walk(draft, topdown=False):
                for name in (*folders, *names):
                    os.chown(Path(folder, name), *owner, follow_symlinks=False)
            os.chown(draft, *owner)
        draft.rename(into)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def trouble_of(path: Path, program: str) -> int:
    """The errno of starting a program in the directory unpacked; 0: no error is foreseen.

    program: its path, relative to the top. Raises DamagedArchive, OSError.
    """
    name = PurePosixPath(program)  # without `.`
    if ".." in name.parts:
        return 0
    with _opened(path) as archive:
        known = set(archive.namelist())
        if (found := next((one for one in (name, *name.parents) if str(one) in known), None)) is None:
            return errno.EACCES if f"{name}/" in known else errno.ENOENT
        mode = archive.getinfo(str(found)).external_attr >> 16
    if stat.S_ISLNK(mode):
        return 0
    if found != name:
        return errno.ENOTDIR
    return 0 if mode & stat.S_IXUSR else errno.EACCES


# --- packing ---


def _entries(folder: Path, most_bytes: int, most_files: int) -> list[_Entry]:
    """All entries below a directory, by name; raises InputError for one that cannot be packed."""
    if not folder.is_dir():
        what = "is no directory" if os.path.lexists(folder) else "does not exist"
        raise InputError(f"{folder}: {what}; name the directory that is to be sent")
    entries: list[_Entry] = []
    waiting = [("", str(folder))]
    while waiting:
        prefix, path = waiting.pop()
        for found in _listed(path):
            entry = _entry(prefix + found.name, found)
            entries.append(entry)
            if len(entries) > most_files:
                raise InputError(
                    f"{folder}: more than {most_files:,} files; name one with fewer, or put data on a shared disk"
                )
            if stat.S_ISDIR(entry.mode):
                waiting.append((entry.name, found.path))
    total = sum(entry.size for entry in entries)
    if total > most_bytes:
        raise _too_large(folder, total, most_bytes)
    return sorted(entries, key=lambda entry: entry.name)


def _listed(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError as error:
        raise _unreadable(path, error) from None


def _entry(name: str, found: os.DirEntry[str]) -> _Entry:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{found.path!r}: its name is not UTF-8; rename it") from None
    if "\\" in name:  # which zip has for a slash elsewhere
        raise InputError(f"{found.path}: its name has a backslash; rename it")
    if _is_too_long(name):
        raise InputError(f"{found.path}: {_TOO_LONG}; shorten it")
    try:
        status = found.stat(follow_symlinks=False)
        target = str(Path(found.path).readlink()) if stat.S_ISLNK(status.st_mode) else ""
    except OSError as error:
        raise _unreadable(found.path, error) from None
    if stat.S_ISDIR(status.st_mode):
        return _Entry(f"{name}/", found.path, stat.S_IFDIR | 0o755, 0)
    if stat.S_ISLNK(status.st_mode):
        if not _stays_inside(name, target):
            raise InputError(
                f"{found.path}: a link to {target!r}, which may lead out of the directory; replace it by what it leads "
                "to, or by a relative link"
            )
        return _Entry(name, found.path, stat.S_IFLNK | 0o777, len(os.fsencode(target)))
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{found.path}: neither file, directory nor link, and so cannot be sent; remove it")
    bits = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    return _Entry(name, found.path, stat.S_IFREG | bits, status.st_size)


def _write(archive: zipfile.ZipFile, entry: _Entry) -> int:
    """Write an entry; how many bytes it holds, which may have changed meanwhile."""
    written = 0
    # Opened by name, an entry has a zip's earliest time, and is compressed as the archive is.
    with archive.open(entry.name, "w", force_zip64=entry.size > _MOST_BYTES_OF_ZIP32) as to:
        if stat.S_ISLNK(entry.mode):
            written = to.write(os.fsencode(_read_link(entry.path)))
        elif stat.S_ISREG(entry.mode):
            with _readable(entry.path) as source:
                while piece := _read(source, entry.path):
                    written += to.write(piece)
    info = archive.getinfo(entry.name)
    info.create_system, info.external_attr = _UNIX, entry.mode << 16
    return written


def _read_link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError as error:
        raise _unreadable(path, error) from None


def _readable(path: str) -> IO[bytes]:
    try:
        # A file may have become a pipe since it was listed, and a pipe need not end.
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise _unreadable(path, error) from None


def _read(source: IO[bytes], path: str) -> bytes:
    try:
        return source.read(MIB)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be read ({error.strerror}); make it readable, or remove it")


def _too_large(folder: Path, size: int, most: int) -> InputError:
    return InputError(
        f"{folder}: {size / MIB:.1f} MiB, and the service takes at most {most / MIB:.1f} MiB; name a smaller one, put "
        "data on a shared disk, or start the service with a larger --upload-limit"
    )


# --- unpacking ---


class _BoundedReader(io.BufferedReader):
    """A file with reads bounded by the largest index allowed, which zipfile reads whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_INDEX_BYTES:
            raise DamagedArchive(
                f"has an index of {size / MIB:.1f} MiB; at most {_MOST_INDEX_BYTES // MIB} are taken"
            )
        return super().read(size)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive to read; its faults become DamagedArchive, those of the disk stay OSError."""
    try:
        with _BoundedReader(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except _DAMAGE as error:
        raise DamagedArchive(f"is no archive of a directory, or damaged ({error})") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # of an impossible place in the file
            raise
        raise DamagedArchive(f"is no archive of a directory, or damaged ({error.strerror})") from None


def _members(archive: zipfile.ZipFile, most_files: int) -> list[_Member]:
    """The entries, in the archive's order; raises DamagedArchive if one may not be unpacked."""
    infos = archive.infolist()
    if len(infos) > most_files:
        raise DamagedArchive(f"holds {len(infos):,} files; at most {most_files:,} are taken")
    members = [_member(archive, info) for info in infos]
    kinds: dict[str, int] = {}
    for member in members:
        name = member.info.filename.removesuffix("/")
        if name in kinds:
            raise DamagedArchive(f"holds {name[:80]!r} twice")
        kinds[name] = member.kind
    for name in kinds:
        for parent in PurePosixPath(name).parents:
            if kinds.get(str(parent), stat.S_IFDIR) != stat.S_IFDIR:
                raise DamagedArchive(f"holds {name[:80]!r} below what is no directory")
    return members


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    shown = repr(name[:80])
    if not _is_plain(name.removesuffix("/")):
        raise DamagedArchive(f"names {shown}, which is no path inside the directory")
    if _is_too_long(name):  # or half a surrogate pair, which is no name
        raise DamagedArchive(f"holds {shown}, and {_TOO_LONG}")
    if info.create_system != _UNIX or kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise DamagedArchive(f"holds {shown}, which is neither file, directory nor link")
    if info.is_dir() != (kind == stat.S_IFDIR) or (kind == stat.S_IFDIR and info.file_size):
        raise DamagedArchive(f"holds {shown}, which is not what its name says")
    if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedArchive(f"holds {shown} encrypted, or compressed otherwise than by deflate")
    if kind != stat.S_IFLNK:
        return _Member(info, kind)
    if info.file_size > MOST_LINK_BYTES:
        raise DamagedArchive(f"holds {shown}, a link with {info.file_size:,} bytes")
    with archive.open(info) as source:  # it may hold more than it declares
        target = os.fsdecode(source.read(MOST_LINK_BYTES + 1))
    if not _stays_inside(name, target):
        raise DamagedArchive(f"holds {shown}, a link out of the directory")
    return _Member(info, kind, target)


def _place(archive: zipfile.ZipFile, member: _Member, root: Path) -> None:
    """Write a directory or a file; of a link only the directory in which it is."""
    path = root / member.info.filename
    if member.kind == stat.S_IFDIR:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if member.kind == stat.S_IFLNK:
        return
    bits = 0o755 if (member.info.external_attr >> 16) & stat.S_IXUSR else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, bits)
    with os.fdopen(descriptor, "wb") as to, archive.open(member.info) as source:
        shutil.copyfileobj(source, to, MIB)


# --- paths ---

_TOO_LONG = f"a name has at most {MOST_NAME_BYTES} bytes, a path {MOST_PATH_BYTES}"


def _is_too_long(path: str) -> bool:
    """Whether file systems refuse a path, or one of its names. Raises ValueError if it is not UTF-8."""
    data = path.encode()
    return len(data) > MOST_PATH_BYTES or max(map(len, data.split(b"/"))) > MOST_NAME_BYTES


def _is_plain(path: str) -> bool:
    """Whether a path has only names: it is relative, and none of them is `.`, `..` or empty."""
    return _are_names(path.split("/")) and "\\" not in path


def _are_names(parts: Sequence[str]) -> bool:
    return bool(parts) and not any(part in ("", ".", "..") or "\0" in part for part in parts)


def _stays_inside(name: str, target: str) -> bool:
    """Whether a link leads to a place inside, through any other links that do so.

    It goes up only at its beginning, and then no further than to the directory itself: `a/../b` may lead anywhere if
    `a` is a link.
    """
    parts = target.removesuffix("/").split("/")
    while parts and parts[0] == ".":
        del parts[0]
    ups = 0
    while parts and parts[0] == "..":
        del parts[0]
        ups += 1
    return bool(target) and ups <= name.count("/") and (not parts or _are_names(parts))
