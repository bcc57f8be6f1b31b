"""Every command and every Python block of the pages runs, in order, and prints what the page says.

A page's blocks share one folder. In a block of the shell, lines after a command are what it prints, trimmed: each
must be printed, in this order (`...` stands for lines left out). Output that begins with
`betimes:` is an error, with exit code 2.
"""

from __future__ import annotations

import re
import runpy
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.cli.main import main
from tests.docs.pages import (
    BLOCK,
    assert_printed,
    commands,
    followed,
    is_live,
    runs_here,
    small_log,
    text_of,
    words_of,
)

SLOW = ("docs/how-to/compare-policies.md", "docs/how-to/owned-and-rented.md")
SLOW += ("docs/how-to/rent-machines.md", "docs/how-to/the-five-together.md", "docs/how-to/tune.md")
PAGES = [
    pytest.param(page, marks=pytest.mark.slow) if page in SLOW else page
    for page in followed()
    if runs_here(page)
]
# Files that only the reader has; what stands below a command on one of them is not compared.
LOGS = ("KTH-SP2-1996-2.swf.gz", "my-trace.swf.gz", "TRACE", "LATER")
PODS, NODES = "openb_pod_list_default.csv.gz", "openb_node_list_all_node.csv.gz"
ABSENT = (*LOGS, PODS, NODES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, with stand-ins for the reader's files; 100 columns wide, as the pages are."""
    for name in LOGS:
        (tmp_path / name).write_text(small_log(300 if name in ("TRACE", "LATER") else 60), encoding="utf-8")
    (tmp_path / PODS).write_text(_pods(), encoding="utf-8")
    (tmp_path / NODES).write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n", encoding="utf-8"
    )
    (tmp_path / "mine.py").write_text(_saved("docs/how-to/own-policy.md", "mine.py"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_and_prints_what_it_says(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, ran = "", 0
    for number, block in enumerate(BLOCK.finditer(text_of(page))):
        kind, body = block["kind"], block["body"]
        if block["file"]:
            (folder / block["file"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / block["file"]).write_text(body, encoding="utf-8")
        if block["why"]:
            continue
        if kind == "console":
            for command, shown in commands(body):
                ran += _run(command, shown, capsys)
        elif kind == "python" and "betimes.Client()" not in body:
            file = folder / (block["file"] or f"block_{number}.py")
            # A command runs it, or reads it.
            if re.search(rf"^\$ .*\b{re.escape(file.name)}", text_of(page), re.M):
                continue
            file.write_text(body, encoding="utf-8")
            capsys.readouterr()
            runpy.run_path(str(file))
            printed = capsys.readouterr().out
            ran += 1
        elif kind == "text":
            assert_printed("the block of Python above", body, printed)
    assert ran


def test_a_line_that_is_not_printed_is_noticed() -> None:
    assert_printed("", "one\n...\nthree\n", "one\ntwo\nthree \n")
    with pytest.raises(AssertionError, match="prints no line 'four'"):
        assert_printed("", "one\nfour\n", "one\nthree\n")
    with pytest.raises(AssertionError, match="prints no line 'one'"):
        assert_printed("", "three\none\n", "one\nthree\n")


def _run(command: str, shown: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Run a command of Betimes, and say whether it was one."""
    words = words_of(command)
    if words == ["make", "compare"]:
        words = [
            "betimes",
            "compare",
            "demo",
            "--policies",
            _policies_of_makeassert_printed(),
            "--units",
            "64",
            "--predict",
        ]
    if words[0] != "betimes" or is_live(words):  # test_service_pages has a service, and a shell, for these
        return False
    capsys.readouterr()
    code = main(words[1:])
    said = capsys.readouterr()
    refused = shown.startswith("betimes: ")
    assert code == (2 if refused else 0), f"{command}\n{said.err}"
    if not set(words) & set(ABSENT):
        assert_printed(command, shown, said.err if refused else said.out)
    return True


def _policies_of_makeassert_printed() -> str:
    found = re.search(r"^else\nPOLICIES \?= (\S+)$", text_of("Makefile"), re.M)
    assert found
    return found[1]


def _saved(page: str, name: str) -> str:
    """The block that a page asks to save under this name."""
    return next(block["body"] for block in BLOCK.finditer(text_of(page)) if block["file"] == name)


def _pods() -> str:
    """A small list of pods as Alibaba's openb has them."""
    lines = [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    ]
    for pod in range(60):
        qos, begun = ("LS", "BE", "Burstable")[pod % 3], 50 * pod
        gone = begun + 100 + 900 * (pod % 4)
        lines.append(
            f"pod-{pod},{8000 * (1 + pod % 3)},16384,{1 + pod % 2},1000,,{qos},Succeeded,{begun},{gone},{begun}"
        )
    return "\n".join(lines) + "\n"
