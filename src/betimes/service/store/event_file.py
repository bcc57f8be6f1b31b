"""Archived events: a file `events-FIRST-LAST.jsonl.gz`, one JSON object a line, oldest first."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from betimes.errors import StoreDamaged
from betimes.files import whole_file
from betimes.service.scheduling.events import Event

_NAME = re.compile(r"events-([0-9]+)-([0-9]+)\.jsonl\.gz")
_LEVEL = 6


def archive_path(folder: Path, first: int, last: int) -> Path:
    """The file of events `first` to `last` of a state directory."""
    return folder / "archive" / f"events-{first}-{last}.jsonl.gz"


def archives(folder: Path) -> dict[tuple[int, int], Path]:
    """The files of a state directory by the first and last event of each, oldest first."""
    files = [(_NAME.fullmatch(path.name), path) for path in (folder / "archive").glob("events-*.jsonl.gz")]
    return dict(sorted(((int(name[1]), int(name[2])), path) for name, path in files if name is not None))


def read_archive(path: str | Path) -> Iterator[Event]:
    """The events of a file that `archive` wrote, oldest first.

    Raises StoreDamaged, naming the file, if it is truncated or holds anything but the events of its name.
    """
    path = Path(path)
    name = _NAME.fullmatch(path.name)
    following = int(name[1]) if name is not None else None
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                event = Event(**json.loads(line))
                if following not in (None, event.event_id):
                    raise ValueError(f"event {event.event_id} where {following} is next")
                following = event.event_id + 1
                yield event
    except (EOFError, KeyError, OSError, TypeError, ValueError, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise StoreDamaged(f"{path}: is damaged ({error}); restore it from a copy") from error
    if name is not None and following != int(name[2]) + 1:
        raise StoreDamaged(f"{path}: ends before event {name[2]}; restore it from a copy")


def write_archive(path: Path, events: Iterable[Event]) -> None:
    """Write `events` to `path`: complete, read back and on the disk before it gets its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(".*.part"):
        left.unlink()
    with whole_file(path) as file:
        # No name and no time in the file: the same events make the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=_LEVEL, mtime=0) as packed:
            for event in events:
                packed.write(_line(event))
        file.flush()
        _check(Path(file.name), path)


def _line(event: Event) -> bytes:
    document = {
        "event_id": event.event_id,
        "at_s": event.at_s,
        "kind": event.kind,
        "cause": event.cause,
        "job": event.job,
        "node": event.node,
        "data": event.data,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _check(part: Path, path: Path) -> None:
    """Read every event back before the originals go."""
    name = _NAME.fullmatch(path.name)
    assert name is not None, path
    following = int(name[1])
    for event in read_archive(part):
        if event.event_id != following:
            raise StoreDamaged(f"{part}: event {event.event_id} where {following} is next; archive again")
        following += 1
    if following != int(name[2]) + 1:
        raise StoreDamaged(f"{part}: ends at event {following - 1}, not {name[2]}; archive again")
