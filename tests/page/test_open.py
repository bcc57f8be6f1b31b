"""`betimes open`: a link to the pages of a real service, which signs in once."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import httpx
import pytest

from betimes.cli.main import main
from tools.page_pictures import service


@pytest.mark.slow
def test_open_signs_in_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    state = ["--service", str(tmp_path / "state")]
    with service(tmp_path / "state") as ready, httpx.Client() as browser:
        assert main(["open", *state]) == 0
        assert capsys.readouterr().out == ""
        assert main(["open", "--no-browser", *state]) == 0
        url = capsys.readouterr().out.strip()
        assert main(["open", "--json", *state]) == 0
        assert json.loads(capsys.readouterr().out)["url"].startswith(ready["url"])
        assert len(opened) == 1
        assert url.startswith(f"{ready['url']}/enter?code=")
        assert browser.get(ready["url"]).status_code == 401
        assert "You are signed in" in browser.get(url).text
        assert "<h1>Now</h1>" in browser.get(ready["url"]).text
        assert "was used already" in browser.get(url).text
    assert main(["open", *state]) == 1
    assert "no service runs" in capsys.readouterr().err
