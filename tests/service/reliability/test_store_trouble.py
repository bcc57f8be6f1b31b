"""The disk is full, or somebody locks the database: requests are refused, jobs go on, and so does the service."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.executors.small_disk import small_disk
from tests.service.reliability.starting import Starter, starter, until

Trouble = Callable[[Path, int], Any]


@contextmanager
def full_disk(state: Path, pid: int) -> Iterator[None]:
    """No file of the service can grow."""
    least = min(path.stat().st_size for path in state.glob("betimes.db*"))
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (least, resource.RLIM_INFINITY))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def locked_database(state: Path, _: int) -> Iterator[None]:
    """Another program has begun to write, and does not end."""
    other = sqlite3.connect(state / "betimes.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


def is_ready(service: Starter) -> bool:
    return service.client.get(f"{service.ready['url']}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("trouble", "says"),
    [(full_disk, "no room is left"), (locked_database, "another program keeps it locked")],
)
def test_the_service_goes_on_by_itself_once_it_can_write(tmp_path: Path, trouble: Trouble, says: str) -> None:
    state, gate = tmp_path / "state", tmp_path / "gate"
    wait = ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done"]
    with starter() as service:
        service.start(state)
        running = service.ask("POST", "/jobs", {"command": wait, "workdir": "/"})["job_id"]
        # Not only launched: with no room for its files it could not start.
        until(lambda: "started" in {event["kind"] for event in service.everything("/events", after=0)})
        assert is_ready(service)
        with trouble(state, service.pid):
            until(lambda: not is_ready(service))  # before anything has been refused
            with pytest.raises(httpx.HTTPStatusError) as refused:
                service.ask("POST", "/jobs", {"command": ["true"], "workdir": "/"}, key="one")
            assert refused.value.response.status_code == 503
            assert says in refused.value.response.json()["error"]["message"]
            assert not is_ready(service)
            gate.touch()  # the job ends while that cannot be written
            assert [job["job_id"] for job in service.everything("/jobs")] == [running]
        until(lambda: is_ready(service))
        until(lambda: service.ask("GET", f"/jobs/{running}")["job"]["status"] == "finished")
        assert [run["outcome"] for run in service.ask("GET", f"/jobs/{running}")["runs"]] == ["exited"]
        again = service.ask("POST", "/jobs", {"command": ["true"], "workdir": "/"}, key="one")["job_id"]
        assert again == running + 1  # nothing of the refused request was kept
        until(lambda: service.ask("GET", f"/jobs/{again}")["job"]["status"] == "finished")
        events = service.everything("/events", after=0)
        assert [event["event_id"] for event in events] == [*range(1, len(events) + 1)]
        assert sum(event["kind"] == "submitted" for event in events) == 2


def test_a_job_that_fails_while_the_disk_is_full_has_failed_and_is_not_run_again(tmp_path: Path) -> None:
    gate, journal = tmp_path / "gate", tmp_path / "journal"
    script = f"echo $BETIMES_ATTEMPT >>{journal}; until [ -e {gate} ]; do sleep 0.02; done; exit 4"
    with small_disk(tmp_path / "disk", "32m") as disk, starter() as service:
        service.start(disk.folder / "state")
        job = service.ask("POST", "/jobs", {"command": ["sh", "-c", script], "workdir": "/"})["job_id"]
        until(journal.exists)
        disk.fill()
        held = {"command": ["true"], "workdir": "/", "hold": True}
        while is_taken(service, held):  # the database has some room of its own
            pass
        gate.touch()
        runs = disk.folder / "state" / "runs" / str(job) / "1"
        until((runs / "exit.json").exists)
        disk.make_room()
        until(lambda: service.ask("GET", f"/jobs/{job}")["job"]["status"] == "failed")
        story = service.ask("GET", f"/jobs/{job}")
        assert story["job"]["reason"]["code"] == "exit-code"
        assert [(run["outcome"], run["exit_code"]) for run in story["runs"]] == [("exited", 4)]
        assert journal.read_text() == "1\n"
        service.kill()


def is_taken(service: Starter, job: dict[str, Any]) -> bool:
    try:
        service.ask("POST", "/jobs", job)
    except httpx.HTTPStatusError:
        return False
    return True
