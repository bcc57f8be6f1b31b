"""Jobs from a file: one job, or `defaults` and several `jobs`, in TOML or YAML.

::

    [defaults]                  # what the jobs share
    qos = "trial"
    env = { SEED = "7" }        # env, labels, require and demand are merged name by name

    [[jobs]]
    name = "prepare"
    command = ["./prepare.sh", "--all"]

    [[jobs]]
    name = "train"
    command = "python train.py --epochs 10"
    after = ["prepare"]         # by its name, or a number
    gpu = 1
    require = { gpu_kind = "a100" }  # labels that its nodes must have
    demand = { p3 = { cpu = 4 }, c7i = { gpu = 0, cpu = 2 } }  # on each family of machines on which it can run
    memory = "16GiB"
    units = "1-8"
    estimate = "2h"
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from betimes.errors import JobFileError
from betimes.service.spec import toml_document, yaml_document
from betimes.service.spec.document import Document, Malformed, Where
from betimes.service.spec.family_demand import read_demands
from betimes.service.spec.job_spec import SHA256, JobSpec, node_labels
from betimes.service.spec.pipelines import unknown_names
from betimes.service.spec.spec_errors import faults, unknown_field
from betimes.service.spec.spelling import SPELLINGS, directory_of, is_path

MOST_BYTES = 4 * 2**20
MOST_JOBS = 10_000
PARSERS = {".toml": toml_document.parse, ".yaml": yaml_document.parse, ".yml": yaml_document.parse}

_LONGEST_NAME = 60  # of a field that is shown as it is
_MERGED = ("env", "labels", "require", "demand")
_FOLDERS = ("workdir", "checkpoint_dir", "upload", "venv")
_UNSENT = "0" * 64  # stands for a directory that is yet to be sent
# Ways to say the same: a job that uses one of them takes none of the others from the defaults.
_RIVALS = (("estimate_s",), ("steps", "step_s"))


KNOWN = (*JobSpec.model_fields, *SPELLINGS)


@dataclass(frozen=True)
class Draft:
    """A job of a file, not yet checked: values and their places by field of `JobSpec`."""

    path: Path
    place: str  # "[[jobs]] 2", or nothing where the file is one job
    where: Where
    given: dict[str, Any]
    origins: dict[str, Where]
    document: Document

    def spec(self, **over: Any) -> JobSpec:
        """The job, with fields replaced by those of `over`; raises JobFileError, or ValidationError for `over`'s."""
        fields = as_sent(merged(self.given, over))
        try:
            return JobSpec.model_validate(fields)
        except ValidationError as error:
            first, *others = faults(error)
            field = first.field.partition(".")[0].partition("[")[0]
            if field in over:
                raise
            where = self.origins.get(field, self.where)
            spelt = str(where[-1]) + first.field.removeprefix(field) if field in self.origins else first.field
            inner = where + _inner(first.field)
            more = f" (and {len(others)} more)" if others else ""
            raise self._error(inner, spelt, first.text + more) from None

    def directory(self, **over: Any) -> Path | None:
        """The directory to send before the job is submitted."""
        return directory_of(merged(self.given, over))

    def not_sent(self) -> JobFileError:
        """The error that a directory cannot be sent from where the file is read."""
        text = "names a directory, which `betimes submit` sends; a program sends it by `upload` of the client"
        return self._error(self.origins.get("upload", self.where), "upload", text)

    def wrong_after(self, why: str) -> JobFileError:
        """The error for a bad `after`."""
        return self._error(self.origins.get("after", self.where), "after", why)

    def _error(self, where: Where, field: str | None, text: str) -> JobFileError:
        return _error(self.path, self.document, where, self.place, field, text)


def read_jobs(path: str | os.PathLike[str]) -> list[JobSpec]:
    """The jobs of a TOML or YAML file, checked; raises JobFileError on one line: file, line, job, field, limit.

    Folders in a file are relative to it; without `workdir` a job runs in the current folder of the caller. A directory
    that would have to be sent (`upload`) is refused.
    """
    drafts = read_drafts(path)
    for draft in drafts:
        if draft.directory() is not None:
            raise draft.not_sent()
    return specs_of(drafts)


def specs_of(drafts: Sequence[Draft], **over: Any) -> list[JobSpec]:
    """The jobs of a file, with fields replaced by those of `over`; `Draft.directory` is yet to be sent.

    Raises JobFileError, also for a name in `after` that no job before it has; ValidationError for `over`'s fields.
    """
    specs = [draft.spec(**over) for draft in drafts]
    for at, why in unknown_names(specs) if "after" not in over else ():
        raise drafts[at].wrong_after(why)
    return specs


def read_drafts(path: str | os.PathLike[str]) -> list[Draft]:
    """The jobs of a file, with its defaults, before they are checked; raises JobFileError."""
    path = Path(path)
    document = _document(path)
    top = document.top
    if "jobs" not in top and "defaults" not in top:
        if not top:
            raise JobFileError("holds no job; give it a command = [...], or several [[jobs]]", path)
        return [_draft(path, document, "", (), {}, {}, top)]
    for name in top:
        if name not in ("jobs", "defaults"):
            raise _error(
                path, document, (name,), "", name,
                "beside several jobs only `defaults` may stand; put it there, or into a job",
            )  # fmt: skip
    jobs, defaults = top.get("jobs"), top.get("defaults", {})
    if not isinstance(jobs, list) or not jobs:
        raise _error(path, document, ("jobs",), "", "jobs", "expected one table or more, each with a command")
    if len(jobs) > MOST_JOBS:
        text = f"{len(jobs):,} jobs; a file has at most {MOST_JOBS:,}: make several of it, or use an array"
        raise _error(path, document, ("jobs",), "", "jobs", text)
    if not isinstance(defaults, dict):
        raise _error(path, document, ("defaults",), "", "defaults", "expected a table of fields")
    shared, origins = _canonical(path, document, "defaults", ("defaults",), defaults)
    drafts = []
    for number, job in enumerate(jobs):
        where, place = ("jobs", number), f"job {number + 1}"
        if not isinstance(job, dict):
            raise _error(path, document, where, place, None, "expected a table of fields")
        drafts.append(_draft(path, document, place, where, shared, origins, job))
    return drafts


def merged(fields: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`fields` replaced by those of `over`; tables of names are merged, and None removes a field."""
    result = dict(fields)
    for group in _RIVALS:
        if any(over.get(field) is not None for field in group):
            for rival in (field for other in _RIVALS if other is not group for field in other):
                result.pop(rival, None)
    for field, value in over.items():
        if field in _MERGED and isinstance(value, dict) and isinstance(result.get(field), dict):
            result[field] = {**result[field], **value}
        else:
            result[field] = value
    return {field: value for field, value in result.items() if value is not None}


def as_sent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job as if its directory had been sent; without one it runs in the current folder."""
    if directory_of(fields) is not None:
        return {**fields, "upload": _UNSENT}
    return dict(fields) if "upload" in fields else {"workdir": str(Path.cwd()), **fields}


def _inner(field: str) -> Where:
    """The way from a field to its part at fault: for `env.SEED` to SEED, for `command[1]` to 1."""
    parts = re.findall(r"[^.\[\]]+", field)[1:]
    return tuple(int(part) if part.isdecimal() and f"[{part}]" in field else part for part in parts)


def _draft(
    path: Path,
    document: Document,
    place: str,
    where: Where,
    shared: dict[str, Any],
    origins: dict[str, Where],
    job: dict[str, Any],
) -> Draft:
    own, own_origins = _canonical(path, document, place, where, job)
    return Draft(path, place, where, merged(shared, own), {**origins, **own_origins}, document)


def _canonical(
    path: Path, document: Document, place: str, where: Where, table: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Where]]:
    """A table's fields under the names of `JobSpec`, and their places."""
    fields: dict[str, Any] = {}
    origins: dict[str, Where] = {}

    def fail(name: str, text: str) -> JobFileError:
        return _error(path, document, (*where, name), place, name, text)

    for name, value in table.items():
        if name not in KNOWN:
            raise fail(name, unknown_field(name, KNOWN))
        if isinstance(value, bool):
            raise fail(name, f"{str(value).lower()} is no value of a field; none is a switch")
        targets = SPELLINGS[name].fields if name in SPELLINGS else (name,)
        for field in targets:
            if field in origins:
                other = origins[field][-1]
                raise fail(name, f"{other} says the same; leave one of them out")
            origins[field] = (*where, name)
        try:
            fields |= dict(zip(targets, _read(name, value, len(targets), path), strict=True))
        except ValueError as error:
            raise fail(name, str(error)) from None
    return fields, origins


def _read(name: str, value: Any, count: int, path: Path) -> list[Any]:
    """The values of a field of a file, `count` of them. Raises ValueError."""
    if name in SPELLINGS and isinstance(value, str):
        found = SPELLINGS[name].read(value)
        return list(found) if isinstance(found, tuple) else [found]
    if name == "command" and isinstance(value, str):
        value = _words(value)
    elif name == "require" and isinstance(value, list | str):
        value = node_labels([value] if isinstance(value, str) else value)
    elif name == "demand" and isinstance(value, dict):
        value = read_demands(value)
    elif name == "after" and not isinstance(value, list | dict) and value is not None:
        value = [value]
    elif isinstance(value, str) and (
        is_path(name, value) or (name in _FOLDERS and "\0" not in value and not _is_sent(name, value))
    ):
        # A user without a home folder, or an unknown one, is left to the check that paths are absolute.
        with contextlib.suppress(RuntimeError):
            value = os.path.normpath(path.absolute().parent / Path(value).expanduser())
    if name == "after" and isinstance(value, list):
        value = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in value]
    return [value] * count


def _is_sent(name: str, value: str) -> bool:
    return name == "upload" and re.fullmatch(SHA256, value) is not None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{str(error).lower()} in {command[:40]!r}; close it, or give a list") from None


def _document(path: Path) -> Document:
    parse = PARSERS.get(path.suffix.lower())
    if parse is None:
        raise JobFileError(f"is neither TOML nor YAML by its name; name it {', '.join(PARSERS)}", path)
    try:
        return parse(_text(path))
    except Malformed as error:
        raise JobFileError(str(error), path, error.line) from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise JobFileError(f"cannot be read ({reason}); name a file of jobs", path) from None
    if len(data) > MOST_BYTES:
        raise JobFileError(f"larger than {MOST_BYTES >> 20} MiB; make several files, or use an array", path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobFileError("not UTF-8 text; save the file in UTF-8", path, line) from None


def _error(
    path: Path, document: Document, where: Where, place: str, field: str | None, text: str
) -> JobFileError:
    line, way = document.line(where), where
    while line is None and way:
        way = way[:-1]
        line = document.line(way)
    if field is not None and not (field.isprintable() and len(field) <= _LONGEST_NAME):
        field = repr(field[:_LONGEST_NAME])
    return JobFileError(text, path, line, place or None, field)
