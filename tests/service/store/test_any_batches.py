"""Whatever is written, in any order: a database in memory, a file that is opened again and a server answer the same."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.errors import StoreRefused
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job_states import Status
from betimes.service.store import Batch, Snapshot, Store, default_url
from betimes.service.views.models import JobFilter
from tests.service.store.conftest import database
from tests.service.store.rows import job, node, quote, run

IDS = st.integers(1, 4)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), max_size=2)
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "status": st.sampled_from([*Status]),
    "user": st.sampled_from(["ada", "bob"]),
    "name": TEXTS,
    "units": st.integers(-(2**63) + 1, 2**63 - 1),
    "finished_at": st.none() | NUMBERS,
    "progress_frac": st.none() | NUMBERS,
    "reason": st.none() | DOCUMENTS,
    "labels": LABELS,
    "spec": DOCUMENTS,
}
PARTS = st.fixed_dictionaries({}, optional=CHANGES)
WHOLE_JOBS = st.builds(lambda number, part: job(number) | part, IDS, PARTS)
JOBS = st.lists(
    st.one_of(WHOLE_JOBS, st.builds(lambda n, part: {"job_id": n} | part, IDS, PARTS)), max_size=4
)
RUNS = st.builds(
    lambda number, at, part: run(number, at) | part,
    IDS,
    st.integers(1, 2),
    st.fixed_dictionaries(
        {}, optional={"exit_code": st.integers(0, 255), "cpu_s": NUMBERS, "message": TEXTS}
    ),
)
QUOTES = st.builds(
    lambda at, number, start: quote(at, number, start_at=start), st.integers(1, 9), IDS, NUMBERS
)
NODES = st.builds(lambda name, cpu: node(name, cpu=cpu), st.sampled_from(["a", "B", "c", "é"]), NUMBERS)
ANSWERS = st.tuples(st.sampled_from(["ada", "bob"]), st.sampled_from(["1", "2", "3"]), DOCUMENTS)
EVENTS = st.tuples(
    NUMBERS, TEXTS, st.none() | IDS, st.dictionaries(st.text(max_size=3), DOCUMENTS, max_size=2)
)


@st.composite
def actions(draw: st.DrawFn) -> tuple[str, Any]:
    kind = draw(st.sampled_from(["commit"] * 8 + ["retain", "archive", "reopen"]))
    if kind == "retain":
        return kind, draw(NUMBERS)
    if kind != "commit":
        return kind, draw(st.integers(1, 3))
    return kind, (
        draw(st.lists(EVENTS, max_size=3)),
        draw(st.booleans()),
        Batch(
            jobs=draw(JOBS),
            runs=draw(st.lists(RUNS, max_size=2)),
            nodes=draw(st.lists(NODES, max_size=2)),
            quotes=draw(st.lists(QUOTES, max_size=1)),
            answers=draw(st.lists(ANSWERS, max_size=1)),
            meta=draw(st.dictionaries(TEXTS, TEXTS, max_size=1)),
        ),
    )


FILTERS = [
    JobFilter(),
    JobFilter(limit=2, after=4),
    JobFilter(user="ada", status=[Status.FAILED, Status.QUEUED, Status.HELD]),
    JobFilter(label={"a": "x"}),
    JobFilter(label={"a": "x", "b": "y"}, status=[Status.QUEUED]),
]


def answers(store: Store) -> list[Any]:
    """All that can be asked."""
    upto = store.archived_upto
    return [
        upto,
        store.last_event_id(),
        store.events(upto),
        store.events(upto, limit=2),
        [store.events(job=number) for number in range(1, 5)],
        [(store.job(number), store.runs(number), store.quotes(number)) for number in range(1, 5)],
        store.nodes(),
        store.live_jobs(),
        store.uploads(),
        [store.jobs(wanted) for wanted in FILTERS],
        [store.answer(user, key) for user in ("ada", "bob") for key in "123"],
        store.latest_snapshot(),
    ]


def _fill(batch: Batch, events: list[Any], with_snapshot: bool, last: int) -> Batch:
    numbered = [
        Event(last + at, at_s, kind, "user:x", number, None, data)
        for at, (at_s, kind, number, data) in enumerate(events, start=1)
    ]
    snapshot = Snapshot(last + len(events), 1.5, "0", bytes([last % 256])) if with_snapshot else None
    return replace(batch, events=numbered, snapshot=snapshot)


def _apply(store: Store, kind: str, what: Any) -> Any:
    try:
        if kind == "commit":
            events, with_snapshot, batch = what
            return store.commit(_fill(batch, events, with_snapshot, store.last_event_id()))
        if kind == "retain":
            return store.retain(what, batch=1)
        return store.archive(what).name
    except StoreRefused:
        return "refused"


def _check(url: str, folder: Path, sequence: list[tuple[str, Any]]) -> None:
    memory, store = Store.in_memory(folder / "memory"), Store.open(url, folder)
    try:
        for kind, what in sequence:
            if kind == "reopen":
                store.close()
                store = Store.open(url, folder)
            else:
                assert _apply(store, kind, what) == _apply(memory, kind, what)
            assert answers(store) == answers(memory)
    finally:
        store.close()
        memory.close()


@settings(max_examples=6)
@given(st.lists(actions(), max_size=8))
def test_sqlite_answers_as_memory_does(sequence: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        _check(default_url(Path(name)), Path(name), sequence)


@settings(max_examples=6)
@given(st.lists(actions(), max_size=8))
def test_postgresql_answers_as_memory_does(postgres_server: str, sequence: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name, database(postgres_server) as url:
        _check(url, Path(name), sequence)
