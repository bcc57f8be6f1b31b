"""Counts that rise and fall over time, as step functions: a value holds from its time to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def levels(time_s: Array, change: Array) -> tuple[Array, Array]:
    """The running sum of changes: distinct times in order, and the value from each of them on."""
    order = np.argsort(time_s, kind="stable")
    ordered = time_s[order]
    last = np.append(ordered[1:] != ordered[:-1], True) if len(ordered) else np.zeros(0, dtype=bool)
    return ordered[last], np.cumsum(change[order])[last]


def units_in_use(start_s: Array, end_s: Array, units: Array) -> tuple[Array, Array]:
    """Units held at any time, from allocation segments."""
    return levels(np.concatenate((start_s, end_s)), np.concatenate((units, -units)))


def jobs_waiting(
    submit_s: Array, leave_s: Array, start_s: Array, end_s: Array, units: Array
) -> tuple[Array, Array]:
    """Jobs in the system without units, from the jobs' stays and all their allocation segments.

    A job holds one allocation at a time, so its segments do not overlap.
    """
    held = units > 0
    times = (submit_s, leave_s, start_s[held], end_s[held])
    signs = (1, -1, -1, 1)
    change = [np.full(len(time), sign) for time, sign in zip(times, signs, strict=True)]
    return levels(np.concatenate(times), np.concatenate(change))


def held_from(row: Array, at_s: Array, segment_row: Array, segment_start_s: Array) -> Array:
    """For each row and time the index of the row's first segment that starts then or later; -1: there is none."""
    times, rows = np.concatenate((at_s, segment_start_s)), np.concatenate((row, segment_row))
    is_segment = np.repeat((0, 1), (len(row), len(segment_row)))
    merged = np.lexsort((is_segment, times, rows))  # what is asked comes before segments that start then
    earlier = np.empty(len(merged), dtype=np.int64)
    earlier[merged] = np.cumsum(is_segment[merged])
    order = np.append(np.lexsort((segment_start_s, segment_row)), -1)  # -1: after the last segment
    found = order[earlier[: len(row)]]
    return np.where(np.append(segment_row, -1)[found] == row, found, -1)


def averages(time_s: Array, value: Array, edges_s: Array) -> Array:
    """Exact averages of a level between edges; it is 0 before its first time, and holds its last value to the end."""
    ends = np.append(time_s, max(edges_s[-1], time_s[-1]))
    area = np.concatenate(([0.0], np.cumsum(value * np.diff(ends))))
    return np.diff(np.interp(edges_s, ends, area)) / np.diff(edges_s)


def thinned(time_s: Array, value: Array, end_s: float, most: int) -> tuple[Array, Array]:
    """At most `most` steps up to `end_s`: exact averages over equal stretches where there were more."""
    if len(time_s) <= most:
        return time_s, value
    edges = np.linspace(time_s[0], end_s, most + 1)
    return edges[:-1], averages(time_s, value, edges)
