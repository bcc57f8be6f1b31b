"""The pages about the live service, followed to the letter on a real one.

`make run` is the real demonstration, in a process of its own; the other commands are for its service, or for one that
is started for the page. What is printed is compared with instants, durations, numbers and widths of columns left out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.cli.main import main
from tests.docs.pages import BLOCK, commands, is_live, text_of

PATIENCE_S = 300  # for what compiles
SERVICE_PAGES = (
    "README.md",
    "docs/tutorial-service.md",
    "docs/how-to/run-the-service.md",
    "docs/how-to/serve-users.md",
    "docs/how-to/observe-the-service.md",
    "docs/how-to/keep-the-service.md",
    "docs/how-to/from-python.md",
    "docs/how-to/tune-live.md",
    "docs/how-to/trials.md",
    "docs/how-to/common-errors.md",
)
STAYS = "What happens then is shown here, too."
pytestmark = pytest.mark.slow


class Reader:
    """Somebody who follows a page in a folder of their own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.state = folder / "state"
        self.service: subprocess.Popen[str] | None = None
        self.said = ""
        self.ran = 0

    def follow(self, page: str) -> None:
        """Every block, in order."""
        for block in BLOCK.finditer(text_of(page)):
            if block["file"]:
                (self.folder / block["file"]).write_text(block["body"], encoding="utf-8")
            elif "betimes.Client()" in block["body"]:
                self.have_service()
                exec(compile(block["body"], page, "exec"), {})
                self.ran += 1
            elif block["kind"] == "console":
                for command, shown in commands(block["body"]):
                    self.run(command, shown)

    def run(self, command: str, shown: str) -> None:
        """One command."""
        words = shlex.split(command, comments=True)
        if words == ["make", "run"]:
            self.start("demo", STAYS)
            self.state = Path(_found(r"Its state is fresh, in (.+)\.", self.said))
            compare(command, shown, self.said)
        elif words[0] == "sleep":
            time.sleep(float(words[1]))
        elif is_live(words) and words[1] != "up":
            self.have_service()
            self.call(command, _here(words[1:]), shown)

    def have_service(self) -> None:
        """Start a service for the page, unless one is there."""
        if self.service is None:
            self.start("up", "Betimes listens at", "--service", str(self.state), "--usual", "10s")

    def start(self, verb: str, until: str, *options: str) -> None:
        """Start a service, and wait until it says so."""
        self.service = subprocess.Popen(
            [sys.executable, "-m", "betimes", verb, *options],
            stdout=subprocess.PIPE,
            cwd=self.folder,
            text=True,
        )
        assert self.service.stdout is not None
        for line in self.service.stdout:
            self.said += line
            if until in line:
                break
        else:
            pytest.fail(f"betimes {verb} has ended:\n{self.said}")
        if verb == "up":
            os.environ["BETIMES_STATE"] = str(self.state)

    def call(self, command: str, words: list[str], shown: str) -> None:
        """A verb, in this process."""
        os.environ["BETIMES_STATE"] = str(self.state)
        self.capsys.readouterr()
        code = main(words)
        said = self.capsys.readouterr()
        refused = shown.startswith("betimes: ")
        assert code == (2 if refused else 0), f"{command}\n{said.err}"
        compare(command, shown, said.err if refused else said.out)
        self.ran += 1

    def leave(self) -> int:
        """Ctrl-C; the exit code."""
        if self.service is None:
            return 0
        self.service.send_signal(signal.SIGINT)
        try:
            code = self.service.wait(PATIENCE_S)
        finally:
            self.service.kill()
        assert self.service.stdout is not None
        with self.service.stdout as told:
            self.said += told.read()
        return code


@pytest.fixture
def reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "nowhere"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # `. .venv/bin/activate`: programs of this Python come first.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    made = Reader(tmp_path, capsys)
    try:
        yield made
    finally:
        if made.service is not None and made.service.poll() is None:
            made.leave()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_tutorial(reader: Reader) -> None:
    reader.follow("docs/tutorial-service.md")
    assert reader.ran > 10
    assert reader.leave() == 0
    assert "started, run 2" in reader.said  # what happened to the reader's own jobs was told there, too


def test_the_tutorial_about_renting(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are other than two cores, two more jobs than cores are submitted."""
    monkeypatch.setenv("COLUMNS", "120")
    lost = 3

    def wait_for(status: str, *jobs: int) -> None:
        for _ in range(PATIENCE_S):
            found = {each["job_id"]: each["status"] for each in json.loads(_asked("jobs", "--json"))}
            if all(found.get(job) == status for job in jobs):
                return
            time.sleep(1)
        pytest.fail(f"jobs {jobs} are not {status}")

    for block in BLOCK.finditer(text_of("docs/tutorial-renting.md")):
        for command, shown in commands(block["body"]):
            words = shlex.split(command, comments=True)
            if words[:2] == ["betimes", "up"]:
                reader.start("up", "Betimes listens at", "--service", str(reader.state), *words[2:])
            elif words[0] == "for":
                lost = round(json.loads(_asked("nodes", "--json"))[0]["cpu"]) + 1
                submit = [word.removesuffix(";") for word in words[words.index("submit") : -1]]
                for _ in range(lost + 1):
                    reader.call(command, submit, "")
                wait_for("running", *range(1, lost + 2))
            elif words[0] == "kill":
                (lease,) = reader.state.rglob("small-0.lease")
                os.kill(int(lease.read_text().splitlines()[1].split()[0]), signal.SIGKILL)
                wait_for("queued", lost)
            elif words[0] == "betimes":
                reader.call(command, [f"{lost}" if word == "3" else word for word in words[1:]], shown)
    assert reader.leave() == 0
    assert not [*reader.state.rglob("*.lease")], "no machine is left"


@pytest.mark.parametrize("page", [page for page in SERVICE_PAGES if "tutorial" not in page])
def test_a_page(reader: Reader, page: str) -> None:
    reader.follow(page)
    assert reader.leave() == 0


def test_options_of_commands_that_only_readers_can_run_exist() -> None:
    for page in SERVICE_PAGES:
        for block in BLOCK.finditer(text_of(page)):
            for command, _ in commands(block["body"]) if block["kind"] == "console" else []:
                words = shlex.split(command, comments=True)
                if words[:2] != ["betimes", "up"]:
                    continue
                offered = subprocess.run(
                    [sys.executable, "-m", "betimes", "up", "--help-all"],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                assert all(word in offered for word in words if word.startswith("--")), command


def test_what_differs_from_run_to_run_is_left_out() -> None:
    compare("", "  done  14:05, in 12 min\n", "  done   Tue 16:05:10, in 3 s  \n")
    compare("", "Job 1: 2 s earlier than promised\n", "Job 9: as promised\n")
    compare("", " Job  Cost\n", " Job  Cost  Policy\n")
    with pytest.raises(AssertionError, match="prints no line"):
        compare("", "Job 1, a: finished\n", "Job 1, a: failed\n")
    with pytest.raises(AssertionError, match="prints no line"):
        compare("", " Job  Cost\n", " Cost  Job\n")


def compare(command: str, shown: str, printed: str) -> None:
    """Every line of the page must be printed, in this order; a table may have room for a column more."""
    rest = iter([loosely(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line.strip() and line.strip() != "...":
            found = any(holds(candidate, loosely(line)) for candidate in rest)
            assert found, f"{command}\nprints no line {line!r} there, but\n{printed}"


def holds(printed: str, shown: str) -> bool:
    """Whether all words of ``shown`` stand in ``printed``, in this order."""
    words = iter(printed.split())
    return all(word in words for word in shown.split())


_CLOCK = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d\d:\d\d(?::\d\d)?"
_LENGTH = r"[\d.,]+ (?:s|min|h|d)\b"
_LOOSE = (
    (r"/\S+", "PATH"),
    (r"\buser:\S+|\bby \w+$", "USER"),
    (rf"{_CLOCK}", "T"),
    (rf"\bin {_LENGTH}|{_LENGTH} ago", "T"),
    (r"T, (?:T|now)|\bnow\b", "T"),
    (rf"{_LENGTH} (?:earlier|later) than promised|as promised", "HELD"),
    (rf"{_LENGTH}", "D"),
    (r"\d[\d.,]*%?", "N"),
    (r"(running|queued|stopping) N", r"\1"),
    (r"\b(core|unit|GPU)s\b", r"\1"),
    (r"\b(Ki|Mi|Gi)B\b", "B"),
    (r"─+", "─"),
    (r"\s+", " "),
    (r" N (?=\w+$)|(?<=: )N N", " N "),
)


def loosely(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, instead in _LOOSE:
        line = re.sub(pattern, instead, line)
    return line.strip()


def _here(words: list[str]) -> list[str]:
    """A job that is to fill the machine of the page fills this one, too."""
    cores = json.loads(_asked("nodes", "--json"))[0]["cpu"] if "--cpu" in words else 0.0
    return [
        f"{cores:g}" if before == "--cpu" else word for before, word in zip(["", *words], words, strict=False)
    ]


def _asked(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "betimes", *words], capture_output=True, text=True, check=True
    ).stdout


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, f"no {pattern} in\n{text}"
    return found[1]
