"""Verbs from beginning to end, as programs of their own, and while the service is away, hangs or is busy."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from betimes.client import plain
from betimes.errors import NotReachable
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import EventView, JobView
from tests.cli.conftest import Call, program
from tests.service.serving import Background, Serving

PATIENCE_S = 60  # for a program to end


SERVES = {"machines": (Machine("here", "virtual", "n", 8.0, 16.0, 0.0),)}


def test_from_a_quote_to_the_end(betimes: Call, live: Background, tmp_path: Path) -> None:
    assert betimes("quote", "--json", "--", "true").json()["job_id"] is None
    # The first takes the whole machine.
    whole = ("submit", "--units", "8", "--label", "a=b", "--json", "--", "true", "--flag")
    assert betimes(*whole).json()["job_ids"] == [1]
    (tmp_path / "two.yaml").write_text("jobs: [{command: [a]}, {command: [b], cpu: 2}]")
    assert betimes("submit", tmp_path / "two.yaml", "--json").json()["job_ids"] == [2, 3]
    assert [each["job_id"] for each in betimes("jobs", "--json").json()] == [3, 2, 1]
    assert [each["job_id"] for each in betimes("jobs", "--label", "a=b", "--json").json()] == [1]
    assert betimes("job", "3", "--json").json()["spec"]["cpu"] == 2.0
    assert [each["status"] for each in betimes("hold", "2-3", "--json").json()] == ["held", "held"]
    assert [each["status"] for each in betimes("release", "2,3", "--json").json()] == ["queued", "queued"]
    assert betimes("cancel", "2").out == "Job 2, a: cancelled\n"
    assert betimes("wait", "3", "--timeout", "0").code == 3
    live.it.end_run(1)
    live.it.end_run(3)
    assert betimes("wait", "3").code == 0
    assert betimes("wait", "2").code == 1
    kinds = [each["kind"] for each in betimes("events", "--job", "2", "--json").json()]
    assert [kind for kind in kinds if kind not in ("queued", "quoted")] == [
        *("submitted", "held", "released", "cancel-requested", "cancelled")
    ]
    again = [betimes("submit", "--key", "once", "--json", "--", "x").json()["job_id"] for _ in range(2)]
    assert again == [4, 4]


def test_jobs_are_submitted_again(betimes: Call, live: Background) -> None:
    betimes("submit", "--name", "prep", "--env", "A=1", "--label", "a=b", "--hold", "--", "true")
    betimes("submit", "--array", "3-6", "--after", "1", "--", "x")  # jobs 2 to 5
    betimes("release", "1")
    live.it.end_run(1)
    for number in (3, 4):
        live.it.end_run(number, 1)

    def job(number: int) -> JobView:
        [found] = [job for job in live.it.jobs() if job.job_id == number]
        return found

    def indices(*numbers: int) -> list[int | None]:
        return [job(number).array_index for number in numbers]

    assert [each["job_ids"] for each in betimes("rerun", "2", "--failed", "--json").json()] == [[6, 7]]
    sixth = job(6).spec
    assert sixth is not None
    assert (indices(6, 7), sixth.command, sixth.after) == ([4, 5], ["x"], ["1"])
    assert [each["job_ids"] for each in betimes("rerun", "1-5", "--json").json()] == [[8], [9, 10, 11, 12]]
    eighth, ninth = job(8).spec, job(9).spec
    assert eighth is not None
    assert (eighth.title, eighth.env, eighth.labels, eighth.hold) == ("prep", {"A": "1"}, {"a": "b"}, False)
    assert ninth is not None
    assert (indices(9, 10, 11, 12), ninth.after) == ([3, 4, 5, 6], ["8"])
    assert [each["job_ids"] for each in betimes("rerun", "5", "--json").json()] == [[13]]
    assert indices(13) == [6]
    assert betimes("rerun", "5").out.startswith("Job 14, x")
    said = betimes("rerun", "1", "--failed")
    assert (said.code, said.err) == (
        2,
        "betimes: rerun: job 1 has not failed; leave --failed out\n",
    )


def kept_input(live: Background) -> list[str | None]:
    """The standard input that is kept with each job."""
    return [job.spec.stdin for job in live.it.jobs() if job.spec is not None]


def test_what_is_piped_in_is_kept_with_the_job(live: Background) -> None:
    submit = [sys.executable, "-m", "betimes", "submit"]

    def piped(data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*submit, *words], input=data, capture_output=True, check=False)

    assert piped("naïve\n".encode(), "--", "cat").returncode == 0
    assert piped(b"", "--", "cat").returncode == 0
    assert kept_input(live) == ["naïve\n", None]
    for data, part in ((b"x" * 65_537, b"more than 64 KiB"), (b"\xff", b"no text in UTF-8")):
        refused = piped(data, "--", "cat")
        assert (refused.returncode, refused.stderr.count(b"\n")) == (2, 1)
        assert part in refused.stderr


def test_input_that_the_caller_has_too_is_not_dropped_without_a_word(live: Background) -> None:
    caller = (
        f"import subprocess; subprocess.run([{sys.executable!r}, '-m', 'betimes', 'submit', '--', 'cat'])"
    )
    done = subprocess.run([sys.executable, "-c", caller], input=b"x\n", capture_output=True, check=True)
    assert kept_input(live) == [None]
    assert b"standard input is not kept with the job, as python" in done.stderr


def test_what_is_piped_into_a_command_that_stands_for_this_one_is_kept(live: Background) -> None:
    line = f"echo hello | timeout 60 {sys.executable} -m betimes submit -- cat"
    subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    assert kept_input(live) == ["hello\n"]


def test_a_loop_that_reads_a_list_keeps_it(live: Background) -> None:
    loop = f"while read line; do {sys.executable} -m betimes submit -- echo $line || exit; done"
    subprocess.run(["sh", "-c", loop], input=b"a\nb\n", capture_output=True, check=True)
    assert [job.spec.command for job in live.it.jobs() if job.spec] == [["echo", "a"], ["echo", "b"]]
    assert kept_input(live) == [None, None]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_escaped_where_the_output_cannot_hold_it(live: Background, encoding: str) -> None:
    program("submit", "--name", "naïve-日本", "--", "true")
    said = program("jobs", "--json", PYTHONIOENCODING=encoding)
    assert (said.json()[0]["name"], said.out.isascii()) == ("naïve-日本", True)
    assert "naïve-日本" in program("jobs", "--json", PYTHONIOENCODING="utf-8").out


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "betimes", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_waiting_goes_on_while_the_service_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("BETIMES_URL", raising=False)
    it = Serving(tmp_path / "service")
    served = Background(it, tmp_path / "state")
    watched = threading.Event()
    with served():
        program("submit", "--", "true")
        log = it.log(1)
        log.write_bytes(b"one\n")
        watch = it.backend.watch

        def noted(after: int) -> AsyncIterator[EventView]:
            watched.set()
            return watch(after)

        monkeypatch.setattr(it.backend, "watch", noted)
        waits = started("wait", "1")
        assert watched.wait(PATIENCE_S)
        follows = started("logs", "-f", "1")
        assert follows.stdout is not None
        assert follows.stdout.readline() == "one\n"
    for child in (waits, follows):
        assert child.stderr is not None
        assert "waiting until it is there again" in child.stderr.readline()
    assert program("wait", "1").code == 4
    assert program("logs", "-f", "1").code == 1
    with log.open("ab") as file:
        file.write(b"two\n")
    with served():
        assert program("wait", "1", "--timeout", "0.1").code == 3
        it.end_run(1)
        outcomes = [child.communicate(timeout=PATIENCE_S)[0] for child in (waits, follows)]
    it.close()
    assert [child.returncode for child in (waits, follows)] == [0, 0]
    assert outcomes[1] == "two\n"


def test_a_service_that_hangs_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"http://127.0.0.1:{hung.getsockname()[1]}"
        monkeypatch.setenv("BETIMES_URL", url)
        child = started("jobs")
        assert child.stderr is not None
        assert f"the service at {url} accepts connections and does not answer" in child.stderr.readline()
        child.kill()
        child.communicate()
        monkeypatch.setattr(plain, "SILENT_S", 0.05)
        monkeypatch.setattr(plain, "GIVEN_UP_S", 0.2)
        with plain.PlainClient() as client, pytest.raises(NotReachable, match="has not answered for"):
            client.jobs()


def test_a_service_that_was_busy_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/healthz":
                checks.append(self.path)
                time.sleep(0.3 if len(checks) == 1 else 0.0)
            else:
                time.sleep(1.0)
            body = b'{"jobs": [], "items": [], "following": null}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # of a check that nobody waits for
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    monkeypatch.setenv("BETIMES_STATE", str(tmp_path))
    monkeypatch.setattr(plain, "SILENT_S", 0.1)
    monkeypatch.setattr(plain, "GIVEN_UP_S", 0.7)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("BETIMES_URL", f"http://127.0.0.1:{server.server_address[1]}")
    with plain.PlainClient() as client:
        client.jobs()
    server.shutdown()
    server.server_close()
    assert len(checks) >= 2


@pytest.mark.usefixtures("tell")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["submit", "--cpu", "65", "--", "x"], "--cpu: The largest machine here has 4 cores"),
        (
            ["submit", "--notify", "no-such-program", "--", "x"],
            "there is no program 'no-such-program' on the service",
        ),
        (["job", "9"], "no job 9"),
        (["cancel", "8", "9"], "no job 8"),
        (["nodes", "drain", "nowhere"], "no node 'nowhere'"),
        (
            ["nodes", "add", "a", "--cpu", "4", "--memory", "8GiB", "--count", "10001"],
            "count: 10,001 is too large",
        ),
        (["policy", "set", "fifoo"], "unknown policy 'fifoo' (did you mean 'fifo'?)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_the_service_refuses(betimes: Call, words: list[str], part: str) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert part in said.err


@pytest.mark.parametrize(
    "words", [["events", "-f"], ["events", "-f", "--json"], ["jobs", "--watch"], ["logs", "-f", "1"]]
)
def test_ctrl_c_ends_what_goes_on_without_a_word(betimes: Call, live: Background, words: list[str]) -> None:
    betimes("submit", "--", "true")
    live.it.log(1).write_bytes(b"one\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "betimes", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert child.stdout is not None
    first = [child.stdout.readline() for _ in range(2 if words[0] == "events" else 1)]
    child.send_signal(signal.SIGINT)
    try:
        out, err = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert (child.returncode, err) == (130, "")
    if "--json" in words:
        assert [json.loads(line)["event_id"] for line in [*first, *out.splitlines()]][:2] == [1, 2]


LINES = [
    ("betimes job 1", ["12", "11", "10", "1"]),
    ("betimes cancel 3,1", ["3,12", "3,11", "3,10", "3,1"]),
    ("betimes nodes drain h", ["here"]),
    ("betimes jobs --status que", ["queued"]),
    ("betimes jobs --status held,f", ["held,finished", "held,failed"]),
    ("betimes policy set sr", ["srsf", "srtf"]),
    ("betimes submit --qos t", ["trial"]),
    ("betimes ca", ["cancel"]),
]


def completed(line: str, **environment: str) -> list[str]:
    words = str(len(line.split()) - 1)
    said = program(
        _BETIMES_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=words, cwd=None, **environment
    )
    assert (said.code, said.err) == (0, "")
    return said.out.split()


@pytest.mark.slow
@pytest.mark.usefixtures("live")
def test_a_shell_completes_what_the_service_knows(betimes: Call) -> None:
    for _ in range(12):
        betimes("submit", "--", "true")
    assert [completed(line) for line, _ in LINES] == [expected for _, expected in LINES]


@pytest.mark.parametrize(
    ("url", "line", "expected"),
    [
        ("", "betimes job 1", []),
        ("http://127.0.0.1:9", "betimes nodes drain h", []),
        ("nonsense://", "betimes job 1", []),
        ("nonsense://", "betimes jobs --status que", ["queued"]),
    ],
)
def test_a_shell_completes_without_a_service_what_it_can(
    tmp_path: Path, url: str, line: str, expected: list[str]
) -> None:
    assert completed(line, BETIMES_STATE=str(tmp_path), BETIMES_URL=url) == expected


def test_completion_knows_the_statuses() -> None:
    from betimes.cli.live.jobs.completing import ACTIVE, STATUSES

    assert tuple(each.value for each in Status) == STATUSES
    assert tuple(each.value for each in Status if not each.is_over) == ACTIVE


def test_users_are_added_changed_and_given_tokens(betimes: Call, live: Background) -> None:
    assert "No user was added" in betimes("users").out
    added = betimes(
        "users", "add", "eve", "--weight", "2", "--max-units", "8", "--max-memory", "64GiB", "--json"
    ).json()
    assert (added["name"], added["role"], added["weight"]) == ("eve", "user", 2.0)
    assert {name: most for name, most in added["limits"].items() if most} == {
        "max_units": 8,
        "max_memory_gib": 64.0,
    }
    changed = betimes(
        "users", "set", "eve", "--max-units", "none", "--max-usd-per-day", "2.5", "--json"
    ).json()
    assert {name: most for name, most in changed["limits"].items() if most} == {
        "max_memory_gib": 64.0, "max_usd_per_day": 2.5,
    }  # fmt: skip
    each = ("--max-time", "4h", "--default-time", "30m", "--max-array", "100", "--max-memory", "none")
    changed = betimes("users", "set", "eve", *each, "--json").json()
    assert {name: most for name, most in changed["limits"].items() if most} == {
        "max_usd_per_day": 2.5, "max_time_s": 14_400.0, "default_time_s": 1800.0, "max_array": 100,
    }  # fmt: skip
    assert "user, disabled" in betimes("users", "disable", "eve").out
    assert (
        betimes("users", "set", "eve", "--enable", "--role", "viewer", "--json").json()["disabled"] is False
    )
    token = betimes("users", "token", "eve", "--name", "laptop", "--expires", "90d").out.strip()
    assert len(token) >= 43
    kept = betimes("users", "tokens", "eve", "--json").json()
    assert [(one["name"], round(one["expires_at"] - one["made_at"]), one["revoked_at"]) for one in kept] == [
        ("laptop", 90 * 86_400, None)
    ]
    assert "revoked" in betimes("users", "revoke", "eve", "laptop").out


BAD_USERS: list[tuple[list[str], str]] = [
    (["set", "eve"], "nothing to change: give --role"),
    (["set", "tom", "--weight", "2"], "there is no user 'tom'"),
    (["add", "eve"], "there is a user eve already"),
    (["add", "tom", "--weight", "0"], "--weight: 0 is too small; give 0.001 or more"),
    (["add", "tom", "--max-units", "x"], "--max-units: expected a number or none, not 'x'"),
    (["add", "tom", "--max-time", "soon"], "--max-time: 'soon'"),
    (["add", "tom", "--max-memory", "4GB"], "--max-memory: '4GB' does not say whether"),
    (["add", "tom", "--max-running-jobs", "0"], "--max-running-jobs: 0 is too small; give 1 or more"),
    (["token", "tom"], "there is no user 'tom'"),
    (["token", "eve", "--expires", "soon"], "--expires:"),
    (["revoke", "eve", "x"], "eve has no token 'x' that is good"),
]


def test_bad_users_are_one_line_and_exit_status_2(betimes: Call, live: Background) -> None:
    betimes("users", "add", "eve")
    for words, text in BAD_USERS:
        said = betimes("users", *words)
        assert (said.code, said.out, said.err.count("\n"), text in said.err) == (2, "", 1, True), said.err
