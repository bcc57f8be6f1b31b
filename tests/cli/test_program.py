"""The program itself: what it imports, how it ends, what a shell completes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import betimes as package
from betimes.cli.app import SECTIONS, command
from betimes.cli.daily_options import DAILY
from betimes.cli.live.jobs.completing import POLICY_NAMES
from betimes.policies import NODES_POLICIES, POLICIES
from tests.cli.conftest import Call, program

HEAVY = (
    *("numpy", "numba", "scipy", "pyarrow", "matplotlib", "rich", "multiprocessing", "asyncio"),
    *("httpx", "yaml", "sqlalchemy", "fastapi"),
)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["simulate", "--help"],
        ["no-such-verb"],
    ],
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys; from betimes.cli.main import main; main(sys.argv[1:]); "
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "typer" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_help_names_every_verb(betimes: Call) -> None:
    said = betimes("--help")
    assert said.code == 0
    offline = ("simulate", "compare", "tune", "policies", "trace")
    live = (
        "submit",
        "quote",
        "jobs",
        "job",
        "logs",
        "wait",
        "cancel",
        "nodes",
        "policy",
        "events",
    )
    for verb in (*offline, *live, "up"):
        assert f"\n  {verb} " in said.out
    assert "..." not in said.out.partition("Start:")[2], "a verb's summary is cut off"
    shown = [verb for daily, rarer in SECTIONS.values() for verb in (*daily, *rarer)]
    assert sorted(shown) == sorted(command().commands)
    for _, rarer in SECTIONS.values():
        assert ", ".join(rarer) in said.out
    assert betimes().out == said.out
    assert "generate" in betimes("trace").out


@pytest.mark.parametrize("verb", DAILY)
def test_help_shows_what_is_used_daily_and_help_all_everything(betimes: Call, verb: str) -> None:
    heading = next(iter(DAILY[verb]))
    daily, everything = (
        betimes(verb, asks).out.partition(f"\n{heading}:\n")[2] for asks in ("--help", "--help-all")
    )
    shown, known = (
        set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", said, re.MULTILINE)) for said in (daily, everything)
    )
    named = {flag for flags in DAILY[verb].values() for flag in flags}
    assert shown - {"--help-all"} == named & known
    more = re.search(r"these, and (\d+) more", daily)
    assert more is not None
    assert int(more[1]) == len(known - named)


def test_options_of_daily_use_exist(betimes: Call) -> None:
    for options in DAILY.values():
        flags = {flag for named in options.values() for flag in named}
        verbs = [verb for verb, other in DAILY.items() if other is options]
        assert flags <= {word.rstrip(",") for verb in verbs for word in betimes(verb, "--help").out.split()}


def test_every_verb_takes_help_all(betimes: Call) -> None:
    for words in (("jobs",), ("nodes", "add"), ("trace", "info"), ("service", "status"), ("tune",)):
        assert betimes(*words, "--help-all").out == betimes(*words, "--help").out
    kept = betimes("run", "--help-all", "--", "echo", "--help-all")
    assert kept.out.startswith("Usage: betimes run")


def test_help_all_lists_every_verb_with_what_it_does(betimes: Call) -> None:
    said = betimes("--help-all").out
    two = [f"{first} {second}" for first in ("nodes", "service", "trace") for second in verbs_of(first)]
    for verb in (*command().commands, *two):
        assert f"\n  {verb} " in said
    assert "..." not in said.partition("Start:")[2]
    for group in ("nodes", "service", "slurm", "trace"):
        said = betimes(group, "--help-all").out
        assert said == betimes(group, "--help").out
        assert "..." not in said.partition("Verbs:")[2], "a verb's summary is cut off"


def verbs_of(group: str) -> list[str]:
    """The second words of a group's verbs."""
    return list(getattr(command().commands[group], "commands"))  # noqa: B009 (not of all verbs)


def test_everyday_words_are_verbs(betimes: Call) -> None:
    for word in ("ps", "ls", "queue"):
        assert betimes(word, "--help").out == betimes("jobs", "--help").out
    assert betimes("portfolio", "--help").out == betimes("policy", "portfolio", "--help").out
    assert betimes("help", "backup").out == betimes("service", "backup", "--help").out
    assert betimes("help").out == betimes("--help").out
    assert betimes("help", "nodes", "add").out == betimes("nodes", "add", "--help").out


def test_version(betimes: Call) -> None:
    assert betimes("--version").out == f"betimes {package.__version__}\n"


def test_an_unexpected_error_is_one_line_and_a_traceback_on_request(
    betimes: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of\nall things")

    monkeypatch.setattr("betimes.cli.simulate.running.load", broken)
    said = betimes("simulate", "sample:tiny", "--policy", "fifo")
    assert said.code == 1
    assert said.err == "betimes: ZeroDivisionError: of all things (BETIMES_TRACEBACK=1 shows where)\n"
    monkeypatch.setenv("BETIMES_TRACEBACK", "1")
    said = betimes("simulate", "sample:tiny", "--policy", "fifo")
    assert said.code == 1
    assert "Traceback" in said.err
    assert said.err.endswith("betimes: ZeroDivisionError: of all things\n")


def test_a_reader_that_leaves_early_is_no_error_to_speak_of() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "betimes.cli.main", "trace", "info", "sample:tiny"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == b""


ENDS = """
import atexit, sys, threading, time
from betimes.cli.main import program

class Held:
    def __del__(self):
        print("freed")

held = Held()
atexit.register(print, "exit function", end="")
{more}
sys.exit(program())
"""
THREAD = "threading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start()"
CALLED = "program = lambda run=program: run()"


@pytest.mark.parametrize(
    ("words", "more", "code", "printed"),
    [
        (("simulate", "sample:tiny", "--policy", "fifo"), "", 0, ["exit function"]),
        (("policies", "nonsense"), "", 2, ["exit function"]),
        (("policies", "fifo", "--json"), THREAD, 0, ["thread", "exit functionfreed"]),
        (("policies", "fifo", "--json"), CALLED, 0, ["exit functionfreed"]),
        (("service", "config"), "", 0, ["exit functionfreed"]),
    ],
)
def test_a_verb_that_simulates_ends_without_freeing_what_it_holds(
    words: tuple[str, ...], more: str, code: int, printed: list[str]
) -> None:
    """Unless a thread is to be waited for, or another program has called it."""
    command = [sys.executable, "-c", ENDS.format(more=more), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code
    assert (done.stderr == "") == (code == 0), done.stderr
    assert done.stdout.splitlines()[-len(printed) :] == printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this machine has no device that is full")
def test_output_that_is_lost_at_the_end_is_reported() -> None:
    command = [sys.executable, "-c", ENDS.format(more=""), "policies", "fifo"]
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
    assert done.returncode == 120  # Python's for that
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("processes", "after_s"),
    [
        ("1", 0.0),
        pytest.param("2", 1.5, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_no_process_and_no_file(
    tmp_path: Path, processes: str, sent: signal.Signals, code: int, after_s: float
) -> None:
    words = ("compare", "demo:jobs=200000,load=3", "--policies", "fifo,srsf,las", "--predict", "--no-fair")
    child = subprocess.Popen(
        [sys.executable, "-m", "betimes.cli.main", *words, "--processes", processes, "--out", "out"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(tmp_path.glob(".betimes-*")):  # the runs are about to begin
        assert child.poll() is None, child.communicate()
        time.sleep(0.05)
    time.sleep(after_s)  # workers are starting, or at work
    # Ctrl-C reaches the whole group, workers included; other signals only the one process.
    (os.killpg if sent == signal.SIGINT else os.kill)(child.pid, sent)
    try:
        out, err = child.communicate(timeout=60)  # pipes close when the last process that holds them is gone
    finally:
        child.kill()
    # Where Ctrl-C comes inside an `exec`, as a dataclass is made, CPython ends by the signal: to a shell the same.
    assert child.returncode in (code, -sent if sent == signal.SIGINT else code), (out, err)
    assert out == ""
    assert err == ("betimes: interrupted\n" if sent == signal.SIGINT else "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("raised", "code"), [("KeyboardInterrupt", 130), ("SystemExit(143)", 143)])
def test_an_interruption_inside_a_finaliser_is_not_lost(raised: str, code: int) -> None:
    program = (
        "import sys, time, betimes.cli.main as m\n"
        "class Dying:\n"
        f"    def __del__(self): raise {raised}\n"
        "def run(*_, **__):\n"
        "    Dying()\n"
        "    time.sleep(30)\n"
        "m.verbs.quick = lambda _: run\n"
        "sys.exit(m.main([]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20
    )
    assert done.returncode == code
    assert done.stderr in ("betimes: interrupted\n", "")


@pytest.mark.parametrize(("raised", "code"), [("KeyboardInterrupt", 130), ("SystemExit(143)", 143)])
def test_an_interruption_that_python_turns_into_another_error_is_one(raised: str, code: int) -> None:
    """Up to Python 3.11, what is raised while a class is named its members, as of an enumeration, is a RuntimeError."""
    program = (
        "import sys, betimes.cli.main as m\n"
        "class Named:\n"
        f"    def __set_name__(self, *_): raise {raised}\n"
        "def run(*_, **__):\n"
        "    class Owner:\n"
        "        member = Named()\n"
        "m.verbs.quick = lambda _: run\n"
        "sys.exit(m.main([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == ("betimes: interrupted\n" if code == 130 else "")


@pytest.mark.slow
def test_a_worker_that_dies_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import multiprocessing, os, signal\n"
        "from betimes.policies import priority\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "@priority(summary='x')\n"
        "def deadly(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = 0.0\n"
    )
    words = ("compare", "sample:tiny", "--policies", "fifo,./mine.py:deadly", "--processes", "2")
    said = program(*words, cwd=tmp_path)
    assert said.code == 1
    assert said.out == ""
    assert "ended by signal 9" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("betimes sim", ["simulate"]),
        ("betimes trace con", ["convert"]),
        ("betimes compare demo --policies fifo,a", ["fifo,afs", "fifo,ajw", "fifo,ajw-t"]),
        ("betimes simulate demo --policy fifo --on-wide c", ["clip"]),
    ],
)
def test_completion_in_a_shell(line: str, expected: list[str]) -> None:
    words = str(len(line.split()) - 1)
    said = program(_BETIMES_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=words)
    assert said.out.split() == expected


def test_completion_knows_the_policies() -> None:
    assert tuple(dict.fromkeys([*POLICIES, *NODES_POLICIES])) == POLICY_NAMES


FOR_EVER = """
from betimes.policies import priority
from betimes.policies.nodes.hooks import ordering


@ordering(summary="Never answers.")
def on_nodes(view, now, chosen, key):
    while key[0] != 1.0:
        key[0] = 2.0


@priority(summary="Never answers.")
def on_a_pool(view, now, chosen, key):
    while key[0] != 1.0:
        key[0] = 2.0
"""


@pytest.mark.parametrize(
    ("policy", "number"),
    [
        ("on_nodes", signal.SIGINT),
        pytest.param("on_a_pool", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_a_run_inside_compiled_code(
    policy: str, number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(FOR_EVER)
    words = ["simulate", "sample:rigid", "--policy", f"./mine.py:{policy}", "--out", "out"]
    running = subprocess.Popen(
        [sys.executable, "-m", "betimes", *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        stage, until = False, time.monotonic() + 300.0
        while not stage and time.monotonic() < until and running.poll() is None:
            time.sleep(0.1)
            stage = any(tmp_path.glob(".betimes-*"))  # made once all is compiled
        time.sleep(1.0)
        assert running.poll() is None
        running.send_signal(number)
        assert running.wait(timeout=60) == 128 + number
    finally:
        running.kill()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py"]


def test_python_m_betimes_is_betimes() -> None:
    words = ["simulate", "no-such-file", "--policy", "fifo"]
    done = subprocess.run([sys.executable, "-m", "betimes", *words], capture_output=True, check=False)
    assert done.returncode == 2
