"""Shared by all tests: how hypothesis searches, and surroundings that are the same wherever it is started."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from betimes.processes import cpus

# No deadline: the first call of a kernel compiles it, and machines differ.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dev", _COMMON, max_examples=10)
settings.register_profile("ci", _COMMON, max_examples=10, derandomize=True, database=None)
settings.register_profile("thorough", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# Who starts the tests in the background may have set Ctrl-C or a hang-up to be ignored, and programs inherit that.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGTERM))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that collection makes is garbage: to look for some takes as long as the rest of it, in each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as processors: tests of the service wait for it half of the time."""
    return 2 * cpus()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of Ray come first: one worker then has them all, with one cluster for those of a file.

    Workers that have nothing left take tests from the ends of the others' lists, and each would start a cluster.
    """
    items.sort(key=lambda item: re.search(r"(\b|_)ray(\b|_)", item.nodeid.partition("::")[0]) is None)


# Services listen on this machine; what the tests ask them need not go through anybody's proxy.
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[variable]
