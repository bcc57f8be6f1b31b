"""What is written is read back, whole, after a restart too; what cannot be kept is refused, whole."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from betimes.errors import StoreError, StoreRefused
from betimes.service.access.auth import KeptToken
from betimes.service.scheduling.job_states import Status
from betimes.service.store import Batch, Store
from betimes.service.views.models import JobFilter
from tests.service.store.conftest import Opening
from tests.service.store.rows import event, events, job, node, quote, run, submission


def test_everything_written_is_there_after_a_restart(opened: Opening) -> None:
    store = opened()
    written = event(1, job=7, units=0.1, text="naïve 😀 \0", nothing=None, list=[1, 2.0, "x"])
    store.commit(
        Batch(
            events=[written, event(2, "policy")],
            jobs=[job(7, labels={"team": "vision"}, reason={"code": "full", "evidence": {"gpu": 2}})],
            runs=[run(7, exit_code=0)],
            nodes=[node("b"), node("a", usd_per_h=0.25)],
            quotes=[quote(1, 7, finish_at=5.5)],
            answers=[("ada", "key-1", {"job_ids": [7]})],
            meta={"secret": "s"},
        )
    )
    kept = KeptToken("digest", "ada", name="laptop", made_at=1.0, expires_at=9.5)
    store.add_token(kept)
    store.add_token(KeptToken("other", "root", "operator"))
    store.note_uses({"digest": 2.5})
    assert store.revoke_tokens("ada", "laptop", 3.0) == 1
    assert store.revoke_tokens("ada", "laptop", 4.0) == 0
    store = opened()
    assert store.events() == [written, event(2, "policy")]
    assert store.last_event_id() == 2
    found = store.job(7)
    assert found is not None
    assert {name: found[name] for name in job(7)} == job(7, labels={"team": "vision"})
    assert found["reason"] == {"code": "full", "evidence": {"gpu": 2}}
    assert (found["units"], found["attempt"], found["started_at"]) == (0, 0, None)
    assert store.runs(7)[0]["places"] == [{"node": "local", "units": 2}]
    assert [row["name"] for row in store.nodes()] == ["a", "b"]
    assert store.quotes(7)[0]["finish_at"] == 5.5
    assert store.answer("ada", "key-1") == {"job_ids": [7]}
    assert store.token("digest") == replace(kept, used_at=2.5, revoked_at=3.0)
    assert store.tokens() == store.tokens("ada") == [store.token("digest")]
    assert store.tokens("root") == []
    assert store.meta("secret") == "s"


def test_what_is_not_there_is_none(store: Store) -> None:
    assert store.job(1) is None
    assert store.answer("ada", "k") is None
    assert store.token("x") is None
    assert store.meta("x") is None
    assert store.latest_snapshot() is None
    assert store.events() == store.runs(1) == store.quotes(1) == store.nodes() == store.live_jobs() == []
    assert store.last_event_id() == store.archived_upto == 0


def test_a_row_changes_the_columns_that_it_names(store: Store) -> None:
    store.commit(submission(1))
    store.commit(
        Batch(
            jobs=[
                {"job_id": 1, "status": Status.RUNNING, "units": np.int64(2)},
                {"job_id": 1, "units": 3, "progress_frac": np.float64(0.5)},
            ]
        )
    )
    found = store.job(1)
    assert found is not None
    assert (found["status"], found["units"], found["progress_frac"]) == ("running", 3, 0.5)
    assert found["spec"] == job(1)["spec"]


def test_uploads_are_those_that_jobs_name(store: Store) -> None:
    assert store.uploads() == set()
    specs = [
        {"command": ["x"]},
        {"upload": "5f" * 32},
        {"upload": "a0" * 32},
        {"upload": "5f" * 32, "cpu": 2.0},
    ]
    store.commit(Batch(jobs=[job(number, spec=spec) for number, spec in enumerate(specs, 1)]))
    assert store.uploads() == {"5f" * 32, "a0" * 32}


def test_rows_of_many_jobs_are_those_of_each(store: Store) -> None:
    store.commit(Batch(jobs=[job(number) for number in range(1, 2501)]))
    wanted = [2500, 7, *range(100, 1300), 9999]
    found = store.jobs_of(wanted)
    assert set(found) == set(wanted) - {9999}
    assert all(found[number] == store.job(number) for number in (7, 100, 1299, 2500))


def test_live_jobs_are_those_that_are_not_over(store: Store) -> None:
    statuses = list(Status)
    store.commit(Batch(jobs=[job(at, status=status) for at, status in enumerate(statuses, start=1)]))
    live = [row["status"] for row in store.live_jobs()]
    assert live == [status for status in statuses if not status.is_over]


def test_events_by_job_and_kind(store: Store) -> None:
    store.commit(events(1, 3, job=5))
    store.commit(events(4, 5, kind="started", job=6))
    store.commit(events(6, 6, kind="started", job=5))
    assert [one.event_id for one in store.events(job=5)] == [1, 2, 3, 6]
    assert [one.event_id for one in store.events(kinds={"started"})] == [4, 5, 6]
    assert [one.event_id for one in store.events(kinds=("started", "submitted"), after=2, limit=2)] == [3, 4]
    assert [one.event_id for one in store.events(job=5, kinds=["started"])] == [6]
    assert [one.event_id for one in store.each_event(after=1, page=2)] == [2, 3, 4, 5, 6]


NAN, INFINITE = math.nan, math.inf
BAD: dict[str, tuple[Batch, str]] = {
    "a gap": (Batch(events=[event(3)]), "event 3 .* 2 is next"),
    "a duplicate": (Batch(events=[event(1)]), "event 1 .* 2 is next"),
    "a gap inside": (Batch(events=[event(2), event(4)]), "event 4 .* 3 is next"),
    "NaN in an event": (Batch(events=[event(2, x={"y": [NAN]})]), "events 2, column data"),
    "infinity in an event": (Batch(events=[event(2, x=-INFINITE)]), "events 2, column data"),
    "NaN in a column": (Batch(jobs=[job(2, progress_frac=NAN)]), "jobs 2, column progress_frac: nan"),
    "infinity in a column": (Batch(jobs=[job(2, started_at=INFINITE)]), "jobs 2, column started_at: inf"),
    "NaN in a document": (Batch(jobs=[job(2, spec={"x": NAN})]), "jobs 2, column spec"),
    "NaN in an answer": (Batch(answers=[("ada", "k", [NAN])]), "answers ada, k, column body"),
    "no JSON": (Batch(jobs=[job(2, spec={"x": object()})]), "jobs 2, column spec"),
    "an unknown column": (Batch(jobs=[job(2, colour="red")]), "jobs 2, column colour: .* no column"),
    "a text for a number": (Batch(jobs=[job(2, units="many")]), "jobs 2, column units"),
    "a number for a text": (Batch(jobs=[job(2, name=3)]), "jobs 2, column name"),
    "a fraction for a whole": (Batch(jobs=[job(2, units=1.5)]), "jobs 2, column units"),
    "more than 64 bits": (Batch(jobs=[job(2, units=2**63)]), "jobs 2, column units"),
    "NUL in a text": (Batch(jobs=[job(2, name="a\0b")]), "jobs 2, column name: .*NUL"),
    "half a character": (Batch(jobs=[job(2, name="\ud800")]), "jobs 2, column name"),
    "null where a value must be": (Batch(jobs=[job(2, name=None)]), "jobs 2, column name: None"),
    "labels that are no texts": (Batch(jobs=[job(2, labels={"a": 1})]), "jobs 2, column labels"),
    "no key": (Batch(jobs=[{"status": "queued"}]), "jobs has no job_id"),
    "nothing but a key": (Batch(jobs=[{"job_id": 1}]), "names nothing but job_id"),
    "a part of a row that is not there": (Batch(jobs=[{"job_id": 9, "status": "failed"}]), "not there yet"),
    "a run of no job": (Batch(runs=[run(9)]), "runs|FOREIGN KEY|foreign key"),
    "a quote twice": (Batch(quotes=[quote(2, 1), quote(2, 1)]), "quotes|UNIQUE|unique"),
    "a quote again": (Batch(quotes=[quote(1, 1)]), "quotes|UNIQUE|unique"),
    "an answer again": (Batch(answers=[("ada", "first", 2)]), "answers|UNIQUE|unique"),
    "a name of the store's": (Batch(meta={"store.x": "1"}), "store.x"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_kept_is_refused_and_nothing_beside_it_is_written(store: Store, case: str) -> None:
    store.commit(Batch(events=[event(1)], jobs=[job(1)], quotes=[quote(1, 1)], answers=[("ada", "first", 1)]))
    bad, message = BAD[case]
    beside = Batch(
        events=bad.events or [event(2)],
        jobs=[job(100), *bad.jobs],
        runs=bad.runs,
        quotes=bad.quotes,
        answers=bad.answers,
        nodes=[node("beside")],
        meta=bad.meta | {"beside": "x"},
    )
    with pytest.raises(StoreRefused, match=message):
        store.commit(beside)
    assert store.last_event_id() == 1
    assert store.events() == [event(1)]
    assert store.job(100) is None
    assert store.nodes() == []
    assert store.meta("beside") is None
    store.commit(submission(2))  # and it goes on


@pytest.mark.parametrize("value", [0.1, 1e308, 5e-324, 1.0, 1e22, -1e22, 123456789.123456789])
def test_numbers_come_back_to_the_bit(store: Store, value: float) -> None:
    store.commit(Batch(events=[event(1, x=value)], jobs=[job(1, started_at=value, spec={"x": value})]))
    found: Any = store.job(1)
    assert (found["started_at"], found["spec"]["x"], store.events()[0].data["x"]) == (value, value, value)
    assert type(found["spec"]["x"]) is float


def test_a_changed_label_is_found_by_its_new_value_only(store: Store) -> None:
    store.commit(Batch(jobs=[job(1, labels={"team": "a"})]))
    store.commit(Batch(jobs=[{"job_id": 1, "labels": {"team": "b"}}]))
    assert store.jobs(JobFilter(label={"team": "a"})) == []
    assert [row["job_id"] for row in store.jobs(JobFilter(label={"team": "b"}))] == [1]


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.commit(submission(1))
