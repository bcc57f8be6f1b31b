"""Faults of a job, in words: the field at fault, the limit, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from betimes.errors import did_you_mean
from betimes.service.spec.job_spec import JobSpec

Known = Sequence[str] | type[BaseModel]
"""What is suggested for an unknown field: names, of the request itself, or those of its model and the models in it."""

_EXACT, _HUGE = 10**15, 10**300  # below which a number is shown to the last digit, and at all
_BRANCHES = ("str", "Curve")  # of a union, which pydantic names in a location


class Fault(NamedTuple):
    """One fault: `field` as in `env.SEED`, empty for the job as a whole."""

    field: str
    text: str


def faults(error: ValidationError, known: Known = JobSpec) -> list[Fault]:
    """All faults of a job found by the model, in its order."""
    return faults_of(error.errors(include_url=False), known)


def faults_of(found: Sequence[ErrorDetails], known: Known, what: str = "job") -> list[Fault]:
    """The same from pydantic's list: for a job, or another kind of request."""
    branches = [_branch(e["loc"]) for e in found]
    tables = {
        branch.place
        for e, branch in zip(found, branches, strict=True)
        if branch is not None and branch.is_table and e["type"] not in ("model_type", "model_attributes_type")
    }
    found = [
        e
        for e, branch in zip(found, branches, strict=True)
        if branch is None or branch.is_table == (branch.place in tables)
    ]
    return [Fault(_field(e["loc"]), _text(e, known, what)) for e in found]


class _Branch(NamedTuple):
    """A curve in a document, which is a text or a table, and as which of them pydantic has read it."""

    place: tuple[str | int, ...]
    is_table: bool


def _branch(loc: tuple[str | int, ...]) -> _Branch | None:
    """The curve that a fault is in; null: it is in none."""
    for at, (part, branch) in enumerate(pairwise(loc)):
        if part == "curve" and branch in _BRANCHES:
            return _Branch(loc[: at + 1], branch == "Curve")
    return None


def first_fault(error: ValidationError, known: Known = (), what: str = "answer") -> str:
    """The first fault of a table or an answer, with its field."""
    field, text = faults_of(error.errors(include_url=False), known, what)[0]
    return f"field {field}: {text}" if field else text


def _field(loc: Sequence[str | int]) -> str:
    text = ""
    for part in loc:
        if part in _BRANCHES or part == "[key]":
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _known_at(known: Known, loc: Sequence[str | int]) -> Sequence[str]:
    """The fields beside the one at `loc`; none where that is not known."""
    if not isinstance(known, type):
        return known if len(loc) == 1 else ()
    for part in loc[:-1]:
        if part in known.model_fields:
            inner = next(_models_in(known.model_fields[str(part)].annotation), None)
            if inner is None:
                return ()
            known = inner
    return tuple(known.model_fields)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)


def _text(error: ErrorDetails, known: Known, what: str) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    shown = _shown(given)
    match kind:
        case "extra_forbidden":
            return unknown_field(str(error["loc"][-1]), _known_at(known, error["loc"]))
        case "missing":
            return f"missing; every {what} needs it"
        case "greater_than_equal" | "greater_than":
            limit = context.get("ge", context.get("gt"))
            least = f"more than {_number(limit)}" if kind == "greater_than" else f"{_number(limit)} or more"
            return f"{shown} is too small; give {least}"
        case "less_than_equal" | "less_than":
            return f"{shown} is too large; give at most {_number(context.get('le', context.get('lt')))}"
        case "finite_number":
            return f"{shown} is not a number that can be kept to; give a finite one"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return f"expected a whole number, found {shown}"
        case "float_parsing" | "float_type":
            return f"expected a number, found {shown}"
        case "string_type":
            return f"expected text, found {shown}; write it in quotes"
        case "string_unicode":
            return "is not text in UTF-8; write it in UTF-8"
        case "string_too_long" | "too_long":
            what = "characters" if isinstance(given, str) else "entries"
            return f"is longer than the {context['max_length']:,} {what} that are allowed; make it shorter"
        case "string_too_short" | "too_short":
            return "is empty; give at least one" if kind == "too_short" else "is empty; give it some text"
        case "list_type":
            return f"expected a list, found {shown}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"expected a table of names and values, found {shown}"
        case "literal_error":
            return f"{shown} is not known; give {context['expected']}"
        case "bool_parsing" | "bool_type":
            return f"expected true or false, found {shown}"
        case "json_invalid":
            return "is no JSON"
        case "value_error" | "assertion_error":
            return error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        case _:
            return f"{shown} cannot be used here"


def unknown_field(name: str, known: Sequence[str]) -> str:
    """The message for an unknown field."""
    there = f"; known are {', '.join(known)}" if known else ""
    return f"unknown field {name[:40]!r}{did_you_mean(name, known)}{there}"


def _shown(given: object) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return _number(given)
    text = repr(given) if isinstance(given, str) else str(given)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _number(limit: object) -> str:
    if isinstance(limit, float) and limit.is_integer() and abs(limit) < _EXACT:
        limit = int(limit)
    if isinstance(limit, int):
        return (
            f"{limit:,}" if abs(limit) < _EXACT else f"{limit:.6e}" if abs(limit) < _HUGE else "this number"
        )
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
