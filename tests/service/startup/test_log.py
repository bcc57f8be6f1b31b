"""The lines of the service's log."""

from __future__ import annotations

import logging
import subprocess
import sys

from betimes.service.startup.log import OneLine


def test_no_text_in_the_log_forges_a_line_of_it() -> None:
    evil = "job x\nbetimes: all is well\x1b[2J"
    try:
        raise ValueError(evil)
    except ValueError:
        record = logging.LogRecord("betimes", logging.ERROR, "here", 1, "%s fails", (evil,), sys.exc_info())
    first, *others = OneLine().format(record).splitlines()
    assert first == "betimes: job x betimes: all is well\\x1b[2J fails"
    assert "    betimes: all is well\\x1b[2J" in others
    assert {line[:4] for line in others} == {"    "}


def test_without_memory_the_service_ends_at_once_with_one_line() -> None:
    """Whether a task beside the controller fails, or a callback of the loop."""
    program = """
import asyncio, sys
from betimes.service.runtime.planning import Background
from betimes.service.startup.log import heed_failure, log_to_stderr

async def fails():
    raise MemoryError

async def serve(beside):
    asyncio.get_running_loop().set_exception_handler(heed_failure)
    background = Background()
    background.go(fails()) if beside else asyncio.get_running_loop().call_soon([].__getitem__, slice(fail))
    await asyncio.sleep(60)

class Fail:
    def __index__(self):
        raise MemoryError

fail = Fail()
log_to_stderr()
asyncio.run(serve(sys.argv[1] == "beside"))
"""
    for where in ("beside", "callback"):
        done = subprocess.run(
            [sys.executable, "-c", program, where], check=False, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.startswith("betimes: there is not enough memory for the service, which ends;")
