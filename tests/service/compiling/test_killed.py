"""A service that is killed while its policy is being compiled loses neither jobs nor what became of runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.reliability.starting import Starter, starter, until


@pytest.fixture
def service() -> Iterator[Starter]:
    with starter() as one:
        yield one


def job(service: Starter, number: int) -> Any:
    return service.ask("GET", f"/jobs/{number}")["job"]


def is_in(service: Starter, number: int, status: str) -> bool:
    return job(service, number)["status"] == status


def test_jobs_that_were_taken_run_under_the_next_service(service: Starter, tmp_path: Path) -> None:
    service.start(tmp_path, compiles=True)
    asked = {"command": ["sleep", "1000"], "workdir": "/"}
    numbers = [service.ask("POST", "/jobs", asked, key=f"{each}")["job_id"] for each in range(3)]
    service.kill()
    service.start(tmp_path, compiles=True)
    assert [job(service, number)["reason"]["code"] for number in numbers] == ["compiling"] * 3
    assert service.ask("POST", "/jobs", asked, key="1")["job_id"] == numbers[1]
    service.kill()
    service.start(tmp_path)
    until(lambda: all(is_in(service, number, "running") for number in numbers))
    until(lambda: all(service.ask("GET", f"/jobs/{number}")["quotes"] for number in numbers))


def test_runs_go_on_and_their_ends_are_recorded(service: Starter, tmp_path: Path) -> None:
    gates = [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    service.start(tmp_path / "state")
    for gate in gates:
        wait = ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; exit 0"]
        service.ask("POST", "/jobs", {"command": wait, "workdir": "/", "name": "wait"})
    until(lambda: all(is_in(service, number, "running") for number in (1, 2, 3)))
    service.kill()
    gates[0].touch()
    service.start(tmp_path / "state", compiles=True)
    until(lambda: is_in(service, 1, "finished"))
    assert is_in(service, 2, "running")
    gates[1].touch()
    until(lambda: is_in(service, 2, "finished"))
    service.ask("POST", "/jobs/3/cancel")
    until(lambda: is_in(service, 3, "cancelled"))
    service.kill()
    service.start(tmp_path / "state")
    story = service.ask("GET", "/jobs/2")
    assert [(run["outcome"], run["exit_code"]) for run in story["runs"]] == [("exited", 0)]
    assert [job(service, number)["status"] for number in (1, 2, 3)] == ["finished", "finished", "cancelled"]
    # What they took is known: the next of their name is believed to take as long, not the usual hour.
    quote = service.ask("POST", "/quote", {"command": ["true"], "workdir": "/", "name": "wait"})
    assert quote["basis"] == "alike"
    assert quote["run_s"] < 3000.0
