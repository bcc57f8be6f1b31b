"""Jobs that ignore SIGTERM: they have their grace period, and no more, also when the service dies meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.service.reliability.starting import Starter, runs_below, starter, until

GRACE_S = 1.5


def hung(folder: Path) -> dict[str, object]:
    """A job that notes SIGTERM and goes on, and starts another that ignores it."""
    forever = "while :; do sleep 0.1; done"
    note = f"touch {folder}/told-$BETIMES_ATTEMPT"
    script = f"trap '{note}' TERM; (trap '' TERM; {forever}) & touch {folder}/up-$BETIMES_ATTEMPT; {forever}"
    return {"command": ["sh", "-c", script], "workdir": "/", "grace_s": GRACE_S, "estimate_s": 1000.0}


def status(service: Starter, job: int) -> str:
    return service.ask("GET", f"/jobs/{job}")["job"]["status"]


@pytest.mark.parametrize("dies", [False, True], ids=["", "the service dies"])
def test_a_cancelled_job_that_hangs_is_killed_when_its_grace_is_over(tmp_path: Path, dies: bool) -> None:
    state = tmp_path / "state"
    with starter() as service:
        service.start(state)
        job = service.ask("POST", "/jobs", hung(tmp_path))["job_id"]
        until((tmp_path / "up-1").exists)
        began = time.monotonic()
        service.ask("POST", f"/jobs/{job}/cancel")
        assert status(service, job) == "stopping"
        if dies:
            until((tmp_path / "told-1").exists)  # it may be answered before the supervisor is asked
            service.kill()
            until(lambda: not runs_below(state))  # its supervisor sees to it
            service.start(state)
        until(lambda: status(service, job) == "cancelled")
        assert time.monotonic() - began >= GRACE_S
        (run,) = service.ask("GET", f"/jobs/{job}")["runs"]
        assert (run["outcome"], run["signal"]) == ("cancelled", 9)
        assert "grace period of 1.5 s was not enough" in run["message"]
        assert not runs_below(state)


def test_a_cancel_ends_a_job_whose_supervisor_is_suspended(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with starter() as service:
        service.start(state)
        job = service.ask("POST", "/jobs", hung(tmp_path))["job_id"]
        until((tmp_path / "up-1").exists)
        shim = json.loads((state / "runs" / str(job) / "1" / "shim.json").read_text())
        os.kill(shim["pid"], signal.SIGSTOP)
        until(lambda: ") T " in Path(f"/proc/{shim['pid']}/stat").read_text())  # a busy machine takes a while
        service.ask("POST", f"/jobs/{job}/cancel")
        until(lambda: status(service, job) == "cancelled")
        events = service.ask("GET", f"/jobs/{job}")["events"]
        said = [event["data"]["message"] for event in events if event["kind"] == "trouble"]
        assert said == ["its supervisor was suspended, and is let go on so that it stops the run"]
        assert not runs_below(state)


@pytest.mark.parametrize("dies", [False, True], ids=["", "the service dies"])
def test_a_trial_job_waits_for_a_hung_victim_no_longer_than_its_grace(tmp_path: Path, dies: bool) -> None:
    state = tmp_path / "state"
    trial = {"command": ["true"], "workdir": "/", "qos": "trial", "estimate_s": 1.0}
    with starter() as service:
        service.start(state, policy="fitgpp", cpus=1.0)
        victim = service.ask("POST", "/jobs", hung(tmp_path))["job_id"]
        until((tmp_path / "up-1").exists)
        first = service.ask("POST", "/jobs", trial)["job_id"]
        until(lambda: status(service, victim) == "stopping")
        if dies:
            service.kill()
            service.start(state)
        until(lambda: status(service, first) == "finished")
        until((tmp_path / "up-2").exists)  # the victim goes on
        story, preempted = (service.ask("GET", f"/jobs/{job}") for job in (first, victim))
        told, started = (
            next(event["at"] for event in one["events"] if event["kind"] == kind)
            for one, kind in ((preempted, "stopping"), (story, "started"))
        )
        assert started - told >= GRACE_S
        assert [run["outcome"] for run in preempted["runs"]] == ["preempted", None]
        assert preempted["job"]["preemptions"] == 1
        service.ask("POST", f"/jobs/{victim}/cancel")
        until(lambda: status(service, victim) == "cancelled")


def test_a_command_that_does_not_exist_is_not_tried_again(tmp_path: Path) -> None:
    with starter() as service:
        service.start(tmp_path)
        first = service.ask("POST", "/jobs", {"command": ["true"], "workdir": "/"})["job_id"]
        # It could be the one that makes the command, so that this is known only when it is to start.
        job = {"command": ["/nowhere/nothing"], "workdir": "/", "retries": 5, "after": [str(first)]}
        number = service.ask("POST", "/jobs", job)["job_id"]
        until(lambda: status(service, number) == "failed")
        story = service.ask("GET", f"/jobs/{number}")
        assert [run["outcome"] for run in story["runs"]] == ["start-failed"]
        assert "'/nowhere/nothing' does not exist" in story["job"]["reason"]["text"]


def test_a_command_that_no_node_has_is_refused_at_submit(tmp_path: Path) -> None:
    with starter() as service:
        service.start(tmp_path)
        for path in ("/jobs", "/quote"):
            with pytest.raises(httpx.HTTPStatusError) as refused:
                service.ask("POST", path, {"command": ["no-such-program"], "workdir": "/"})
            answer = refused.value.response
            assert (answer.status_code, answer.json()["error"]["field"]) == (422, "command")
            assert "'no-such-program' does not exist" in answer.json()["error"]["message"]
        assert service.everything("/jobs") == []


def test_virtual_nodes_run_what_nobody_has(tmp_path: Path) -> None:
    with starter() as service:
        service.start(tmp_path, virtual=True)
        job = {"command": ["no-such-program"], "workdir": "/", "env": {"VIRTUAL_WORK_S": "0.1"}}
        number = service.ask("POST", "/jobs", job)["job_id"]
        until(lambda: status(service, number) == "finished")
