"""The advice that the how-to shows, on the log that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.cli.main import main
from tests.data.conftest import found
from tests.docs.pages import BLOCK, assert_printed, commands, text_of

TRACE = "KTH-SP2-1996-2.swf.gz"


@pytest.mark.slow
def test_the_advice_of_the_how_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / TRACE).symlink_to(found(f"swf/{TRACE}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    blocks = [block["body"] for block in BLOCK.finditer(text_of("docs/how-to/which-policy.md"))]
    ((command, shown),) = commands(blocks[0])
    assert main([*command.split()[1:], "--budget", "30m"]) == 0
    assert_printed(command, shown, capsys.readouterr().out)
