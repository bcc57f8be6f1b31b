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
from getpass import getuser
from pathlib import Path

import pytest

from betimes.cli.main import main
from tests.docs.pages import (
    BLOCK,
    blocks,
    commands,
    followed,
    has_live,
    is_live,
    text_of,
    words_of,
)

PATIENCE_S = 300  # for what compiles
SERVICE_PAGES = [page for page in followed() if has_live(page)]
# Programs and scripts that only the reader has.
PROGRAMS = {
    **dict.fromkeys(("fit", "measure", "short", "train"), "#!/bin/sh\n"),
    "merge.sh": "#!/bin/bash\n#SBATCH --time=10\nsleep 1\n",
    **dict.fromkeys(("job.sh", "job.sbatch"), "#!/bin/bash\n#SBATCH --time=10\n"),
    "train.py": "",
    "code/train.py": "",
}
SHELL = re.compile(r"[|<>;&$`]|\*")
STAYS = "What happens then is shown here, too."
pytestmark = pytest.mark.slow


class Reader:
    """Somebody who follows a page in a folder of their own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.state = folder / ".local/state/betimes"
        self.service: subprocess.Popen[str] | None = None
        self.said = ""
        self.is_to_say: list[tuple[str, str]] = []
        self.ran = 0

    def follow(self, page: str) -> None:
        """Every block, in order."""
        for block in blocks(page):
            if block["file"]:
                self.save(block["file"], block["body"])
            if block["why"]:
                continue
            if "betimes.Client()" in block["body"]:
                self.have_service()
                exec(compile(block["body"], page, "exec"), {})
                self.ran += 1
            elif block["kind"] == "console":
                for command, shown in commands(block["body"]):
                    self.run(command, shown)

    def save(self, name: str, text: str) -> None:
        """A file of the reader, which can be executed."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)

    def run(self, command: str, shown: str) -> None:
        """One command."""
        words = words_of(command)
        if words[1:3] == ["betimes", "up"]:  # with a variable
            self.run(f"export {words[0]}", "")
            words = words[1:]
        if words == ["make", "run"]:
            self.start("demo", STAYS)
            self.state = Path(_found(r"Its state is fresh, in (.+)\.", self.said))
            compare(command, shown, self.said)
        elif words[0] == "cat" and not (self.folder / words[1]).exists():
            self.save(words[1], shown)  # the reader has a file like this one
        elif words[0] == "export":
            name, _, value = words[1].partition("=")
            os.environ[name] = os.path.expandvars(value.replace("~", str(self.folder)))
        elif words[:2] == ["betimes", "up"]:
            assert self.leave() == 0
            self.up(*words[2:])
            self.is_to_say.append((command, shown))
        elif is_live(words):
            self.have_service()
            command = command.replace("/backup/", f"{self.folder}/backup/")
            if words[0] != "betimes" or SHELL.search(command.partition(" #")[0]):
                self.shell(command, shown)
            else:
                self.call(command, _here(words_of(command)[1:]), shown)

    def have_service(self) -> None:
        """Start a service for the page, unless one is there."""
        if self.service is None:
            self.up("--usual", "10s")

    def up(self, *options: str) -> None:
        """Start a service."""
        # The folder that the tutorial names is the demonstration's, which is another one each time.
        given = [word for word in options if word != "--service" and "/betimes-demo-" not in word]
        self.start("up", "Betimes listens at", *given, "--service", str(self.state))

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
            pytest.fail(f"betimes {verb} {options} has ended:\n{self.said}")
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

    def shell(self, command: str, shown: str) -> None:
        """A command for the shell, with the address of the service."""
        url = json.loads((self.state / "address").read_text())["url"]
        token = (self.state / "token").read_text().strip()
        env = {**os.environ, "BETIMES_URL": url, "BETIMES_TOKEN": token}
        done = subprocess.run(
            ["bash", "-c", command],
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        refused = re.match(r"betimes: |\w+: error: ", shown) is not None
        assert (done.returncode != 0) == refused, f"{command}\n{done.stdout}{done.stderr}"
        compare(command, shown, done.stderr + done.stdout)
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
        self.service = None
        for command, shown in self.is_to_say:
            compare(command, shown, self.said)
        self.is_to_say = []
        return code


@pytest.fixture
def reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", "true")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # `. .venv/bin/activate`: programs of this Python come first.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    made = Reader(tmp_path, capsys)
    (tmp_path / "backup").mkdir()
    for name, text in PROGRAMS.items():
        made.save(name, text)
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
    assert reader.ran
    assert reader.leave() == 0


def test_a_job_reports_progress_by_one_call(reader: Reader) -> None:
    (block,) = [each for each in blocks("docs/reference/job-environment.md") if each["kind"] == "bash"]
    reader.save("report.sh", f"{block['body'].strip()} --fail\n")
    reader.have_service()
    reader.call("", ["run", "--", "bash", "report.sh"], "")
    assert reader.leave() == 0


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
        # Three dots: lines are left out, or a token of which the page has the beginning.
        if not re.fullmatch(r"\S*\.\.\.|", line.strip()):
            found = any(holds(candidate, loosely(line)) for candidate in rest)
            assert found, f"{command}\nprints no line {line!r} there, but\n{printed}"


def holds(printed: str, shown: str) -> bool:
    """Whether all words of ``shown`` stand in ``printed``, in this order."""
    words = iter(printed.split())
    return all(word in words for word in shown.split())


_CLOCK = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d\d:\d\d(?::\d\d)?"
_LENGTH = r"[\d.,]+ (?:s|min|h|d)\b"
_LOOSE = (
    (rf"\buser:\S+|\bby \w+$|\b(?:ada|{getuser()})\b", "USER"),
    (r"~?/\S+", "PATH"),
    (r"\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b(?: \d{4})?", "T"),
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
    first = json.loads(_asked("nodes", "--json"))[0] if "--cpu" in words else {}
    if first.get("name") != "local":
        return words
    cores = first["cpu"]
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
