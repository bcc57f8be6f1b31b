"""`betimes.progress` costs well under 2 microseconds a step, amortised, reports included.

Nanoseconds a step of an empty loop in one process: plain, outside Betimes, and inside it with a service that answers.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable

from measuring import Table, arguments, introduce

import betimes

# In a process of its own, as the service is.
SERVICE = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def step_ns(wrap: Callable[[range], Iterable[int]], steps: int, repeats: int) -> float:
    """Nanoseconds a step of an empty loop: the median of wall-clock times."""
    taken: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in wrap(range(steps)):
            pass
        taken.append((time.perf_counter() - began) / steps * 1e9)
    return statistics.median(taken)


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    steps = 2_000_000 if given.quick else 30_000_000  # so that a loop lasts for several reports
    table = Table("loop", "ns a step", "more than plain", first=34)
    plain = step_ns(lambda items: items, steps, given.repeats)
    table.line("plain", plain, 0)
    outside = step_ns(betimes.progress, steps, given.repeats)
    table.line("betimes.progress, outside Betimes", outside, outside - plain)
    with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        inside_betimes(f"http://127.0.0.1:{int(service.stdout.readline())}")
        inside = step_ns(betimes.progress, steps, given.repeats)
        assert any(thread.name == "betimes-progress" for thread in threading.enumerate())
        table.line("betimes.progress, reporting", inside, inside - plain)
        service.kill()
    print(
        f"\nFirst use: {first_use_ms():.3g} ms to import betimes and begin a loop that reports, in a new process."
    )


def inside_betimes(url: str) -> None:
    """Give this process the environment of a job."""
    os.environ.update(BETIMES_URL=url, BETIMES_JOB_ID="1", BETIMES_ATTEMPT="1", BETIMES_RUN_TOKEN="none")


def first_use_ms() -> float:
    """From before the import to the loop's first step."""
    program = (
        "import time; began = time.perf_counter(); import betimes\n"
        "for _ in betimes.progress(range(2)): break\n"
        "print((time.perf_counter() - began) * 1e3)"
    )
    command = [sys.executable, "-c", program]
    told = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    return statistics.median(map(float, told))


if __name__ == "__main__":
    main()
