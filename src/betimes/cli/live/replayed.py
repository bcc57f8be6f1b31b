"""Progress and outcome of a trace that the real service replays, from its event log."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from betimes.cli.render.progress import Display
from betimes.cli.render.tables import say, show_pairs
from betimes.units import length

if TYPE_CHECKING:
    from betimes.service.runtime.controller import Controller
    from betimes.service.scheduling.events import Event

EVERY_S = 5.0  # between two lines without a terminal
OVER = ("finished", "failed", "cancelled")
_SAME_S = 1e-3  # no error is counted of a promise for the instant at which it is made


@dataclass
class Tally:
    """Totals of the event log so far; times are seconds of the trace."""

    jobs: int
    at_s: float = 0.0
    submitted: dict[int, float] = field(default_factory=dict[int, float])
    started: dict[int, float] = field(default_factory=dict[int, float])
    promised: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """Of each job's first promise: when it was made, and the finish that it states."""
    jct_s: list[float] = field(default_factory=list[float])
    errors: list[float] = field(default_factory=list[float])
    """(true - promised time) / promised time of first promises, both from the promise to the end."""
    ended: Counter[str] = field(default_factory=Counter[str])
    preemptions: int = 0

    def take(self, at: float, kind: str, job: int | None, data: Mapping[str, Any]) -> None:
        """Add an event."""
        self.at_s, number = at, job or 0
        if kind == "submitted":
            self.submitted[number] = at
        elif kind == "started":
            self.started.setdefault(number, at)
        elif kind == "quoted" and data["finish_at"] is not None:
            median_at = data["quote"].get("finish_median_at")
            self.promised.setdefault(number, (at, data["finish_at"] if median_at is None else median_at))
        elif kind == "stopping" and data["why"] == "preempted":
            self.preemptions += 1
        elif kind in OVER:
            self.ended[kind] += 1
            if kind == "finished":
                self.jct_s.append(at - self.submitted[number])
                made_at, finish_at = self.promised.get(number, (at, at))
                if finish_at - made_at > _SAME_S:
                    self.errors.append((at - finish_at) / (finish_at - made_at))

    @property
    def over(self) -> int:
        """The number of jobs that are over."""
        return self.ended.total()

    def __str__(self) -> str:
        waiting = len(self.submitted) - len(self.started)
        begun_s = next(iter(self.submitted.values()), self.at_s)
        return (
            f"{length(self.at_s - begun_s)} of the trace: {len(self.submitted):,} jobs submitted, {self.over:,} over, "
            f"{waiting:,} not started yet"
        )


@contextmanager
def told_as_it_goes(controller: Controller, jobs: int) -> Iterator[None]:
    """Inside, report the progress of a service through its trace, and sum up once all jobs are over."""
    tally, display, said_at = Tally(jobs), Display(), time.monotonic()

    def heed(events: Sequence[Event]) -> None:
        nonlocal said_at
        was_over = tally.over >= jobs
        for event in events:
            tally.take(event.at_s, event.kind, event.job, event.data)
        if was_over:
            return
        if tally.over >= jobs:
            display.finish("replay")
            sum_up(tally, as_json=False)
            say("", "The service runs on until Ctrl-C.")
            sys.stdout.flush()
            return
        display.at("replay", str(tally), tally.over, jobs)
        if not sys.stderr.isatty() and time.monotonic() - said_at >= EVERY_S:
            said_at = time.monotonic()
            print(f"betimes: {tally}", file=sys.stderr, flush=True)

    controller.listeners.append(heed)
    try:
        with display.shown():
            yield
    finally:
        controller.listeners.remove(heed)


def sum_up(tally: Tally, as_json: bool) -> None:
    """Print the outcome of all jobs: JCTs, waits, preemptions, and the errors of promises, as `accuracy` has them."""
    waits = [at - tally.submitted[number] for number, at in tally.started.items()]
    jct = sorted(tally.jct_s) or [0.0]
    figures = {
        "jobs": tally.over,
        **{kind: tally.ended[kind] for kind in OVER},
        "makespan_s": tally.at_s - min(tally.submitted.values()),
        "jct_mean_s": statistics.fmean(jct),
        "jct_p50_s": statistics.median(jct),
        "wait_mean_s": statistics.fmean(waits or [0.0]),
        "preemptions": tally.preemptions,
        **_against_promises(tally.errors),
    }
    if as_json:
        from betimes.cli.render.as_json import print_json

        print_json(figures)
        return
    pairs = [
        ("jobs", ", ".join(f"{tally.ended[kind]:,} {kind}" for kind in OVER if tally.ended[kind])),
        ("makespan", length(figures["makespan_s"])),
        ("JCT", f"{length(figures['jct_mean_s'])} in the mean, {length(figures['jct_p50_s'])} the median"),
        ("wait", f"{length(figures['wait_mean_s'])} in the mean"),
        ("preemptions", f"{tally.preemptions:,}"),
    ]
    if tally.errors:
        pairs.append(
            (
                "promises",
                f"{len(tally.errors):,}; the time from the first promise to the end was off by "
                f"{figures['pred_err_mean_frac']:.1%} in the mean, by at most {figures['pred_err_p90_frac']:.1%} for "
                f"nine of ten, {_signed(figures['pred_bias_mean_frac'])}",
            )
        )
    say("", "All of the trace has run:")
    show_pairs(pairs)


def _against_promises(errors: list[float]) -> dict[str, float]:
    """The errors of promises; empty if none was made."""
    if not errors:
        return {"promises": 0}
    off = sorted(map(abs, errors))
    return {
        "promises": len(off),
        "pred_err_mean_frac": statistics.fmean(off),
        **{f"pred_err_p{p}_frac": _percentile(off, p) for p in (90, 99)},
        "pred_bias_mean_frac": statistics.fmean(errors),
    }


def _percentile(ascending: list[float], percent: int) -> float:
    """A percentile by linear interpolation."""
    at = (len(ascending) - 1) * percent / 100.0
    below = ascending[int(at)]
    return below + (at - int(at)) * (ascending[min(int(at) + 1, len(ascending) - 1)] - below)


def _signed(frac: float) -> str:
    return f"{abs(frac):.1%} {'later' if frac > 0 else 'earlier'} in the mean"
