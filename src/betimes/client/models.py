"""Requests and answers as models of the service, validated on both ways."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from betimes.errors import Refused, ServiceError
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.spec_errors import faults, first_fault
from betimes.service.views import models
from betimes.service.views.lists import LISTS
from betimes.service.views.models import AdviceSpec, NodeSpec, Page, TuneSpec, WhatIfSpec

M = TypeVar("M", bound=BaseModel)
_LISTED = {each.row.__name__: each.row for each in LISTS}


def spec_of(spec: JobSpec | None, fields: Mapping[str, Any]) -> JobSpec:
    """A job from a specification or from keyword arguments; its working directory is this one. Raises Refused."""
    spec = _given(JobSpec, spec, fields)
    in_copy = spec.upload is not None
    return (
        spec if spec.workdir is not None or in_copy else spec.model_copy(update={"workdir": str(Path.cwd())})
    )


def job_body(spec: JobSpec | None, fields: Mapping[str, Any]) -> bytes:
    """A job as it is sent. Raises Refused."""
    return _dump(spec_of(spec, fields))


def tune_body(spec: TuneSpec | None, fields: Mapping[str, Any]) -> bytes:
    """A search as it is sent, from a specification or from keyword arguments. Raises Refused."""
    return _body_of(TuneSpec, spec, fields)


def advice_body(spec: AdviceSpec | None, fields: Mapping[str, Any]) -> bytes:
    """A question for advice as it is sent, from a specification or from keyword arguments. Raises Refused."""
    return _body_of(AdviceSpec, spec, fields)


def _body_of(kind: type[BaseModel], given: BaseModel | None, fields: Mapping[str, Any]) -> bytes:
    return _dump(_given(kind, given, fields))


def _given(kind: type[M], given: M | None, fields: Mapping[str, Any]) -> M:
    if given is not None and fields:
        raise Refused(f"give either a {kind.__name__} or keyword arguments", next(iter(fields)))
    if given is not None and not isinstance(given, kind):
        found = type(given).__name__
        raise Refused(f"give a {kind.__name__}, or its fields as keyword arguments, instead of a {found}")
    try:
        return given if given is not None else kind(**fields)
    except ValidationError as error:
        first, *others = faults(error)
        more = f" (and {len(others)} more)" if others else ""
        raise Refused(first.text + more, first.field or None) from None


def what_if_body(asked: WhatIfSpec | None, fields: Mapping[str, Any]) -> bytes:
    """Changes to try as they are sent, from a specification or from keyword arguments. Raises Refused."""
    return _body_of(WhatIfSpec, asked, fields)


def nodes_body(spec: NodeSpec) -> bytes:
    """Nodes to add as they are sent."""
    return _dump(spec)


def decode(answer: str, within: str, content: bytes, url: str) -> Any:
    """The model, or models, of a body; `answer` as in `Call`. Raises ServiceError."""
    try:
        # A later version of the service may send more fields than this one knows.
        found = _adapter(answer, within).validate_json(content, extra="ignore")
    except ValidationError as error:
        raise ServiceError(
            f"{url} answered what this version does not understand ({first_fault(error)})"
        ) from None
    return found[within] if within else found


@cache
def _adapter(answer: str, within: str) -> TypeAdapter[Any]:
    if answer == "TuningView":  # a front's model needs most of Betimes, which no other answer does
        from betimes.service.tuning.view import TuningView

        return TypeAdapter(TuningView)
    if answer == "AdviceView":  # likewise
        from betimes.service.tuning.view import AdviceView

        return TypeAdapter(AdviceView)
    name = answer.removeprefix("Page of ")
    kind: Any = _LISTED.get(name) or getattr(models, name)
    if within:
        return TypeAdapter(dict[str, list[kind]])  # pyright: ignore[reportInvalidTypeForm] (a model, by its name)
    whole = Page[kind] if name != answer else kind  # pyright: ignore[reportInvalidTypeForm] (likewise)
    return TypeAdapter(whole)


def _dump(model: BaseModel) -> bytes:
    """A model as it is sent: fields that are not the default."""
    return model.model_dump_json(exclude_defaults=True).encode()
