"""Answers of the service as JSON on standard output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


def print_json(answer: BaseModel | Sequence[Any] | Mapping[str, Any], *, on_one_line: bool = False) -> None:
    """Print an answer as one JSON value; NaN and infinities become null."""
    print(
        json.dumps(_plain(answer), indent=None if on_one_line else 2, ensure_ascii=False, allow_nan=False),
        flush=on_one_line,
    )


def _plain(value: Any) -> Any:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return json.loads(value.model_dump_json())
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
