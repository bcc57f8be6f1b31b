"""Jobs on the command line: `41`, `41-45`, `41,43`, or by name."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

from betimes.cli.live.jobs.completing import ACTIVE, complete_job
from betimes.cli.verbs import Argument
from betimes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from betimes.client.calls import Conditions
    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobView

MOST = 100_000
_PAGE = 500
Ids = Annotated[
    list[str],
    Argument(
        metavar="JOB...",
        help="Numbers of jobs, ranges of them as in 41-45, or names.",
        autocompletion=complete_job,
        show_default=False,
    ),
]
_ELEMENTS = r"(?P<array>[1-9][0-9]{0,17})_\[(?P<index>\*|[0-9]{1,9})\]"
_ELEMENT = r"(?P<array>[1-9][0-9]{0,17})_(?P<index>[0-9]{1,9})"  # as Slurm writes it
_ON = ("ok", "any", "fail", "start", "corr")  # `job_spec.ON`, without the models
_RANGE = r"(?P<first>[1-9][0-9]{0,17})(?:-(?P<last>[1-9][0-9]{0,17}))?"


def parse_ids(words: Sequence[str]) -> list[int]:
    """The jobs named, each once, in the order given; raises InputError with the expected form."""
    found: dict[int, None] = {}
    for part in (part for word in words for part in word.split(",")):
        match = re.fullmatch(_RANGE, part.strip())
        if match is None:
            raise InputError(
                f"ID {part[:40]!r}: give the numbers of jobs, as in 41 or 41-45; `betimes jobs` lists them, and --name "
                f"{part[:40]} means all jobs of that name"
            )
        first = int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise InputError(f"ID {part}: an empty range; write {last}-{first}")
        if last - first >= MOST or len(found) + last - first >= MOST:
            raise InputError(f"ID {part}: more than {MOST:,} jobs at once; give a smaller range")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


def resolve(service: PlainClient, words: Sequence[str]) -> list[int]:
    """The jobs named by numbers, ranges or names, each once; raises InputError for words that name none."""
    found: dict[int, None] = {}
    for word in words:
        element = re.fullmatch(_ELEMENT, word)
        if element is not None:
            numbers = _of_array(service, **element.groupdict())
        else:
            numbers = _of_name(service, word) if _is_name(word) else parse_ids([word])
        found.update(dict.fromkeys(numbers))
    return list(found)


def waited_for(service: PlainClient, words: Sequence[str]) -> list[str]:
    """The jobs of `--after`, by their numbers: `prep`, `41-43:any`; of `#SBATCH` lines `41_[*]`. Raises InputError."""
    found: list[str] = []
    for word in words:
        job, colon, end = word.rpartition(":")
        if end not in _ON:
            job, colon, end = word, "", ""
        elements = re.fullmatch(_ELEMENTS, job)
        numbers = resolve(service, [job]) if elements is None else _of_array(service, **elements.groupdict())
        if end == "corr":  # of an array its number stands for all, each of which another one waits for
            numbers = numbers[:1] if elements is None else [int(elements["array"])]
        found += [f"{number}{colon}{end}" for number in numbers]
    return found


def _of_array(service: PlainClient, array: str, index: str) -> list[int]:
    """An element of an array, or with `*` all of them; of a job that is no array the job. Raises InputError."""
    every = {job.array_index: job.job_id for job in every_job(service, {"array_id": int(array)})[::-1]}
    every.pop(None, None)  # an array that is one elastic job
    if index == "*":
        return list(every.values()) or [int(array)]
    if int(index) not in every:
        raise InputError(f"there is no {array}_{index}; `betimes jobs --all` lists the elements of arrays")
    return [every[int(index)]]


def fetch(service: PlainClient, wanted: Conditions, limit: int) -> tuple[list[JobView], bool]:
    """The newest jobs, `limit` at most, and whether these are all."""
    found: list[JobView] = []
    after: int | None = None
    while True:
        where: Conditions = wanted if after is None else {**wanted, "after": after}
        page = service.jobs(**{**where, "limit": min(limit - len(found), _PAGE)})
        found += page.items
        after = page.following
        if after is None or len(found) >= limit:
            return found, after is None


def every_job(service: PlainClient, wanted: Conditions) -> list[JobView]:
    """All jobs that meet the conditions, newest first."""
    return fetch(service, wanted, sys.maxsize)[0]


def _is_name(word: str) -> bool:
    """Whether a word contains more than digits and their separators."""
    return not set(word) <= set("0123456789,.- ")


def _of_name(service: PlainClient, name: str) -> list[int]:
    """The jobs of a name that are not over; if there are none, the newest that is over."""
    active = every_job(service, {"name": name, "status": ACTIVE})
    found = [job.job_id for job in active[::-1] or service.jobs(name=name, limit=1).items]
    if not found:
        raise InputError(
            f"{name[:60]!r}: no job has this name; `betimes jobs --all` lists them; give a name, or a number as in 41"
        )
    return found
