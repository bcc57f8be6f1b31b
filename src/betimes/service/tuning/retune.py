"""Searches unasked: their occasions and objectives, the point to propose, and the bounds for acting on it.

A bound is one on each objective, such as `jct:avg<=1.05`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from betimes.errors import InputError
from betimes.foresight.tuning import Front, Objective, Point, parse_objective, parse_objectives
from betimes.foresight.tuning.front import BALANCED
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.tuning.drift import MOST_LOOKED_AT, ErrorChart
from betimes.service.tuning.kept import Tuned, reported
from betimes.service.views.models import Reason, TuneSpec
from betimes.units import humanise_s, parse_duration

DRIFT = "drift"
LEAST_S = 60.0  # between two searches
OPTION = "--retune-apply"
_BOUND = re.compile(
    r"(?P<objective>[a-z_]+:[a-z0-9]+)(?P<sign><=|>=)(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<x>x?)"
)
EXPECTED = "write METRIC:MEASURE<=NUMBER, as in jct:avg<=1.05 or pred_err:p99<=0.2"


@dataclass(frozen=True)
class Bound:
    """A limit of an objective. A `factor` multiplies the value of the policy in force on the same workload."""

    objective: Objective
    number: float
    is_factor: bool

    def __str__(self) -> str:
        return (
            f"{self.objective}{'>=' if self.objective.maximised else '<='}{self.number:g}"
            f"{'x' if self.is_factor else ''}"
        )

    def broken_by(self, proposed: Mapping[str, float], in_force: Mapping[str, float] | None) -> str | None:
        """Why these values are not within the bound; null: they are."""
        name = str(self.objective)
        limit = self.number
        if self.is_factor:
            if in_force is None:
                return f"{self}: what the policy in force would bring is not known"
            limit *= in_force[name]
        value = proposed[name]
        if self.objective.cost(value) <= self.objective.cost(limit):
            return None
        return f"{self}: it would be {value:.4g}, and the limit is {limit:.4g}"


def parse_bound(text: str) -> Bound:
    """`jct:avg<=1.05`, `pred_err:p99<=0.2`, `slowdown:p95<=1.1x`, `utilisation:avg>=0.8`. Raises InputError.

    A number with an x multiplies the value of the policy in force, and so does any number for an objective in seconds;
    other numbers are values of the objective.
    """
    found = _BOUND.fullmatch(text.replace(" ", ""))
    if found is None:
        raise InputError(f"{OPTION} {text!r}: {EXPECTED}")
    try:
        objective = parse_objective(found["objective"])
    except InputError as error:
        raise InputError(f"{OPTION} {text!r}: {error}") from None
    number = float(found["number"])
    sign = ">=" if objective.maximised else "<="
    if found["sign"] != sign:
        better = "higher" if objective.maximised else "lower"
        raise InputError(f"{OPTION} {text!r}: {better} {objective} is better; write {objective}{sign}NUMBER")
    if not 0.0 < number < math.inf:
        raise InputError(f"{OPTION} {text!r}: give a number above 0")
    return Bound(objective, number, bool(found["x"]) or objective.unit == "s")


def parse_bounds(texts: Sequence[str]) -> tuple[Bound, ...]:
    """Several, one an objective. Raises InputError."""
    bounds = tuple(parse_bound(text) for text in texts)
    for bound in bounds:
        if sum(other.objective == bound.objective for other in bounds) > 1:
            raise InputError(f"{OPTION}: {bound.objective} has more than one bound; give one")
    return bounds


@dataclass(frozen=True)
class Retune:
    """After so many seconds (null: never), on drift, or both; `spec`: how it is searched.

    bounds: one for each objective within which the proposed point is put in force by itself; none: it never is.
    """

    interval_s: float | None
    on_drift: bool
    spec: TuneSpec
    bounds: tuple[Bound, ...] = ()


def parse_retune(
    when: Sequence[str], objectives: Sequence[str] = (), jobs: int | None = None, apply: Sequence[str] = ()
) -> Retune | None:
    """From the options of `betimes up`; null: none given. `when`: a time, `drift`, or both. Raises InputError.

    Without objectives they are those that have bounds, or else the mean of JCT and of prediction error.
    """
    given = {"--retune-objective": objectives, "--retune-jobs": jobs, OPTION: apply}
    alone = next((option for option, value in given.items() if value), None)
    if not when:
        if alone is not None:
            raise InputError(f"{alone} needs --retune 6h or --retune drift, which set when to tune again")
        return None
    times = [text for text in when if text.strip().lower() != DRIFT]
    if len(times) > 1 or len(when) - len(times) > 1:
        raise InputError(f"--retune {' --retune '.join(when)}: give one time, drift, or one of each")
    bounds = parse_bounds(apply)
    asked = parse_objectives(list(objectives) or [str(bound.objective) for bound in bounds] or _DEFAULT)
    for bound in bounds:
        if bound.objective not in asked:
            raise InputError(
                f"{OPTION} {bound}: {bound.objective} is not among the objectives (--retune-objective)"
            )
    free = [str(each) for each in asked if each not in {bound.objective for bound in bounds}]
    if bounds and free:
        raise InputError(f"{OPTION}: {free[0]} has no bound; give one for each objective")
    spec = TuneSpec(objectives=[str(each) for each in asked])
    if jobs is not None:
        spec = spec.model_copy(update={"jobs": jobs})
    return Retune(_interval(times[0]) if times else None, len(times) < len(when), spec, bounds)


_DEFAULT = TuneSpec().objectives


def _interval(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError(f"--retune {text}: give drift, or a time such as 6h ({error})") from None
    if seconds < LEAST_S:
        raise InputError(f"--retune {text}: give a time of at least {LEAST_S:g}s")
    return seconds


class Watch:
    """Receives the service's events, and reports when a search is due, or a test of whether the workload has changed.

    An interval ends with the next event after it: no search begins while nothing happens.
    """

    def __init__(self, retune: Retune, begun_at: float, live: Sequence[Job]) -> None:
        self.retune = retune
        self._live = {job.job_id: (job.submitted_at, job.promised_finish_at) for job in live}
        self.looks_at = MOST_LOOKED_AT
        self.begins(begun_at)

    def begins(self, at: float) -> None:
        """A search begins: intervals and jobs are counted from here."""
        self._begun_at = at
        self.submitted = self._unseen = 0
        self._judges(at)

    def looked(self) -> None:
        """The workload has been tested for drift."""
        self._unseen = 0

    @property
    def wants_look(self) -> bool:
        """Whether enough jobs have come since the last look for another one."""
        return self.retune.on_drift and self._unseen >= self.looks_at

    def heed(self, event: Event) -> Reason | None:
        """Take an event; why a search is due, or null."""
        found = None
        if event.kind == "submitted" and event.job is not None:
            self._live[event.job] = (event.at_s, None)
            self.submitted += 1
            self._unseen += 1
        elif event.kind == "released" and event.job in self._live:
            self._live[event.job] = (event.at_s, None)  # a promise from before the hold is void
        elif event.kind == "quoted" and event.job in self._live:
            at, promised_at = self._live[event.job]
            self._live[event.job] = (at, event.data["finish_at"] if promised_at is None else promised_at)
        elif event.kind == "policy-set":
            self._judges(event.at_s)
        elif event.kind in ("finished", "failed", "cancelled"):
            found = self._left(event)
        interval_s = self.retune.interval_s
        if interval_s is not None and event.at_s - self._begun_at >= interval_s and self.submitted:
            found = Reason(
                code="interval",
                text=f"{humanise_s(interval_s)} have passed since the last time",
                evidence={"interval_s": interval_s, "submitted": self.submitted},
            )
        return found

    def _judges(self, at: float) -> None:
        """Judge promises anew: only those made from now on, under the policy in force."""
        self._judged_at, self._chart = at, ErrorChart()

    def _left(self, event: Event) -> Reason | None:
        """A job is over; why promises are out of control, or null."""
        submitted_at, promised_at = self._live.pop(event.job or 0, (0.0, None))
        if event.kind != "finished" or promised_at is None or submitted_at < self._judged_at:
            return None
        promised_s = promised_at - submitted_at
        if not self.retune.on_drift or promised_s <= 0.0:
            return None
        return self._chart.take(abs(event.at_s - promised_at) / promised_s)


def propose(front: Front, before: Tuned | None, policy: str, bounds: Sequence[Bound]) -> Point:
    """The point named as the one in force on the previous front, or else PCS-balanced.

    If it breaks bounds, the point nearest to it in number that keeps them, if there is one.
    """
    wanted = front.named(_name(before, policy))
    in_force = reported(next((each for each in front.baselines if each.policy == policy), None))
    fit = [point for point in front if not broken(bounds, point, in_force)]
    return min(fit or [wanted], key=lambda point: (abs(point.number - wanted.number), point.number))


def broken(bounds: Sequence[Bound], point: Point, in_force: dict[str, float] | None) -> str | None:
    """The first bound that a point does not keep, and why; null: it keeps all."""
    found = (bound.broken_by(reported(point) or {}, in_force) for bound in bounds)
    return next((why for why in found if why is not None), None)


def _name(before: Tuned | None, policy: str) -> str:
    points = before.front.points if before is not None else ()
    names = [name for point in points if point.policy == policy for name in point.names]
    return BALANCED if BALANCED in names or not names else names[0]
