"""YAML as a `Document`, built from the parser's events: no tags, no aliases, no name twice, not too deep.

Unquoted words follow YAML 1.2's core schema: `no` and `12:30` are text, `true` is true, `1e3` a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from betimes.service.spec.document import MOST_DEPTH, Document, Malformed, Where

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, ten times as fast
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUTH = re.compile(r"(?P<true>true|True|TRUE)|false|False|FALSE")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_REAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"(?P<sign>[-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def parse(text: str) -> Document:
    """The document in a YAML text; raises Malformed with the line."""
    lines: dict[Where, int] = {}
    try:
        events = yaml.parse(text, Loader=_PARSER)
        found = _document(events, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it cannot be parsed"
        raise Malformed(f"not YAML: {problem}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise Malformed(f"not YAML: {' '.join(str(error).split())[:120]}") from None
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise Malformed("expected a table of fields, or `jobs:` with a list of jobs", lines.get(()))
    return Document(found, lines.get)


def _document(events: Iterator[Event], lines: dict[Where, int]) -> Any:
    found, documents = None, 0
    for event in events:
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise Malformed("a second document (---); put all jobs under `jobs:`", _line(event))
        elif isinstance(event, ScalarEvent | CollectionStartEvent | AliasEvent):
            found = _value(event, events, (), lines)
    return found


def _value(event: Event, events: Iterator[Event], where: Where, lines: dict[Where, int]) -> Any:
    line = _line(event)
    lines[where] = line
    if isinstance(event, AliasEvent):
        raise Malformed(
            f"aliases (*{event.anchor}) are not read; put what jobs share under `defaults:`", line
        )
    if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None:
        raise Malformed(f"tags ({event.tag[:40]}) are not read; leave it out", line)
    if len(where) > MOST_DEPTH:
        raise Malformed(f"nested more than {MOST_DEPTH} deep, which no job is", line)
    if isinstance(event, ScalarEvent):
        return event.value if event.style else _plain(event.value)
    if isinstance(event, MappingStartEvent):
        return _mapping(events, where, lines)
    items: list[Any] = []
    for item in events:
        if isinstance(item, SequenceEndEvent):
            break
        items.append(_value(item, events, (*where, len(items)), lines))
    return items


def _mapping(events: Iterator[Event], where: Where, lines: dict[Where, int]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key in events:
        if isinstance(key, MappingEndEvent):
            break
        if not isinstance(key, ScalarEvent) or key.tag is not None:
            raise Malformed("a field's name must be a word", _line(key))
        if key.value in table:
            raise Malformed(f"field {key.value[:40]!r} stands here twice; leave one out", _line(key))
        if key.value == "<<" and not key.style:
            raise Malformed("merges (<<) are not read; put what jobs share under `defaults:`", _line(key))
        table[key.value] = _value(next(events), events, (*where, key.value), lines)
        lines[*where, key.value] = _line(key)
    return table


def _plain(text: str) -> Any:
    """An unquoted word."""
    if _NULL.fullmatch(text):
        return None
    if truth := _TRUTH.fullmatch(text):
        return truth["true"] is not None
    if _WHOLE.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    if special := _SPECIAL.fullmatch(text):
        return float("nan") if special["sign"] is None else float(f"{special['sign']}inf")
    return text


def _line(event: Event) -> int:
    return event.start_mark.line + 1
