"""Whether the engine's result and the slow object model's say the same."""

from __future__ import annotations

from typing import Any

from betimes.outcome import Result
from tests.reference import ReferenceResult
from tests.twin.pool.driving import recorded_segments

TOLERANCE = 1e-6  # seconds and units; the engine's rounding errors are far smaller


def differences(result: Result, expected: ReferenceResult) -> list[str]:
    """One line for each column in which the two differ."""
    jobs = result.jobs
    first = [
        min(start for row, start, _, _ in expected.segments if row == index) for index in range(len(jobs))
    ]
    columns: dict[str, tuple[Any, Any]] = {
        "start": (jobs.start_s, first),
        "finish": (jobs.finish_s, expected.finish),
        "preemptions": (jobs.preemptions, expected.preemptions),
        "resizes": (jobs.resizes, expected.resizes),
        "lost to restarts": (jobs.restart_s, expected.restart_lost_s),
        "unit-seconds": (jobs.units_s, expected.units_s),
        "contention": (jobs.contention_mean, [seen / count for seen, count in expected.contention]),
    }
    if expected.predictions:
        columns["predicted"] = (jobs.predicted_finish_s, expected.predicted)
    found = [
        f"{name}: {ours.tolist()} instead of {[float(value) for value in theirs]}"
        for name, (ours, theirs) in columns.items()
        if not _near(ours, theirs)
    ]
    ours, theirs = recorded_segments(result), _in_order(expected.segments)
    if len(ours) != len(theirs) or not all(map(_near, _in_order(ours), theirs)):
        found.append(f"segments: {ours} instead of {[tuple(map(float, segment)) for segment in theirs]}")
    return found


def _near(ours: Any, theirs: Any) -> bool:
    return all(abs(float(a) - float(b)) <= TOLERANCE for a, b in zip(ours, theirs, strict=True))


def _in_order(segments: Any) -> list[Any]:
    """By job, then start: the order by start alone hangs on the last bit."""
    return sorted(segments, key=lambda segment: (segment[0], segment[1]))
