"""`--report`: one page with everything in it, whatever the policies and workloads are called."""

from __future__ import annotations

import re
import webbrowser
from html.parser import HTMLParser
from pathlib import Path

import pytest

from betimes.outcome.report import MEANINGS
from betimes.outcome.tables import COLUMNS
from tests.cli.conftest import Call
from tests.cli.test_bad_input import refused


class Page(HTMLParser):
    """Headings, cells, and everything that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.texts: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.tags.add(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._tag in ("h1", "h2"):
            self.headings.append(data.strip())


def page(out: Path) -> Page:
    return Page((out / "report.html").read_text(encoding="utf-8"))


def test_policies_side_by_side_on_one_page_that_needs_no_network(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (
        "compare",
        "demo:jobs=120",
        "--policies",
        "fifo,srsf",
        "--units",
        "16",
        "--predict",
        "--out",
        out,
        "--report",
    )
    assert betimes(*words).code == 0
    found = page(out)
    headings = [text for text in found.headings if text]
    assert headings[0].startswith("2 policies: ")
    assert headings[1:] == [
        *("Figures", "Distributions", "Promises", "Use and queue over time", "Jobs over time")
    ]
    assert found.loads
    assert all(source.startswith("data:image/") for source in found.loads)
    assert "script" not in found.tags
    assert "Job completion time: from a job's submission to its finish. Mean over all jobs." in found.texts
    assert {"fifo", "srsf", "JCT mean (s)"} & set(found.texts) >= {"fifo", "srsf"}
    names = {path.stem for path in (out / "pictures").glob("*.svg")}
    assert {"jobs-fifo", "timeline-srsf", "promises", "jct-cdf"} <= names
    assert {path.stem for path in (out / "pictures").glob("*.png")} == names
    # Letters have one size: each picture is shown at one scale, whatever its width.
    sizes = {
        re.search(r' width="([0-9.]+)pt"', (out / "pictures" / f"{name}.svg").read_text()) for name in names
    }
    widths = {round(float(size[1]) * 80 / 72) for size in sizes if size is not None}
    assert widths == set(
        map(int, re.findall(r'<img [^>]*? width="(\d+)"', (out / "report.html").read_text()))
    )


@pytest.mark.usefixtures("undrawn")
def test_machines_with_a_price_have_their_cost_drawn(betimes: Call, tmp_path: Path) -> None:
    cluster = tmp_path / "own.toml"
    cluster.write_text('[[nodes]]\ntype = "a"\ncount = 2\ncpu = 8\nmemory_gib = 32\nusd_per_h = 1.5\n')
    out = tmp_path / "out"
    words = ("simulate", "sample:rigid", "--policy", "easy", "--cluster", cluster, "--out", out, "--report")
    assert betimes(*words).code == 0
    assert "Cost" in page(out).headings
    assert (out / "pictures" / "cost.svg").is_file()


@pytest.mark.usefixtures("undrawn")
def test_names_are_text_and_never_markup(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "<img src=x onerror=alert(1)>.csv"
    trace.write_text("submit_s,work_s,max_units\n0,10,1\n1,10,1\n")
    words = ("simulate", trace.name, "--policy", "fifo", "--units", "1", "--out", "out", "--report")
    assert betimes(*words).code == 0
    found = page(Path("out"))
    assert any("<img src=x onerror=alert(1)>" in text for text in found.texts)
    assert all(source.startswith("data:image/") for source in found.loads)


@pytest.mark.usefixtures("undrawn")
def test_a_report_shows_the_latest_result_or_is_gone(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("sample:tiny", "--out", out)
    for policy in ("srsf", "fifo"):
        assert betimes("simulate", *words, "--policy", policy, "--report").code == 0
    assert page(out).headings[0].startswith("fifo: ")
    assert (out / "pictures" / "timeline-fifo.svg").exists()
    assert not (out / "pictures" / "timeline-srsf.svg").exists()
    assert betimes("simulate", *words, "--policy", "las").code == 0
    assert not (out / "report.html").exists()
    assert not (out / "pictures").exists()


@pytest.mark.usefixtures("undrawn")
def test_open_shows_the_report_or_says_where_it_is(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    answers = [True, False]

    def browse(url: str) -> bool:
        opened.append(url)
        return answers.pop(0)

    monkeypatch.setattr(webbrowser, "open", browse)
    words = ("simulate", "sample:tiny", "--policy", "fifo", "--out", str(tmp_path / "out"), "--open")
    assert betimes(*words).err == ""
    assert opened == [(tmp_path / "out" / "report.html").as_uri()]
    assert re.search("there is no browser to open .*report.html in; copy it", betimes(*words).err)
    for option in ("--open", "--report"):
        line = refused(betimes, "simulate", "sample:tiny", "--policy", "fifo", option)
        assert f"{option}: the report is one of the files of --out" in line


def test_every_figure_is_explained() -> None:
    assert set(MEANINGS) == {column.key for column in COLUMNS}
