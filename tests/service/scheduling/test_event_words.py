"""Events in words."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.cli.render.events import details
from betimes.cli.render.times import clock
from betimes.service.runtime.to_views import event_view
from betimes.service.scheduling.events import Event
from tests.cli.views import NOW


def say(kind: str, node: str | None = None, **data: Any) -> str:
    """What `betimes events` shows of an event beside its kind."""
    return details(event_view(Event(1, NOW, kind, "policy", 1, node, data)), NOW)


MOVE = {"decided_at": 1.0, "before_usd_per_h": 0.18, "after_usd_per_h": 0.1, "expected_cost_usd": 0.004}


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("submitted", {"believed_s": 60.0, "basis": "estimate", "spec": {}}, "estimated at 60 s (estimate)"),
        (
            "submitted",
            {"believed_s": 7200.0, "basis": "default", "array_id": 4, "array_index": 0},
            "element 0 of array 4, estimated at 2 h (default)",
        ),
        ("granted", {"units": 2, "places": [["a", 1], ["b", 1]]}, "2 units on a (1), b (1)"),
        ("granted", {"units": 1, "places": []}, "1 unit"),
        (
            "migrating",
            {"before": [["c4-0", 1]], "places": [["c2-0", 1]], "keeps_running": False, "move": MOVE},
            "moves at once: on c2-0 instead of on c4-0; expected to save $0.08 an hour, for $0.004",
        ),
        (
            "reconfigured",
            {"jobs": [4, 5, 9], "ended": 2, "rented": 1, "move": MOVE},
            "moves 3 jobs, ends 2 machines, rents 1 machine; expected to save $0.08 an hour as a whole, for $0.004",
        ),
        (
            "moved",
            {"move": {**MOVE, "left_at": 50.0, "resumed_at": 60.0, "paid_usd": 0.3, "paid_until_at": 7260.0}},
            "the move saved $0.03 an hour for 2 h, for $0.0005; expected: $0.08 an hour, for $0.004",
        ),
        (
            "moved",
            {"move": {**MOVE, "left_at": 50.0, "resumed_at": 60.0, "paid_until_at": 60.0}},
            "the run that followed the move was over at once",
        ),
        ("granted", {"units": 0, "places": []}, "no unit: other jobs come first"),
        ("launched", {"number": 2, "units": 1, "places": [["here", 1]]}, "run 2, 1 unit on here"),
        ("started", {"number": 2, "adopted": True}, "run 2 was found running"),
        (
            "ended",
            {"number": 1, "outcome": "preempted", "exit_code": None, "signal": 15, "message": None},
            "run 1, preempted, signal 15",
        ),
        ("finished", {"run_s": 3.1}, "3 s of run time, all runs together"),
        ("finished", {"run_s": 50.0, "lost_s": 100.0}, "50 s of run time, besides 100 s whose work was lost"),
        (
            "estimate-changed",
            {"account": {"left_s": 90.0}, "basis": "progress"},
            "90 s of work left, by its progress",
        ),
        ("reserved", {"places": [["a", 1]], "start_s": 123456.789}, "a start on a"),
        ("opened", {"epoch_at": NOW}, "for the first time"),
        ("node-gone", {"why": "reclaimed"}, "reclaimed by the cloud"),
        ("node-billed", {"cost_usd": 0.06, "more_usd": -0.02}, "$0.06, $0.02 less than was counted"),
        (
            "selected",
            {"member": "oda/fifo/best", "scores": {"a": 1.0, "b": None}, "waiting": 3, "shadow": False},
            "oda/fifo/best, the best of 2 for 3 waiting jobs",
        ),
        (
            "selected",
            {"member": "oda/fifo/best", "scores": {"a": 1.0}, "waiting": 1, "shadow": False},
            "oda/fifo/best, the best of 1 for 1 waiting job, which leaves no order to choose",
        ),
        ("not-selected", {"problem": "it came late"}, "it came late"),
        ("ordered", {"type": "big"}, "a machine of type big"),
        ("not-rented", {"type": "big", "text": "no capacity"}, "no capacity"),
        (
            "node-added",
            {"machine": {"cpu": 4, "memory_gib": 16, "gpu": 1}, "status": "booting", "rented_at": NOW},
            "4 cores, 16 GiB, 1 GPU, rented, booting",
        ),
        ("requeued", {"reason": None}, ""),
        ("fair-share-set", {"half_life_s": 604_800.0}, "use that is 7 d old counts half"),
        ("fair-share-set", {"half_life_s": None}, "users share no more"),
        ("maintenance-over", {"number": 3}, "maintenance 3"),
        (
            "requeued",
            {"reason": {"code": "preempted", "text": "makes room for job 7"}},
            "makes room for job 7",
        ),
    ],
)
def test_details_in_words(kind: str, data: dict[str, Any], text: str) -> None:
    assert say(kind, **data) == text


def test_a_stop_and_a_promise_name_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = {"code": "preempted", "text": "makes room for job 7"}
    told = say("stopping", why="preempted", stop_by_at=NOW + 30, reason=reason)
    assert told.startswith("makes room for job 7, by ")
    assert say("quoted", finish_at=None, quote={"reason": reason}) == (
        "never, unless the load or the nodes change; makes room for job 7"
    )


@pytest.mark.parametrize(
    ("why", "finish_at", "text"),
    [
        ("passed", None, "it is not done yet"),
        ("foreseen", NOW + 600, "it is expected to be done "),
        ("ended", NOW, "it was done "),
    ],
)
def test_a_broken_promise_names_the_promise_and_the_end(why: str, finish_at: float | None, text: str) -> None:
    ends = {"finish_low_at": NOW - 900, "finish_median_at": NOW - 600, "finish_high_at": NOW - 60}
    promise = {"made_at": NOW - 1000, "level": 0.8, **ends}
    told = say("promise-broken", why=why, promise=promise, finish_at=finish_at)
    low, median, high = (clock(at, NOW) for at in ends.values())
    assert told.startswith(f"promised {median} ({low} to {high})")
    assert text in told


def test_a_promise_whose_ends_are_far_apart_is_said_as_its_upper_end() -> None:
    ends = {"finish_low_at": NOW + 10, "finish_median_at": NOW + 60, "finish_high_at": NOW + 600}
    told = say("quoted", finish_at=NOW + 50, quote={"made_at": NOW, "level": 0.9, "reason": None, **ends})
    assert told == f"done {clock(NOW + 60, NOW)}; by {clock(NOW + 600, NOW)} (95 % sure)"


def test_events_of_an_earlier_version_with_other_data_are_shown_as_they_are() -> None:
    assert say("moved", node="here", units=2, places=[["a", 1]]) == "on here units=2 places=a:1"
    assert say("launched", width=2) == "width=2"
