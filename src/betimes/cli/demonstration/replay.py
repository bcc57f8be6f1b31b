"""A trace that is replayed by the real service: how far it is, and what came of it."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from betimes.cli.clock import length
from betimes.cli.demonstration.child import Child
from betimes.cli.display import Display
from betimes.cli.listing import say, show_pairs
from betimes.client import Client
from betimes.errors import BetimesError, NotReachable
from betimes.service.views import EventView

_EVERY_S = 5.0  # between two lines where there is no terminal
_LEAST_JCT_S = 1e-3  # of a promise, where an error is a share of it
_OVER = ("finished", "failed", "cancelled")


def replay(child: Child, *, once: bool, as_json: bool) -> None:
    """Follow the replay to its end, sum it up, and unless `once` wait for Ctrl-C."""
    say_it = not as_json
    tally = Tally(child.ready["replayed_jobs"])
    display = Display()
    with Client(state=child.state) as service:
        if say_it:
            say(
                f"A service runs at {child.ready['url']}, under the policy {child.ready['policy']}, and is given "
                f"{tally.jobs:,} jobs of the trace.",
                f"Its state is in {child.state}.",
            )
        try:
            with display.shown():
                _follow(service, tally, display, say_it)
            _sum_up(tally, as_json)
            if not once:
                _stay(child)
        except NotReachable:
            if child.process.poll() is None:
                raise
            raise BetimesError(f"the service has ended: {child.fault()}") from None
        except KeyboardInterrupt:
            if once:
                raise
            say("", f"The service stops. What happened is kept in {child.state}.")


@dataclass
class Tally:
    """What the event log has said so far; times are seconds of the trace."""

    jobs: int
    at_s: float = 0.0
    submitted: dict[int, float] = field(default_factory=dict[int, float])
    started: dict[int, float] = field(default_factory=dict[int, float])
    promised: dict[int, float] = field(default_factory=dict[int, float])  # finishes, as first promised
    jct_s: list[float] = field(default_factory=list[float])
    errors: list[float] = field(default_factory=list[float])  # (JCT in truth - as promised) / as promised
    ended: Counter[str] = field(default_factory=Counter[str])
    preemptions: int = 0

    def take(self, event: EventView) -> None:
        """One more event."""
        self.at_s, number = event.at, event.job_id or 0
        if event.kind == "submitted":
            self.submitted[number] = event.at
        elif event.kind == "started":
            self.started.setdefault(number, event.at)
        elif event.kind == "quoted" and event.data["finish_at"] is not None:
            self.promised.setdefault(number, event.data["finish_at"])
        elif event.kind == "told" and event.data["why"] == "preempted":
            self.preemptions += 1
        elif event.kind in _OVER:
            self.ended[event.kind] += 1
            if event.kind == "finished":
                self.jct_s.append(event.at - self.submitted[number])
                if number in self.promised:
                    jct_s = max(self.promised[number] - self.submitted[number], _LEAST_JCT_S)
                    self.errors.append((event.at - self.promised[number]) / jct_s)

    @property
    def over(self) -> int:
        """Jobs that are."""
        return self.ended.total()

    def __str__(self) -> str:
        waiting = len(self.submitted) - len(self.started)
        return (
            f"{length(self.at_s)} of the trace: {len(self.submitted):,} jobs submitted, {self.over:,} over, "
            f"{waiting:,} not started yet"
        )


def _follow(service: Client, tally: Tally, display: Display, say_it: bool) -> None:
    told = time.monotonic()
    with_bar = sys.stderr.isatty()
    for event in service.events(follow=True):
        tally.take(event)
        display.at("replay", str(tally), tally.over, tally.jobs)
        if say_it and not with_bar and time.monotonic() - told >= _EVERY_S:
            told = time.monotonic()
            say(f"  {tally}")
            sys.stdout.flush()
        if tally.over == tally.jobs:
            return


def _sum_up(tally: Tally, as_json: bool) -> None:
    waits = [at - tally.submitted[number] for number, at in tally.started.items()]
    jct = sorted(tally.jct_s) or [0.0]
    figures = {
        "jobs": tally.over,
        **{kind: tally.ended[kind] for kind in _OVER},
        "makespan_s": tally.at_s - min(tally.submitted.values()),
        "jct_mean_s": statistics.fmean(jct),
        "jct_p50_s": statistics.median(jct),
        "wait_mean_s": statistics.fmean(waits or [0.0]),
        "preemptions": tally.preemptions,
        **_against_promises(tally.errors),
    }
    if as_json:
        from betimes.cli.as_json import print_json

        print_json(figures)
        return
    pairs = [
        ("jobs", ", ".join(f"{tally.ended[kind]:,} {kind}" for kind in _OVER if tally.ended[kind])),
        ("makespan", length(figures["makespan_s"])),
        ("JCT", f"{length(figures['jct_mean_s'])} in the mean, {length(figures['jct_p50_s'])} the median"),
        ("wait", f"{length(figures['wait_mean_s'])} in the mean"),
        ("preemptions", f"{tally.preemptions:,}"),
    ]
    if tally.errors:
        pairs.append(
            (
                "promises",
                f"{len(tally.errors):,}; JCTs were off by {figures['pred_err_mean_frac']:.1%} in the mean, by at most "
                f"{figures['pred_err_p90_frac']:.1%} for nine of ten, {_signed(figures['pred_bias_mean_frac'])}",
            )
        )
    say("", "All of the trace has run:")
    show_pairs(pairs)


def _against_promises(errors: list[float]) -> dict[str, float]:
    """How far jobs were off their promises; nothing where none was made."""
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
    """Between two of them, linearly."""
    at = (len(ascending) - 1) * percent / 100.0
    below = ascending[int(at)]
    return below + (at - int(at)) * (ascending[min(int(at) + 1, len(ascending) - 1)] - below)


def _signed(frac: float) -> str:
    return f"{abs(frac):.1%} {'later' if frac > 0 else 'earlier'} in the mean"


def _stay(child: Child) -> None:
    say(
        "",
        "The service runs on until you press Ctrl-C here. In another terminal:",
        "",
        f"  export BETIMES_STATE={child.state}",
        "  betimes jobs --all",
        "  betimes job 2",
    )
    sys.stdout.flush()
    child.process.wait()
    raise BetimesError(f"the service has ended: {child.fault()}")
