"""Fields of a job as written in a job file and on the command line: `2h`, `4GiB`, `1-8`.

Read without the models: the command line has no time for them.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.units import parse_duration, parse_gib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MOST_CHARACTERS = 65_536  # of any text
ELEMENTS = 100_000_000
"""Of an array in Slurm: element 3 of array 4711 has the number 471100000003, as no job there has one so large."""
CLUSTERS = ("all", "betimes")  # the names by which Slurm's --clusters may mean the one service
MAIL_TYPES = ("BEGIN", "END", "FAIL", "ARRAY_TASKS")
ADDRESS = r"^[A-Za-z0-9_][A-Za-z0-9_.+=/'!#$%&*?^`{|}~-]*(@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)?$"
_WIDTH = r"(?P<least>[0-9]{1,9})(?:-(?P<most>[0-9]{1,9}))?"


def parse_units(text: str) -> tuple[int, int]:
    """The least and the most units of `4`, or of `1-8` for a job that may be resized.

    Raises ValueError naming the forms.
    """
    found = re.fullmatch(_WIDTH, text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number of units; write 4, or 1-8 for at least 1 and at most 8")
    least, most = int(found["least"]), int(found["most"] or found["least"])
    if not least or not most:
        raise ValueError(f"{text}: a job needs at least 1 unit; write 1-4, or 1, or leave it out for 1")
    if least > most:
        raise ValueError(f"{text}: at least {least} is more than at most {most}; write {most}-{least}")
    return least, most


def mail_types(value: Any) -> Any:
    """Types of mail, as a list or a text such as `END,FAIL`; ALL is BEGIN, END and FAIL, NONE is none."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list):
        return value
    found: list[object] = []
    for each in given:
        name = each.strip().upper() if isinstance(each, str) else each
        names = {"ALL": ("BEGIN", "END", "FAIL"), "NONE": ()}.get(str(name), (name,))
        found += [one for one in names if one not in found]
    return found


def checked_address(text: str) -> str:
    """An address of mail, or the name of a user of the machine. Raises ValueError."""
    if not re.fullmatch(ADDRESS, text) or len(text) > 254:
        raise ValueError(f"{text[:60]!r} is no address; write one as in ann@example.org")
    return text


def signal_name(text: str) -> str:
    """The name of a signal on Linux, given as USR1, SIGUSR1, usr1 or 10; of one without a name its number.

    Raises ValueError.
    """
    from signal import SIGRTMAX, Signals

    name = text.strip().upper().removeprefix("SIG")
    if name.isdecimal() and len(name) < 4 and 0 < int(name) <= SIGRTMAX:
        known = {each.value: each.name for each in Signals}
        return known.get(int(name), name).removeprefix("SIG")
    if f"SIG{name}" not in Signals.__members__:
        raise ValueError(f"{text[:20]!r} is no signal; write a name such as USR1, or its number")
    return name


def signal_number(name: str) -> int:
    """The number of a signal that `signal_name` has written."""
    from signal import Signals

    return int(name) if name.isdecimal() else Signals[f"SIG{name}"].value


def parse_begin(text: str, now_s: float | None = None) -> float:
    """The instant, s since 1970, of `+2h`, `now+2hours`, `16:00`, `tomorrow`, `tomorrow 9:00`, `2026-11-27` or
    `2026-11-27T16:00`, local time.

    Raises ValueError for other texts.
    """
    from datetime import datetime, timedelta  # for few jobs only

    now = datetime.fromtimestamp(time.time() if now_s is None else now_s)
    wanted = text.strip().lower()
    if found := re.fullmatch(r"now(?:\+(\d{1,9})\s*(second|minute|hour|day|week)?s?)?", wanted):
        steps = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
        return now.timestamp() + int(found[1] or 0) * steps.get(found[2] or "", 1.0)
    if wanted.startswith("+"):
        return now.timestamp() + parse_duration(wanted[1:])
    words = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}
    try:
        if "-" in wanted:
            return datetime.fromisoformat(wanted).timestamp()
        named = re.fullmatch(r"(today|tomorrow)(?:\s+(\S+))?", wanted)
        if named:
            wanted = named[2] or "midnight"
        clock = datetime.strptime(
            words.get(wanted, wanted), "%H:%M:%S" if wanted.count(":") == 2 else "%H:%M"
        )
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is not an instant; write +2h, 16:00, tomorrow 9:00 or 2026-11-27T16:00"
        ) from None
    at = now.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    later = named[1] == "tomorrow" if named else at <= now
    return (at + timedelta(days=later)).timestamp()


def job_number(number: int) -> str:
    """The number of a job as people read it: `41`, and of an element of an array in Slurm `4711_3`."""
    array, index = divmod(number, ELEMENTS)
    return f"{array}_{index}" if array else f"{number}"


class Spelling(NamedTuple):
    """Another way to write fields of a job: their names, and how the text is read."""

    fields: tuple[str, ...]
    read: Callable[[str], float | tuple[int, int]]


PARTITION = "partition"
"""The label with the name of a job's queue: lists and Slurm's commands find and show it by that."""
RESOURCE = "^[A-Za-z][A-Za-z0-9_.-]*$"
"""The name of something that the service counts."""

SPELLINGS = {
    "memory": Spelling(("memory_gib",), parse_gib),
    "units": Spelling(("min_units", "max_units"), parse_units),
    "grace": Spelling(("grace_s",), parse_duration),
    "estimate": Spelling(("estimate_s",), parse_duration),
    "step": Spelling(("step_s",), parse_duration),
    "time_limit": Spelling(("time_limit_s",), parse_duration),
    "warn": Spelling(("warn_s",), parse_duration),
    "backoff": Spelling(("backoff_s",), parse_duration),
    "begin": Spelling(("begin_at",), parse_begin),
}
"""Fields with the names of the options, which read `2h` and `4GiB`; a plain number is seconds, GiB or units."""


def is_path(name: str, value: str) -> bool:
    """Whether an environment or an image is given by a path that is relative to a folder, and not by name."""
    return name in ("conda", "image") and value.startswith((".", "~"))


def parse_resources(texts: Iterable[str]) -> dict[str, int]:
    """`licence=2`, `matlab`, each once: how many of what the service counts. Raises ValueError."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not re.fullmatch(RESOURCE, name) or (equals and not re.fullmatch("[1-9][0-9]{0,5}", number)):
            raise ValueError(f"{text[:60]!r} is not a resource and its number; write licence=2")
        if name in found:
            raise ValueError(f"{name} is named twice; leave one of them out")
        found[name] = int(number or 1)
    return found


def directory_of(fields: Mapping[str, Any]) -> Path | None:
    """The directory that fields name as `upload`; null: none, or one that was sent."""
    given = fields.get("upload")
    return Path(given) if isinstance(given, str) and given.startswith("/") else None


def with_full_names(policy: str, folder: Path) -> str:
    """A policy with the full names of its files, which are of `folder`: the service works in another one."""
    return re.sub(
        r"[^:=+,]+\.py(?=:)", lambda file: str((folder / Path(file[0]).expanduser()).absolute()), policy
    )


def file_name(pattern: str, known: Mapping[str, str]) -> str:
    """A file's name by a pattern such as `%x-%4j.out`, where a number pads with zeros; letters not known stay.

    Source: sbatch, "filename pattern".
    """
    return re.sub(
        r"%([0-9]?)([a-zA-Z%])",
        lambda at: {"%": "%", **known}.get(at[2], at[0]).rjust(int(at[1] or 0), "0"),
        pattern,
    )


def exported(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that `ALL`, `NONE` or names, as in `ALL,SEED=7` or `PATH,HOME`, hand over to a job.

    environ: those of the submitter; of Betimes' and of a Slurm job's variables none is handed over, and none that a job
    cannot keep: longer than 65,536 characters, or not UTF-8. Raises ValueError.
    """
    free = {
        name: value
        for name, value in environ.items()
        if name
        and not name.startswith(("BETIMES_", "SLURM_"))
        and len(value) <= MOST_CHARACTERS
        and not re.search("[\ud800-\udfff]", name + value)
    }
    found: dict[str, str] = {}
    for number, part in enumerate(text.split(",")):
        name, equals, value = part.partition("=")
        if part.upper() == "ALL":
            found |= free
        elif part.upper() in ("NONE", "NIL") and number == 0:
            continue
        elif not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(
                f"{part[:40]!r} is not a variable; write ALL, NONE, or NAME and NAME=VALUE by commas"
            )
        elif equals:
            found[name] = value
        elif name in free:
            found[name] = free[name]
    return found
