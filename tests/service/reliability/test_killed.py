"""The service is killed again and again while it works: no job is lost, doubled, or ends without a record."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from betimes.service.scheduling.fold import recovered
from betimes.service.store.store import Store, default_url
from tests.service.reliability.cluster import equal, seen
from tests.service.reliability.starting import Gone, Starter, runs_below, starter, until

JOB = str(Path(__file__).with_name("job.sh"))
OVER = ("finished", "failed", "cancelled")
POLICIES = ("fifo", "srsf", "las", "nodes:fifo", "fitgpp")


class Work:
    """Jobs of all sorts, what is done to them, and what must have become of them."""

    def __init__(self, folder: Path, service: Starter, seed: int) -> None:
        self.folder, self.service, self.draw = folder, service, random.Random(seed)
        (folder / "pids").mkdir(parents=True)
        (folder / "journal").touch()
        self.sorts: dict[int, str] = {}  # of the accepted jobs
        self.asked: list[
            tuple[str, list[dict[str, Any]], list[str]]
        ] = []  # to be asked (again): key, jobs, sorts
        self.steered: set[int] = set()  # somebody wanted them to end
        self.numbers = 0

    def job(self, sort: str) -> dict[str, Any]:
        draw = self.draw
        code = {"fails": "1", "first": "first"}.get(sort, "0")
        seconds = draw.choice((0.0, 0.02, 0.1, 0.3)) if sort != "long" else draw.uniform(1.0, 3.0)
        found: dict[str, Any] = {
            "command": [JOB, str(self.folder), f"{seconds:.2f}", code],
            "name": sort,
            "workdir": "/",
            "grace_s": 5.0,
            "estimate_s": max(0.1, seconds),
            "qos": draw.choice(("trial", "best-effort")),
        }
        if sort == "first":
            found |= {"retries": 1, "backoff_s": 0.05}
        elif sort == "array":
            found["array"] = "1-6%2"
        elif sort == "after":
            found["after"] = [f"{draw.choice(list(self.sorts))}:any"] if self.sorts else []
        elif sort == "vain":
            failing = [number for number, of in self.sorts.items() if of == "fails"]
            found["after"] = [f"{draw.choice(failing)}:ok"] if failing else []
            if not failing:
                found["name"] = "plain"
        return found

    def prepare(self, count: int) -> None:
        """So many jobs more, in one request or in several."""
        while count > 0:
            many = min(count, self.draw.choice((1, 1, 3, 8)))
            sorts = self.draw.choices(
                ("plain", "fails", "first", "array", "after", "vain", "long"), (10, 2, 2, 1, 2, 1, 1), k=many
            )
            jobs = [self.job(sort) for sort in sorts]
            self.numbers += 1
            self.asked.append((f"key-{self.numbers}", jobs, [job["name"] for job in jobs]))
            count -= sum(6 if job["name"] == "array" else 1 for job in jobs)

    def submit_next(self) -> None:
        key, jobs, sorts = self.asked[0]
        one = len(jobs) == 1 and self.draw.random() < 0.5
        body = jobs[0] if one else {"jobs": jobs}
        found = self.service.ask("POST", "/jobs", body, key=key)
        for sort, taken in zip(sorts, [found] if one else found["jobs"], strict=True):
            self.sorts |= dict.fromkeys(taken["job_ids"], sort)
        del self.asked[0]

    def something(self) -> None:
        """One request of any kind; some are refused, as jobs end meanwhile."""
        draw, service = self.draw, self.service
        what = draw.random()
        some = draw.choice(list(self.sorts)[-20:]) if self.sorts else None
        try:
            if self.asked and what < 0.6:
                self.submit_next()
            elif what < 0.7 and some is not None and draw.random() < 0.3:
                self.steered.add(some)
                service.ask("POST", f"/jobs/{some}/cancel")
            elif what < 0.8 and some is not None:
                service.ask("POST", f"/jobs/{some}/hold")
                service.ask("POST", f"/jobs/{some}/release")
            elif what < 0.85:
                service.ask("PUT", "/policy", {"policy": draw.choice(POLICIES)})
            elif some is not None:
                service.ask("GET", f"/jobs/{some}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in (404, 409):
                raise

    def live(self) -> list[int]:
        statuses = ["held", "blocked", "queued", "running", "stopping"]
        return [job["job_id"] for job in self.service.everything("/jobs", status=statuses)]


class OpenRuns:
    """The runs that have been launched and have not ended, by the log, which is read on from where it was read last."""

    def __init__(self, service: Starter) -> None:
        self.service, self.upto = service, 0
        self.open: dict[
            tuple[int, int], bool
        ] = {}  # by job and number: whether it is known that it has started
        self.unsure: set[tuple[int, int]] = set()  # of which a service that was killed had heard nothing
        self.outcomes: dict[tuple[int, int], str] = {}

    def read(self) -> None:
        """What has been logged since the last time."""
        for event in self.service.everything("/events", after=self.upto):
            self.upto, what, data = event["event_id"], event["kind"], event["data"]
            if what == "recovered":
                self.unsure = {run for run, has_started in self.open.items() if not has_started}
            if what not in ("launched", "started", "ended"):
                continue
            run = (event["job_id"], data["number"])
            if what == "launched":
                assert run not in self.open, event
                self.open[run] = False
            elif what == "started":
                assert self.open[run] is False, event  # once, however many services have had it
                assert run in self.unsure or not data["adopted"], event
                self.open[run] = True
            else:
                del self.open[run]
                self.outcomes[run] = data["outcome"]
            if what != "launched":
                self.unsure.discard(run)

    def are_known(self) -> bool:
        """Whether this service knows of each run that an earlier one had launched that it runs, or how it has ended."""
        self.read()
        return not self.unsure

    def has_started(self, run: tuple[int, int]) -> bool:
        """Whether it is known that a run has started."""
        self.read()
        return self.open.get(run, False)

    def outcome(self, run: tuple[int, int]) -> str | None:
        """How a run has ended; null: it has not."""
        self.read()
        return self.outcomes.get(run)


def one_is_found_again(
    service: Starter, state: Path, may_end: Path, open_runs: OpenRuns, **options: Any
) -> int:
    """A run that goes on for as long as it takes to kill the service, twice, and to start another one; its job."""
    service.start(state, **options)
    command = ["sh", "-c", f"until test -e {may_end}; do sleep 0.05; done"]
    job = service.ask("POST", "/jobs", {"command": command, "workdir": "/"})["job_id"]
    until(lambda: open_runs.has_started((job, 1)))
    for _ in range(2):
        service.kill()
        service.start(state, **options)
        assert open_runs.has_started((job, 1))
    may_end.touch()
    until(lambda: open_runs.outcome((job, 1)) == "exited")
    service.kill()
    return job


def kill_often(tmp_path: Path, jobs: int, kills: int, seed: int, **options: Any) -> dict[str, Any]:
    """Kill the service so often while it runs so many jobs, and look at everything afterwards; options: of it."""
    state, draw = tmp_path / "state", random.Random(seed)
    ready_s: list[float] = []
    with starter() as service:
        open_runs = OpenRuns(service)
        first = one_is_found_again(service, state, tmp_path / "go-on", open_runs, **options)
        work = Work(tmp_path / "work", service, seed)
        work.asked.append(
            ("key-0", [work.job("plain") | {"command": [JOB, str(work.folder), "20", "0"]}], ["plain"])
        )
        for life in range(kills):
            began = time.monotonic()
            assert "url" in service.start(state, **options)
            ready_s.append(time.monotonic() - began)
            if life % 2:  # else it may be killed before it knows
                until(open_runs.are_known)
            work.prepare(
                max(0, jobs * (life + 1) // kills - len(work.sorts) - sum(len(a[1]) for a in work.asked))
            )
            pid, killer = service.pid, threading.Timer(draw.uniform(0.0, 1.2), service.kill)
            killer.start()
            try:
                while True:
                    work.something()
            except Gone:
                killer.join()
                assert pid != service.pid
        service.start(state, **options)
        until(open_runs.are_known)
        while work.asked:
            work.submit_next()
        for job in service.everything("/jobs", status="held"):
            service.ask("POST", f"/jobs/{job['job_id']}/release")
        until(lambda: not work.live(), 300.0)
        last = service.ask("POST", "/jobs", {"command": ["true"], "workdir": "/"})["job_id"]
        until(lambda: not work.live())
        found = look_at_everything(service, state, work, {first, last})
        until(lambda: not runs_below(state))
        service.kill()
        look_at_the_log(state)
    return {**found, "ready_s": sorted(ready_s)}


def look_at_everything(service: Starter, state: Path, work: Work, others: set[int]) -> dict[str, Any]:
    journal = defaultdict(list)
    for line in (work.folder / "journal").read_text().splitlines():
        what, job, attempt, _ = line.split()
        assert what != "twice", line
        journal[int(job), int(attempt)].append(what)
    assert all(whats.count("start") == 1 for whats in journal.values())
    listed = {job["job_id"]: job for job in service.everything("/jobs")}
    assert work.sorts.keys() == listed.keys() - others  # none is lost, none is there twice
    for number, sort in work.sorts.items():
        job = listed[number]
        assert job["status"] in OVER, job
        story = service.ask("GET", f"/jobs/{number}")
        runs = {run["number"]: run for run in story["runs"]}
        assert {attempt for one, attempt in journal if one == number} <= set(runs), (number, runs)
        for run in runs.values():
            assert None not in (run["ended_at"], run["outcome"]), (number, run)
            noted = journal.get((number, run["number"]), [])
            if run["outcome"] == "exited":
                assert noted == ["start", "end"], (number, run, noted)
            assert run["outcome"] in ("exited", "preempted", "resized", "cancelled", "stopped"), (number, run)
        if number in work.steered:
            continue
        last = runs.get(job["attempt"])
        expected = {"fails": "failed", "vain": "cancelled"}.get(sort, "finished")
        assert job["status"] == expected, (sort, story)
        if sort != "vain":
            assert last is not None
            assert "end" in journal[number, last["number"]]
    events = service.everything("/events", after=0)
    assert [event["event_id"] for event in events] == [*range(1, len(events) + 1)]
    assert all(a["at"] <= b["at"] for a, b in pairwise(events))
    adopted = sum(event["kind"] == "started" and event["data"]["adopted"] for event in events)
    outcomes = Counter(event["data"]["outcome"] for event in events if event["kind"] == "ended")
    return {"jobs": len(listed), "events": len(events), "adopted": adopted, "outcomes": dict(outcomes)}


def look_at_the_log(state: Path) -> None:
    """The log alone, from its beginning or from a snapshot, gives the same state."""
    store = Store.open(default_url(state), state)
    try:
        whole, snapshot = recovered(None, store.each_event(0)), store.latest_snapshot()
        assert not whole.jobs
        if snapshot is not None:
            equal(seen(whole), seen(recovered(snapshot.body, store.each_event(snapshot.event_id))))
    finally:
        store.close()


@pytest.mark.slow
def test_no_job_is_lost_or_doubled_however_often_the_service_is_killed(tmp_path: Path) -> None:
    found = kill_often(tmp_path, jobs=240, kills=20, seed=1)
    assert found["adopted"] > 0, found  # how many depends on how busy the machine is
