"""No job is said to have run by what another log has left, and a copy of a state does nothing to the original."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import StoreInUse
from betimes.service.store.backup import back_up, restore
from tests.service.reliability.starting import Starter, runs_below, starter, until


def submit(service: Starter, notes: Path, says: str, gate: Path | None = None, **more: Any) -> int:
    """A job that notes when it begins and ends; with a gate, once that is there."""
    wait = f"until [ -e {gate} ]; do sleep 0.02; done; " if gate is not None else ""
    script = f"echo {says} begins >> {notes}; {wait}echo {says} ends >> {notes}"
    return service.ask("POST", "/jobs", {"command": ["sh", "-c", script], "workdir": "/", **more})["job_id"]


def status(service: Starter, job: int) -> str:
    return service.ask("GET", f"/jobs/{job}")["job"]["status"]


def end(service: Starter, job: int) -> None:
    """Wait until it has finished."""
    until(lambda: status(service, job) == "finished")


@pytest.mark.parametrize("how", ["emptied", "put back", "another database"])
def test_a_new_log_runs_its_own_jobs_while_those_of_the_old_one_go_on(tmp_path: Path, how: str) -> None:
    state, notes, gate, database = tmp_path / "state", tmp_path / "notes", tmp_path / "gate", None
    with starter() as service:
        service.start(state)
        service.kill()  # the backup has no jobs
        shutil.copytree(state, tmp_path / "backup")
        service.start(state)
        end(service, submit(service, notes, "old 1"))
        submit(service, notes, "old 2", gate)
        until(lambda: "old 2 begins" in notes.read_text())
        service.kill()
        if how == "another database":
            database = f"sqlite:///{tmp_path / 'another.db'}"
        else:
            for file in state.glob("betimes.db*"):
                file.unlink()
            if how == "put back":
                for file in (tmp_path / "backup").glob("betimes.db*"):
                    shutil.copy(file, state)

        refused = service.start(state, database=database)
        assert "jobs have run here that it does not know (1, 2)" in refused["error"]
        assert "\n" not in refused["error"]
        service.start(state, database=database, accepts_loss=True)
        assert service.everything("/jobs") == []
        for number in (1, 2):
            assert submit(service, notes, f"new {number}") == number
            end(service, number)
        gate.touch()
        until(lambda: "old 2 ends" in notes.read_text())
        told = [run for number in (1, 2) for run in service.ask("GET", f"/jobs/{number}")["runs"]]
        assert [(run["outcome"], run["exit_code"]) for run in told] == [("exited", 0)] * 2
    lines = notes.read_text().splitlines()
    said = [f"{log} {number}" for log in ("old", "new") for number in (1, 2)]
    assert sorted(lines) == sorted(f"{one} {what}" for one in said for what in ("begins", "ends"))


def test_a_copy_started_elsewhere_leaves_the_original_alone(tmp_path: Path) -> None:
    state, copy, notes, gate = (tmp_path / name for name in ("state", "copy", "notes", "gate"))
    with starter() as service:
        service.start(state)
        runs = submit(service, notes, "runs", gate)
        once = submit(service, notes, "once", gate, requeue=False)
        until(lambda: notes.exists() and len(notes.read_text().splitlines()) == 2)
        service.kill()
        shutil.copytree(state, copy, ignore=shutil.ignore_patterns("control"))  # named pipes

        refused = service.start(copy)
        assert f"was made in {state}" in refused["error"]
        assert "betimes up --as-copy" in refused["error"]
        service.start(copy, as_copy=True)
        assert (status(service, runs), status(service, once)) == ("held", "failed")
        (run,) = service.ask("GET", f"/jobs/{runs}")["runs"]
        assert run["outcome"] == "node-lost"
        assert "goes on in the original" in run["message"]
        new = submit(service, notes, "new")
        end(service, new)
        service.kill()
        service.start(copy)  # it is a log of its own
        assert status(service, runs) == "held"
        service.kill()

        assert len(runs_below(state)) >= 2
        service.start(state)
        gate.touch()
        for job in (runs, once):
            end(service, job)
            (run,) = service.ask("GET", f"/jobs/{job}")["runs"]
            assert run["outcome"] == "exited"
    assert sorted(notes.read_text().splitlines()) == sorted(
        f"{says} {what}" for says in ("runs", "once", "new") for what in ("begins", "ends")
    )


def test_a_backup_that_is_put_back_has_all_that_was_answered_before_it(tmp_path: Path) -> None:
    state, notes, gate = (tmp_path / name for name in ("state", "notes", "gate"))
    with starter() as service, ThreadPoolExecutor() as beside:
        service.start(state)
        runs = submit(service, notes, "runs", gate)
        until(notes.exists)
        before = [submit(service, notes, "early") for _ in range(5)]
        backing_up = beside.submit(back_up, state / "betimes.db", state, tmp_path / "backup")
        later = [submit(service, notes, "meanwhile") for _ in range(5)]
        while not backing_up.done():
            later.append(submit(service, notes, "meanwhile"))
        after = submit(service, notes, "after")
        end(service, after)
        with pytest.raises(StoreInUse):
            restore(tmp_path / "backup", state / "betimes.db", state, force=True)
        service.kill()

        restore(tmp_path / "backup", state / "betimes.db", state, force=True)
        assert "event" in service.start(state)["error"]
        service.start(state, accepts_loss=True)
        known = sorted(job["job_id"] for job in service.everything("/jobs"))
        assert known == [*range(1, len(known) + 1)]
        assert {runs, *before} <= set(known) <= {runs, *before, *later}
        assert status(service, runs) == "running", "it has run on, and is found again"
        gate.touch()
        for job in known:
            end(service, job)
        end(service, submit(service, notes, "new"))
    assert notes.read_text().splitlines().count("runs begins") == 1
