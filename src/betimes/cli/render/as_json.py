"""Answers of the service as JSON on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel


def print_json(answer: BaseModel | Sequence[Any] | Mapping[str, Any], *, on_one_line: bool = False) -> None:
    """Print an answer as one JSON value; control characters and what the encoding lacks are escaped as JSON."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(
        answer,
        indent=None if on_one_line else 2,
        ensure_ascii=not is_unicode,
        allow_nan=False,
        default=_of_model,
    )
    if not text.replace("\n", "").isprintable():  # json escapes those of ASCII only
        text = "".join(
            each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text
        )
    print(text, flush=on_one_line)


def _of_model(value: BaseModel) -> Any:
    """A model as a plain object, with null for NaN and infinities."""
    return json.loads(value.model_dump_json())
