"""Logs of earlier versions: they lead to the state that they led to, and the policies decide as they did."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.job import JOBS
from betimes.service.store.event_file import archives, read_archive
from tests.service.declared import undeclared
from tests.service.logs.recording import POLICIES, RESTART_S
from tests.service.logs.rerunning import Rerun, same

LOGS = Path(__file__).parent / "recorded"
AGAIN = "if that is intended, `python -m tests.service.logs.regenerate` records the logs anew"


def events_of(name: str) -> list[Event]:
    return [event for path in archives(LOGS / name).values() for event in read_archive(path)]


@pytest.mark.parametrize("name", POLICIES)
def test_a_log_leads_to_the_recorded_state(name: str) -> None:
    recorded = json.loads(gzip.decompress((LOGS / name / "end.json.gz").read_bytes()))
    folded = json.loads(recovered(None, events_of(name)).to_bytes())
    # Histories have a title and a count by now, too.
    for state in (recorded, folded):
        state["run_times"] = [history[:3] for history in state["run_times"]]
    # And jobs are without what is as by default.
    jobs = JOBS.validate_python(recorded["jobs"])
    recorded["jobs"] = JOBS.dump_python(jobs, mode="json", by_alias=True, exclude_defaults=True)
    for part, value in recorded.items():
        assert same(value, folded.get(part)), f"log {name} leads to another state: {part}; {AGAIN}"


@pytest.mark.parametrize("name", POLICIES)
def test_the_policy_decides_as_it_did(name: str) -> None:
    found = Rerun(events_of(name), Settings(restart_s=RESTART_S)).difference()
    assert found is None, f"log {name}, {found}; {AGAIN}"


@pytest.mark.parametrize("name", POLICIES)
def test_events_have_the_fields_that_their_kinds_declare(name: str) -> None:
    assert {undeclared(event.kind, event.data) for event in events_of(name)} == {None}


def test_logs_hold_what_may_happen() -> None:
    kinds = {event.kind for name in POLICIES for event in events_of(name)}
    assert kinds >= {
        *(
            "submitted",
            "queued",
            "blocked",
            "held",
            "released",
            "granted",
            "nominated",
            "reserved",
            "launched",
        ),
        *(
            "started",
            "resized",
            "stopping",
            "preempts",
            "ended",
            "requeued",
            "retries",
            "cancel-requested",
            "idle",
        ),
        *("finished", "failed", "cancelled", "estimate-changed", "node-added", "node-status"),
    }


@pytest.mark.parametrize(
    ("kind", "field"), [("granted", "units"), ("launched", "places"), ("idle", "reason")]
)
def test_another_decision_is_found_and_named(kind: str, field: str) -> None:
    events = events_of("srsf")
    at = next(at for at, event in enumerate(events) if at > 100 and event.kind == kind)
    events[at] = replace(events[at], data={**events[at].data, field: "another"})
    found = Rerun(events, Settings(restart_s=RESTART_S)).difference()
    assert found is not None
    assert found.startswith(f"event {events[at].event_id}: the log has {kind}")


def test_a_decision_that_is_missing_is_found() -> None:
    events = events_of("srsf")
    at = next(at for at, event in enumerate(events) if at > 100 and event.kind == "granted")
    found = Rerun(events[:at] + events[at + 1 :], Settings(restart_s=RESTART_S)).difference()
    assert found is not None
    assert f"now it is granted of job {events[at].job}" in found
