"""Numbers of jobs as people give them: `41`, `41-45`, `41,43`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from betimes.errors import InputError

MOST = 100_000
_RANGE = re.compile(r"(?P<first>[1-9][0-9]{0,17})(?:-(?P<last>[1-9][0-9]{0,17}))?")


def parse_ids(words: Sequence[str]) -> list[int]:
    """The jobs that are named, each once, in the order given; raises InputError saying what to write."""
    found: dict[int, None] = {}
    for part in (part for word in words for part in word.split(",")):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise InputError(f"ID {part[:40]!r}: give the numbers of jobs, as in 41 or 41-45")
        first = int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise InputError(f"ID {part}: an empty range; write {last}-{first}")
        if last - first >= MOST or len(found) + last - first >= MOST:
            raise InputError(f"ID {part}: more than {MOST:,} jobs at once; give a smaller range")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


def parse_id(word: str) -> int:
    """The one job that is named; raises InputError."""
    ids = parse_ids([word])
    if len(ids) != 1:
        raise InputError(f"ID {word}: name one job, as in {ids[0]}")
    return ids[0]
