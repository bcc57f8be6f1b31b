"""How much of the machines that there were was used: time in which a machine did not exist counts for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple


class Span(NamedTuple):
    """From when until when (infinity: still) there was so much: of a machine what it has, of a task what it holds."""

    since_s: float
    until_s: float
    amounts: Sequence[int]  # thousandths of a GPU, thousandths of a core, MiB


def amount_seconds(spans: Iterable[Span], begin_s: float, end_s: float) -> tuple[Fraction, ...]:
    """Amounts times the seconds for which there were, between two instants, summed by resource: exact, in any order."""
    totals: list[Fraction] = []
    for span in spans:
        since_s, until_s = max(span.since_s, begin_s), min(span.until_s, end_s)
        held = Fraction(until_s) - Fraction(since_s) if until_s > since_s else Fraction(0)
        totals += [Fraction(0)] * (len(span.amounts) - len(totals))
        for at, amount in enumerate(span.amounts):
            totals[at] += amount * held
    return tuple(totals)


def utilisation_frac(
    tasks: Iterable[Span], machines: Iterable[Span], begin_s: float, end_s: float
) -> tuple[float, ...]:
    """The share of each resource of `machines` that `tasks` held between two instants; 0 where there was none."""
    used, there = amount_seconds(tasks, begin_s, end_s), amount_seconds(machines, begin_s, end_s)
    used += (Fraction(0),) * (len(there) - len(used))
    return tuple(float(some / total) if total else 0.0 for some, total in zip(used, there, strict=True))
