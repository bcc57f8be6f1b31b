"""Lines of the pages are short enough for an editor; `make format` wraps them."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT, text_of
from tools.wrap_markdown import wrapped

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers").rglob("*.md"))
)


@pytest.mark.parametrize("page", PAGES)
def test_paragraphs_are_wrapped(page: str) -> None:
    text = text_of(page)
    assert text == wrapped(text), "make format"


def test_what_a_line_break_would_change_stays() -> None:
    word = "word " * 30
    code = f"`{'x ' * 70}`"
    for kept in (f"| {word}|", f"# {word}", f"```\n{word}\n```", f"    {word}", code):
        assert wrapped(kept) == kept
    assert wrapped(f"before {code} behind") == f"before\n{code}\nbehind"
    assert wrapped(f"1. {word}- {word}").split("\n")[1].startswith("   word")
    assert not any(line.lstrip().startswith("- ") for line in wrapped(f"{word}- {word}").split("\n"))
    assert " ".join(wrapped(f"{word}\n{word}").split()) == " ".join((word * 2).split())
