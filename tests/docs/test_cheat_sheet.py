"""Each command of the cheat sheet is one that the command line understands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from betimes.cli.app import command
from betimes.cli.verbs import with_verb
from tests.docs.pages import BLOCK, text_of

(BODY,) = (block["body"] for block in BLOCK.finditer(text_of("docs/cheat-sheet.md")))
LINES = [line for line in BODY.splitlines() if line.startswith("betimes ")]


@pytest.mark.parametrize("line", LINES)
def test_a_line_can_be_typed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.sbatch").write_text("#!/bin/sh\n")
    _, *words = shlex.split(line, comments=True)
    words = with_verb(words)
    verb: Any = command()
    while hasattr(verb, "commands") and words and words[0] in verb.commands:
        verb, words = verb.commands[words[0]], words[1:]
    verb.make_context(line, words)


def test_it_fits_a_screen() -> None:
    assert len(LINES) > 30
    assert len(BODY.splitlines()) <= 50
