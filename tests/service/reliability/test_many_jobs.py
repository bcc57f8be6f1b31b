"""Ten thousand jobs at once: others are answered while they are taken, decided about, promised, and cancelled."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.reliability.starting import Starter, starter

JOBS = 10_000


def ask_beside(service: Starter, body: Any, path: str) -> tuple[Any, float, dict[str, list[float]]]:
    """A request, how long it took, and what others took that were asked meanwhile."""
    answers: list[Any] = []
    other = Starter(service.process)
    other.ready = service.ready
    asking = threading.Thread(target=lambda: answers.append(other.ask("POST", path, body)))
    took_s: dict[str, list[float]] = {"/jobs": [], "/policy": [], "/nodes": []}
    began = time.monotonic()
    asking.start()
    while asking.is_alive():
        for one, latencies in took_s.items():
            before = time.monotonic()
            service.ask("GET", one, limit=10)
            latencies.append(time.monotonic() - before)
    asking.join()
    other.client.close()
    return answers[0], time.monotonic() - began, took_s


def measure(state: Path) -> dict[str, Any]:
    """What ten thousand jobs do to the others, s."""
    job = {"command": ["job"], "workdir": "/", "estimate_s": 600.0, "env": {"VIRTUAL_WORK_S": "1e6"}}
    with starter(NUMBA_DISABLE_JIT="0") as service:
        service.start(state, virtual=True)
        taken, took_s, beside = ask_beside(service, {"jobs": [job] * JOBS}, "/jobs")
        numbers = [number for one in taken["jobs"] for number in one["job_ids"]]
        assert numbers == [*range(1, JOBS + 1)]
        assert all(one["quote"] is not None for one in taken["jobs"])
        assert all(len(latencies) > 1 for latencies in beside.values()), beside
        alone: list[float] = []
        for _ in range(20):
            before = time.monotonic()
            service.ask("POST", "/jobs", job)
            alone.append(time.monotonic() - before)
        gone, gone_s, beside_cancel = ask_beside(service, {"jobs": numbers}, "/jobs/cancel")
        assert len(gone["jobs"]) == JOBS
        assert all(latencies for latencies in beside_cancel.values())
        events = service.everything("/events", after=0)
        assert [event["event_id"] for event in events] == [*range(1, len(events) + 1)]
    return {
        "batch_s": took_s,
        "cancel_s": gone_s,
        "single_s": sorted(alone),
        "beside_batch_s": {name: (len(each), max(each)) for name, each in beside.items()},
        "beside_cancel_s": {name: (len(each), max(each)) for name, each in beside_cancel.items()},
    }


@pytest.mark.slow
def test_others_are_answered_while_ten_thousand_jobs_are_taken(tmp_path: Path) -> None:
    measure(tmp_path)
