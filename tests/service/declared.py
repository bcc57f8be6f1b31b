"""Whether an event has the fields that its kind declares, with their types."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from betimes.service.scheduling.fold import KINDS


@functools.cache
def _model(kind: str) -> type[BaseModel]:
    declared = KINDS[kind]
    needed: dict[str, Any] = {name: (each, ...) for name, each in declared.data.items()}
    more: dict[str, Any] = {name: (each, None) for name, each in declared.more.items()}
    return create_model(kind, __config__=ConfigDict(extra="forbid", strict=True), **needed, **more)


def undeclared(kind: str, data: Mapping[str, Any]) -> str | None:
    """The first fault of an event's data, as JSON; null: there is none."""
    try:
        _model(kind).model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        return f"{kind}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return None
