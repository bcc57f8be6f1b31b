"""Actions from the pages: act on jobs, submit and quote, change the policy."""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

from betimes.errors import BetimesError, InputError, Refused
from betimes.page.query import safe_target, whole
from betimes.page.session import Session
from betimes.service.api.bodies import read_pieces
from betimes.service.api.context import Context
from betimes.service.api.failures import Rejected
from betimes.service.api.limits import MOST_JOB_NUMBER, Limits
from betimes.service.runtime.page_reads import PageReads
from betimes.service.spec.job_file import read_drafts, specs_of
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import AdviceSpec

Given = dict[str, list[str]]
_TEXTS = (
    "name",
    "units",
    "memory",
    "array",
    "estimate",
    "time_limit",
    "begin",
    "output",
)  # fields of a job file
_NUMBERS = {"cpu": float, "gpu": float, "priority": int, "retries": int}
_PAIRS = ("env", "labels")  # NAME=VALUE, one a line

MOST_FIELDS = 20_000  # of a form
MOST_DAYS = 366


async def fields(request: Request, limits: Limits) -> Given:
    """The fields of a form. Raises Rejected: 408, 413, 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise Rejected(415, "unsupported-media-type", "Send the form as application/x-www-form-urlencoded.")
    body = b"".join([piece async for piece in read_pieces(request, limits.job_bytes, limits.pause_s)])
    try:
        return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Rejected(
            413, "too-large", f"A form has at most {MOST_FIELDS:,} fields here; choose fewer."
        ) from None


async def act(reads: PageReads, context: Context, session: Session, given: Given) -> str:
    """Cancel, hold or release jobs: `job=3`, or all live ones of `job=array:3` or `job=pipeline:5`.

    Raises Unknown, Conflict, NotAllowed.
    """
    verb = _one(given, "verb")
    if verb not in ("cancel", "hold", "release"):
        raise InputError("Choose cancel, hold or release.")
    numbers: list[int] = []
    for text in given.get("job", []):
        group, _, number = text.rpartition(":")
        if not (number.isascii() and number.isdigit() and int(number) <= MOST_JOB_NUMBER):
            raise InputError(f"{text[:40]!r} is no job's number.")
        numbers += await reads.live_of(group, int(number)) if group else [int(number)]
    if not numbers:
        raise InputError("No job is chosen. Tick the jobs first.")
    several = len(numbers) > 1
    numbers = await context.permitted(session, "steer", list(dict.fromkeys(numbers)), several)
    await reads.backend.steer(verb, numbers, session.user, several)
    return safe_target(_one(given, "back"))


async def submit(reads: PageReads, context: Context, session: Session, given: Given) -> str:
    """Submit a command or a job file. Raises InputError."""
    specs = _specs(given)
    context.check_specs(session, specs)
    submitted = await reads.backend.submit(specs, session.user)
    return f"job/{submitted[0].job_id}"


async def quote(reads: PageReads, session: Session, given: Given) -> dict[str, Any]:
    """The promise to what the form holds, or why there is none."""
    if not _one(given, "command").strip():
        return {"quote": None, "problem": None, "jobs": 0}
    try:
        specs = _specs(given)
        promise = await reads.seen.quote(specs[0], session.user) if len(specs) == 1 else None
    except BetimesError as error:
        return {"quote": None, "problem": str(error), "jobs": 0}
    return {"quote": promise, "problem": None, "jobs": len(specs)}


async def ask_advice(reads: PageReads, _: Context, __: Session, given: Given) -> str:
    """Have it worked out which policies are worth having. Raises InputError, Conflict."""
    days = whole(_one(given, "days"), "days", 1)
    if days > MOST_DAYS:
        raise InputError(f"days: give at most {MOST_DAYS}")
    await reads.backend.advise(AdviceSpec(last_s=days * 86_400.0))
    return "policy"


async def set_policy(reads: PageReads, _: Context, session: Session, given: Given) -> str:
    """Put another policy in force. Raises PolicyError, Conflict."""
    await reads.backend.set_policy(_one(given, "policy"), session.user)
    return "policy"


def _specs(given: Given) -> list[JobSpec]:
    """The jobs of the form: a command with its fields, or the text of a job file. Raises InputError."""
    text, kind = _one(given, "command"), _one(given, "kind")
    over: dict[str, Any] = {}
    if folder := _one(given, "workdir").strip():
        over["workdir"] = folder
    if kind not in ("toml", "yaml"):
        kind, text = "yaml", _as_file(text, given)
        if _one(given, "hold"):
            over["hold"] = True  # a job file has no such field
    with tempfile.TemporaryDirectory(prefix="betimes-page-") as at:
        path = Path(at) / f"job.{kind}"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            drafts = read_drafts(path)
            if any(draft.directory() is not None for draft in drafts):
                raise Refused("upload: a directory is sent by `betimes submit`; leave it out here")
            return specs_of(drafts, **over)
        except InputError as error:
            raise InputError(str(error).replace(f"{path}", "the job")) from None


def _as_file(command: str, given: Given) -> str:
    """A command and its fields as a job file."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command: {str(error).lower()}; close it") from None
    if not words:
        raise InputError("There is no command. Type one, as in: python train.py")
    asked = {name: value for name in given if (value := _one(given, name).strip())}
    fields: dict[str, Any] = {name: asked[name] for name in (*_TEXTS, *_NUMBERS) if name in asked}
    for name in _NUMBERS.keys() & fields.keys():
        with contextlib.suppress(ValueError):  # what is no number is refused by the name of its field
            fields[name] = _NUMBERS[name](fields[name])
    fields |= {name: _pairs(name, asked[name]) for name in _PAIRS if name in asked}
    if "after" in asked:
        fields["after"] = asked["after"].replace(",", " ").split()
    return json.dumps({"command": words, **fields})


def _pairs(field: str, text: str) -> dict[str, str]:
    """NAME=VALUE of each line. Raises InputError."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not (name and equals):
            raise InputError(f"{field}: write NAME=VALUE on each line, not {line[:40]!r}")
        if name in found:
            raise InputError(f"{field}: {name[:40]} stands there twice; leave one of them out")
        found[name] = value
    return found


def _one(given: Given, name: str) -> str:
    return given.get(name, [""])[0]
