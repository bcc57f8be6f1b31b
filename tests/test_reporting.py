"""Progress is reported from inside a job, and never disturbs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import betimes

ROOT_PATH = os.pathsep.join(sys.path)


class Service:
    """What a job's reports reach: remembers them, and answers with `status`."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.status = 204
        self.refuse_first = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.heard.append((self.path, dict(self.headers), body))
                refused = len(service.heard) <= service.refuse_first
                self.send_response(503 if refused else service.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def counts(self) -> list[tuple[float, float]]:
        return [(body["done"], body["total"]) for _, _, body in self.heard]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def service() -> Iterator[Service]:
    one = Service()
    yield one
    one.close()


def a_job(program: str, url: str | None) -> subprocess.CompletedProcess[str]:
    """Run a program as Betimes would; url None: outside of it."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": ROOT_PATH}
    if url is not None:
        env |= {
            "BETIMES_URL": url,
            "BETIMES_JOB_ID": "41",
            "BETIMES_ATTEMPT": "3",
            "BETIMES_RUN_TOKEN": "secret",
        }
    program = f"import betimes, os, sys, time\n{program}"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=env, capture_output=True, text=True, check=False
    )


def test_a_report_says_which_attempt_of_which_job_is_how_far(service: Service) -> None:
    done = a_job("print(list(betimes.progress('abc')))", service.url)

    assert (done.stdout, done.stderr) == ("['a', 'b', 'c']\n", "")
    path, headers, body = service.heard[-1]
    assert path == "/api/v1/jobs/41/progress"
    assert headers["Authorization"] == "Bearer secret"
    assert body == {"attempt": 3, "done": 3, "total": 3}


def test_a_longer_loop_reports_now_and_then_and_at_the_end(service: Service) -> None:
    a_job("for _ in betimes.progress(range(25)): time.sleep(0.1)", service.url)

    assert service.counts[-1] == (25, 25)
    assert 3 <= len(service.counts) <= 6  # at once, then every second, then the last
    assert service.counts == sorted(service.counts)


def test_a_loop_that_resumes_counts_what_was_done_before(service: Service) -> None:
    a_job("for _ in betimes.progress(range(7, 10), start=7): pass", service.url)

    assert service.counts[-1] == (10, 10)


def test_a_generator_is_counted_against_the_total_that_is_told(service: Service) -> None:
    a_job("for _ in betimes.progress((x for x in range(4)), total=8): pass", service.url)

    assert service.counts[-1] == (4, 8)


def test_more_steps_than_were_told_are_all_of_them(service: Service) -> None:
    a_job("for _ in betimes.progress(iter(range(9)), total=5): pass", service.url)

    assert service.counts[-1] == (5, 5)


@pytest.mark.parametrize("iterable", ["(x for x in range(4))", "[]", "Stream()"])
def test_without_a_total_nothing_is_sent(service: Service, iterable: str) -> None:
    stream = (
        "class Stream:\n    def __iter__(self): return iter([1])\n    def __len__(self): raise TypeError\n"
    )

    assert a_job(f"{stream}print(len(list(betimes.progress({iterable}))))", service.url).returncode == 0
    assert service.heard == []


def test_the_step_in_which_a_loop_is_left_does_not_count(service: Service) -> None:
    a_job("for x in betimes.progress(range(10)):\n    if x == 4: break", service.url)

    assert service.counts[-1] == (4, 10)


def test_a_loop_that_fails_reports_how_far_it_came(service: Service) -> None:
    done = a_job("for x in betimes.progress(range(10)):\n    if x == 4: raise ValueError", service.url)

    assert done.returncode == 1
    assert service.counts[-1] == (4, 10)


def test_of_nested_loops_the_outermost_reports(service: Service) -> None:
    a_job("for _ in betimes.progress(range(3)):\n    for _ in betimes.progress(range(50)): pass", service.url)

    assert service.counts[-1] == (3, 3)
    assert {total for _, total in service.counts} == {3}


def test_one_loop_after_the_other_is_reported(service: Service) -> None:
    a_job("for n in (20, 30):\n    for _ in betimes.progress(range(n)): pass", service.url)

    assert service.counts[-1] == (30, 30)


def test_a_last_count_is_sent_although_the_program_goes_on(service: Service) -> None:
    program = "for _ in betimes.progress(range(5)): pass\ntime.sleep(2.5); os._exit(0)"
    a_job(program, service.url)

    assert service.counts[-1] == (5, 5)


def test_what_did_not_arrive_is_counted_and_sent_again(service: Service) -> None:
    service.refuse_first = 1
    done = a_job(
        "loop = betimes.progress(range(40))\nfor _ in loop: time.sleep(0.1)\nprint(loop.failures)",
        service.url,
    )

    assert done.stdout == "1\n"
    assert service.counts[-1] == (40, 40)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://", "nonsense", "ftp://x", "http://[broken"])
def test_a_service_that_is_not_there_does_not_disturb(url: str) -> None:
    done = a_job("print(sum(betimes.progress(range(10))))", url)

    assert (done.returncode, done.stdout) == (0, "45\n")


def test_a_service_that_never_answers_does_not_hold_the_job_up(service: Service) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        done = a_job("print(sum(betimes.progress(range(10))))", f"http://127.0.0.1:{deaf.getsockname()[1]}")

    assert (done.returncode, done.stdout, done.stderr) == (0, "45\n", "")


def test_a_forked_child_neither_reports_nor_hangs(service: Service) -> None:
    program = (
        "for x in betimes.progress(range(3)):\n"
        "    if x == 1:\n"
        "        child = os.fork()\n"
        "        if child == 0: sys.exit(0)\n"
        "        print(os.waitpid(child, 0)[1])\n"
    )
    done = a_job(program, service.url)

    assert (done.stdout, done.stderr) == ("0\n", "")
    assert service.counts[-1] == (3, 3)


def test_outside_betimes_the_items_come_unchanged_and_nothing_is_started() -> None:
    program = (
        "import threading\nprint(list(betimes.progress(x for x in 'ab')), threading.active_count())\n"
        "print([name for name in ('http.client', 'numpy', 'pydantic', 'numba', 'asyncio') if name in sys.modules])"
    )
    done = a_job(program, None)

    assert done.stdout == "['a', 'b'] 1\n[]\n"


@pytest.mark.parametrize(("total", "start"), [(-1, 0), (float("nan"), 0), (float("inf"), 0), (5, -2)])
def test_an_impossible_count_is_refused(total: float, start: float) -> None:
    with pytest.raises(ValueError, match=r"(total|start) is .*; it is a number of steps, 0 or more"):
        betimes.progress([], total, start=start)


def test_a_loop_that_runs_again_counts_from_the_beginning() -> None:
    os.environ.pop("BETIMES_URL", None)
    loop = betimes.progress([1, 2])

    assert list(loop) == list(loop) == [1, 2]
