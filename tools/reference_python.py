"""Reference pages of the Python client and the public Python API, from signatures, docstrings, fields and comments."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import itertools
import re
import textwrap
import tokenize
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_overloads

from pydantic import BaseModel

import betimes
from betimes import errors
from betimes.client import Client
from betimes.client.calls import Conditions
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.service.tuning.view import AdviceView, AdvisingView, SearchView, TuningView
from betimes.service.views import models
from betimes.service.views.lists import LISTS
from betimes.testing import InMemoryService
from betimes.workload.columns import CANONICAL
from tools.job_fields import OPTIONS, SPELT, meaning

Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]

WIDTH = 100  # of a signature on one line
GIVEN = (JobSpec, Curve, models.NodeSpec, models.AdviceSpec, models.TuneSpec, models.WhatIfSpec)
"""Models that a caller makes; all others are answers."""
EXTRA = (TuningView, SearchView, AdviceView, AdvisingView, *(each.row for each in LISTS))
"""Answers that are not in `views.models`."""
MEANT = {
    "min_units": "The fewest units that it runs on.",
    "max_units": "The most units that it can use; more than `min_units`: it is resized as it runs.",
}
IN_A_JOB = ("progress", "on_resize")
REGISTRIES = {
    "POLICIES": "The policies for a pool, by name: `betimes.policies.Policy`, with `summary`, `question`, `paper`, "
    "`parameters`.",
    "NODES_POLICIES": "The policies for nodes, by name, likewise.",
}


def client_page(table: Table) -> str:
    """The client: its methods, what they take and give, and the errors."""
    answers = sorted(_answers(), key=lambda model: model.__name__)
    statuses = ", ".join(f"`{status.value}`" for status in models.Status)
    return "\n\n".join(
        (
            "# The Python client",
            "`betimes.Client` for programs that wait for their answers, `betimes.AsyncClient` for those that do not: "
            "the same methods with the same arguments, to `await`, and iterators for `async for`. Instants (`_at`) are "
            "seconds since 1970, durations (`_s`) seconds. [How to use it](../how-to/from-python.md).",
            *_class("betimes.Client", Client),
            "## Which jobs",
            "Keyword arguments of `jobs` and `iterate_jobs`; all that are given hold at once.",
            table(
                ("argument", "type"),
                ((f"`{name}`", f"`{kind}`") for name, kind in _fields_of_dict(Conditions)),
            ),
            "## What a caller gives",
            "What a job may hold is the same on the command line, whose words these are, and in "
            "[job files](job-file.md), which list the limits; here times are plain seconds and memory is GiB.",
            *(part for model in GIVEN for part in _model(model, table)),
            "## What comes back",
            f"All answers are immutable. A job's status is one of {statuses}.",
            *(part for model in answers for part in _model(model, table)),
            *_errors(table),
        )
    )


def api_page(table: Table) -> str:
    """All other public names of the package."""
    names = [
        name for name in betimes.__all__ if name not in ("Client", "AsyncClient", "JobSpec", *REGISTRIES)
    ]
    functions = [
        name for name in names if not inspect.isclass(getattr(betimes, name)) and name not in IN_A_JOB
    ]
    classes = [name for name in names if inspect.isclass(getattr(betimes, name))]
    return "\n\n".join(
        (
            "# Python API",
            "What `import betimes` offers beside [the client](python-client.md). All of it is loaded when it is first "
            "used. Bad input raises an error of [the tree](python-client.md#errors) below "
            "`betimes.errors.BetimesError`.",
            table(
                ("name", "what it is"),
                [
                    *(
                        (f"[`{name}`](#betimes{name.lower()})", _first(getattr(betimes, name)))
                        for name in names
                    ),
                    *((f"`{name}`", text) for name, text in REGISTRIES.items()),
                ],
            ),
            "# Functions",
            *(part for name in functions for part in _function(name)),
            "# Classes",
            *(part for name in classes for part in _class(f"betimes.{name}", getattr(betimes, name), table)),
            "# In a running job",
            *(part for name in IN_A_JOB for part in _function(name)),
            "# In tests",
            "`betimes.testing` has the service in memory. [How to use it](../how-to/test-against-betimes.md).",
            *_class("betimes.testing.InMemoryService", InMemoryService, table),
        )
    )


PAGES: dict[str, Callable[[Table], str]] = {"python-client.md": client_page, "python-api.md": api_page}


# --- functions and classes ------------------------------------------------------------------------------------


def _function(name: str) -> list[str]:
    found = getattr(betimes, name)
    return [f"## betimes.{name}", _code(_signature(f"betimes.{name}", found)), _doc(found)]


def _class(name: str, found: type, table: Table | None = None) -> list[str]:
    """A class: how it is made, its fields where it is a record, its properties and methods."""
    parts = [f"## {name}"]
    if name.endswith("Client") or not dataclasses.is_dataclass(found):
        parts.append(_code(_signature(name, found.__init__)))
    parts.append(_doc(found))
    comments = _comments(found)
    if found in (betimes.Workload, betimes.Job):
        comments |= {
            column.name: column.meaning + (f" ({column.unit})" if column.unit else "") for column in CANONICAL
        }
    if dataclasses.is_dataclass(found) and table is not None:
        rows = (
            (f"`{field.name}`", f"`{_text(field.type)}`", comments.get(field.name, ""))
            for field in dataclasses.fields(found)
            if not field.name.startswith("_")
        )
        parts.append(table(("field", "type", "meaning"), rows))
    members = [(name, member) for name, member in vars(found).items() if not name.startswith("_")]
    properties = [
        (f"`{name}`", _first(_getter(member)))
        for name, member in members
        if _getter(member) is not None and _getter(member).__doc__
    ]
    if properties and table is not None:
        parts.append(table(("property", "meaning"), properties))
    for each, member in members:
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if inspect.isfunction(function):
            shown = f"{found.__name__}.{each}" if function is not member else each
            overloads = get_overloads(function) or [function]
            parts += [
                f"### {found.__name__}.{each}",
                _code(*(_signature(shown, one) for one in overloads)),
                _doc(function),
            ]
    return parts


def _getter(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "func", None)  # a cached property


def _signature(name: str, function: Any) -> str:
    """`name(argument: type = default, ...) -> type`, over several lines where it is long."""
    signature = inspect.signature(function)
    parameters = [
        one for at, one in enumerate(signature.parameters.values()) if at or one.name not in ("self", "cls")
    ]
    gives = signature.return_annotation
    end = (
        ""
        if gives in (inspect.Signature.empty, "None", "Self") or name[0].isupper()
        else f" -> {_text(gives)}"
    )
    arguments = list(_arguments(parameters))
    text = f"{name}({', '.join(arguments)}){end}"
    if len(text) <= WIDTH:
        return text
    inner = ",\n".join(textwrap.indent(one, "    ") for one in arguments)
    return f"{name}(\n{inner},\n){end}"


def _arguments(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    marked, last = False, None
    for one in parameters:
        if last is inspect.Parameter.POSITIONAL_ONLY and one.kind is not last:
            yield "/"
        if one.kind is inspect.Parameter.VAR_POSITIONAL:
            marked = True
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not marked:
            marked = True
            yield "*"
        last = one.kind
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = f": {_text(one.annotation)}" if one.annotation is not inspect.Parameter.empty else ""
        default = f" = {_default(one.default)}" if one.default is not inspect.Parameter.empty else ""
        yield f"{stars}{one.name}{kind}{default}"
    if last is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


# --- models ---------------------------------------------------------------------------------------------------


def _answers() -> set[type[models.View]]:
    """Every model that the client gives, and those within them."""
    wanted = [
        each
        for each in (*vars(models).values(), *EXTRA)
        if inspect.isclass(each) and issubclass(each, models.View)
    ]
    wanted = [each for each in wanted if each is not models.View and "[" not in each.__name__]
    gives = " ".join(
        str(inspect.signature(one).return_annotation)
        for one in vars(Client).values()
        if inspect.isfunction(one)
    )
    found: set[type[models.View]] = {each for each in wanted if re.search(rf"\b{each.__name__}\b", gives)}
    while True:
        within = " ".join(_text(field.annotation) for each in found for field in each.model_fields.values())
        more = {each for each in wanted if re.search(rf"\b{each.__name__}\b", within)} - found
        if not more:
            return found
        found |= more


def _model(model: type[BaseModel], table: Table) -> list[str]:
    comments = _comments(model)
    if model is JobSpec:
        comments |= {
            name: meaning(spelt) for name in model.model_fields if (spelt := SPELT.get(name, name)) in OPTIONS
        } | MEANT
    rows = [
        (
            f"`{name}`",
            f"`{_text(field.annotation)}`",
            "must be given"
            if field.is_required()
            else f"`{_default(field.get_default(call_default_factory=True))}`",
            comments.get(name) or field.description or "",
        )
        for name, field in model.model_fields.items()
    ]
    if all(default == "must be given" for _, _, default, _ in rows):
        rows = [(name, kind, meaning) for name, kind, _, meaning in rows]
        return [f"### {model.__name__}", _doc(model), table(("field", "type", "meaning"), rows)]
    return [f"### {model.__name__}", _doc(model), table(("field", "type", "default", "meaning"), rows)]


def _comments(found: type) -> dict[str, str]:
    """The comment beside each field of a class, or the text below it, from its source."""
    source = textwrap.dedent(inspect.getsource(found))
    comments: dict[int, str] = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type", "# noqa", "# pyright"))
    }
    (body,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    meanings: dict[str, str] = {}
    for node, below in itertools.pairwise([*body.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            beside = [
                comments[line] for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in comments
            ]
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                beside.append(" ".join(str(below.value.value).split()))
            meanings[node.target.id] = " ".join(beside)
    return meanings


def _fields_of_dict(found: Any) -> Iterator[tuple[str, str]]:
    for name, kind in found.__annotations__.items():
        yield name, _text(kind.__forward_arg__ if isinstance(kind, typing.ForwardRef) else kind)


# --- errors ---------------------------------------------------------------------------------------------------


def _errors(table: Table) -> list[str]:
    tree = (errors.__doc__ or "").partition("::")[2].rpartition("A message names")[0]
    found = [
        each
        for each in vars(errors).values()
        if inspect.isclass(each) and issubclass(each, errors.BetimesError)
    ]
    attributes: dict[type, str] = {
        errors.TraceError: "`path`, `line`, `field`",
        errors.CurveError: "`path`, `line`, `field`",
        errors.JobFileError: "`path`, `line`, `field`",
        errors.FieldError: "`field`",
        errors.Refused: "`field`",
        errors.Unknown: "`field`",
        errors.StoreArchived: "`upto`",
    }
    rows = (
        (f"`{each.__name__}`", f"`{each.__bases__[0].__name__}`", attributes.get(each, ""), _first(each))
        for each in found
    )
    return [
        "## Errors",
        "They are in `betimes.errors`. A message names the object, its state and the next step, on one line. The "
        "client raises what the service refused a request with, bad input of any kind as `Refused`; `wait` raises "
        "Python's own `TimeoutError`.",
        _code(textwrap.dedent(tree).strip("\n"), kind="text"),
        table(("error", "a kind of", "attributes", "when"), rows),
    ]


# --- text -----------------------------------------------------------------------------------------------------


def _code(*lines: str, kind: str = "python") -> str:
    return f"```{kind}\n" + "\n".join(lines) + "\n```"


def _doc(found: Any) -> str:
    text = inspect.getdoc(found)
    assert text, f"{found} has no docstring"
    return text


def _first(found: Any) -> str:
    return " ".join(_doc(found).partition("\n\n")[0].split())


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return repr(value.value)
    return repr(value) if not callable(value) else getattr(value, "__name__", "...")


def _text(kind: Any) -> str:
    """A type as it would be written, without the folders of its name and without checks."""
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, str):
        return kind
    origin = get_origin(kind)
    if origin is Annotated:
        return _text(get_args(kind)[0])
    if origin is Literal:
        return " | ".join(repr(value) for value in get_args(kind))
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(_text(each) for each in get_args(kind)))
    if origin is not None:
        return f"{origin.__name__}[{', '.join('...' if each is Ellipsis else _text(each) for each in get_args(kind))}]"
    return getattr(kind, "__name__", str(kind))
