"""Wrap the paragraphs of Markdown that have lines of more than 120 characters: `python -m tools.wrap_markdown FILES`.

Tables, headings, code and whatever else a line break would change stay as they are.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
_FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_BEGIN = re.compile(rf"(?:{_ITEM.pattern})|\s*")
_OTHER = re.compile(r"\s*([|#<>]|!\[|\[\^?[^]]+\]:|\$\$)|\s{4,}\S|---")
_CODE = re.compile(r"(`+)[^`].*?\1|\$[^$\s][^$]*\$", re.DOTALL)
_BEGINS_A_BLOCK = re.compile(r" (?=(?:[-+*#>|=]|\d+[.)]|:{3})(?:\s|$))")
_KEPT = "\0"  # a space at which no line ends


def wrapped(text: str) -> str:
    """The Markdown with lines of at most `WIDTH` characters, where they can be so short."""
    found: list[str] = []
    paragraph: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        is_other = _OTHER.match(line) and not _continues(paragraph, line)
        is_text = bool(line.strip()) and not (fence or mark or is_other)
        if not is_text or _ITEM.match(line):
            found += _wrapped(paragraph)
            paragraph = []
        (paragraph if is_text else found).append(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
    return "\n".join([*found, *_wrapped(paragraph)])


def _continues(paragraph: list[str], line: str) -> bool:
    """Whether a line belongs to the list item before it, though it is indented as code would be."""
    indent = " " * len(_begin(paragraph[0])) if paragraph else ""
    return bool(indent) and line.startswith(indent) and not _OTHER.match(line.removeprefix(indent))


def _begin(line: str) -> str:
    """The mark of a list item, or the indentation, with which a line begins."""
    found = _BEGIN.match(line)
    return found[0] if found else ""


def _wrapped(lines: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in lines) or any(line.endswith(("  ", "\\")) for line in lines):
        return lines  # or with line breaks of its own
    first = _begin(lines[0])
    text = " ".join([lines[0][len(first) :], *(line.strip() for line in lines[1:])])
    text = _CODE.sub(lambda span: span[0].replace(" ", _KEPT), text)
    text = _BEGINS_A_BLOCK.sub(_KEPT, text)
    made = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT, " ") for line in made]


def main(names: list[str]) -> None:
    """Wrap files in place."""
    for path in map(Path, names):
        text = path.read_text(encoding="utf-8")
        if (new := wrapped(text)) != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
