"""TOML as a `Document`; its parser gives no lines, so those of fields are looked up in the text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from betimes.service.spec.document import MOST_DEPTH, Document, Malformed, Where

_LINE = re.compile(r"\(at line (?P<line>\d+), column \d+\)")
_MOST_DOTS = 1000  # in a name: the parser takes time as the square of their number
# Comments and text in quotes. Quotes that are never closed reach to the end, so that each character is looked at once.
_QUOTED = (
    r'''"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+(?:"{3,5}|\\?\Z)|\'\'\'(?:[^']++|'(?!''))*+(?:'{3,5}|\Z)'''
    r"""|"(?:[^"\\\n]++|\\.)*+"?|'[^'\n]*+'?|#[^\n]*+"""
)
_TEXT = re.compile(_QUOTED)
_BETWEEN_NAMES = re.compile(r"[=,\n\[\]{}]")
_TOKEN = re.compile(_QUOTED + r"|[\[\]{}\n]")


def parse(text: str) -> Document:
    """The document in a TOML text; raises Malformed, with the line if the parser gives it."""
    if any(name.count(".") > _MOST_DOTS for name in _BETWEEN_NAMES.split(_TEXT.sub("", text))):
        raise Malformed(f"nested more than {MOST_DEPTH} deep, which no job is")
    try:
        top = tomllib.loads(text)
    except RecursionError:
        raise Malformed(f"nested more than {MOST_DEPTH} deep, which no job is") from None
    except ValueError as error:
        reason = " ".join(str(error).split())[:160]
        place = _LINE.search(reason)
        reason = _LINE.sub("", reason).strip()
        raise Malformed(f"not TOML: {reason}", int(place["line"]) if place else None) from None
    if _depth(top) > MOST_DEPTH:
        raise Malformed(f"nested more than {MOST_DEPTH} deep, which no job is")
    return Document(top, _Lines(text).line)


def _depth(value: object) -> int:
    """The depth to which tables and lists are nested, counted no deeper than matters."""
    level, depth = [value], 0
    while level and depth <= MOST_DEPTH:
        inner: list[object] = []
        for one in level:
            inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        level, depth = inner, depth + 1
    return depth


class _Lines:
    """Lines of fields: found statement by statement, and only on request."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[Where, int] | None = None

    def line(self, where: Where) -> int | None:
        """The line of a value, or of what it is in."""
        if self._found is None:
            self._found = _look_up(self._text)
        while where:
            if where in self._found:
                return self._found[where]
            where = where[:-1]
        return None


def _look_up(text: str) -> dict[Where, int]:
    """The first line of every field and table of a valid text."""
    found: dict[Where, int] = {}
    table: Where = ()
    jobs, first = -1, 1
    for statement in _statements(text):
        holds = tomllib.loads(statement)
        head = statement.lstrip()
        if head.startswith("["):
            is_job = head.startswith("[[") and list(holds) == ["jobs"]
            jobs += is_job and isinstance(holds["jobs"], list)
            words = _ways(holds)[-1]
            table = ("jobs", jobs, *words[1:]) if words[0] == "jobs" else words
            found.setdefault(table, first)
        else:
            for way in _ways(holds):
                found.setdefault((*table, *way), first)
        first += statement.count("\n")
    return found


def _statements(text: str) -> Iterator[str]:
    """The text in pieces, each to the end of the line on which no bracket or quote is open."""
    begin = depth = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if not depth:
                yield text[begin : token.end()]
                begin = token.end()
    yield text[begin:]


def _ways(value: object) -> list[Where]:
    """The ways to everything in nested tables, the outer before the inner."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # of a head with two brackets
    ways: list[Where] = []
    if isinstance(value, dict):
        for name, inner in value.items():
            ways += [(name,), *((name, *way) for way in _ways(inner))]
    return ways
