"""Weighted fair queueing over size classes: PCS (OSDI 2024, section 4).

Jobs are put into classes by size. Classes share the units by weight; inside a class jobs are served in order of
submission, each capped where its efficiency falls below zeta_min. Units left over go to jobs of the same class with
the cap relaxed by delta, again and again; units that the class cannot use at all go to the other classes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import cast

import numpy as np

from betimes.core.pool.columns import Again, Grant, View
from betimes.errors import PolicyError
from betimes.kernels import Floats, Ints, Records, full_kernel
from betimes.policies.hooks import BY_CLASS, Parameter, Policy, Prepared, Setting, Value
from betimes.policies.pool.wfq_classes import exponential_weights, steepest_decay, thresholds_by_variation

# View.params: the number of relaxations of the cap after which it is the job's demand, then all thresholds (the
# last one infinite), then all weights. View.table: caps by (relaxations so far x curve, max_units).
RELAXATIONS = 0
FIRST_THRESHOLD = 1

NEARLY_NOTHING = 1e-9  # of a unit: rounding error of a share


@full_kernel
def size_class(view: View, slot: int) -> int:
    """The first class whose threshold the believed size does not exceed."""
    group = 0
    while view.jobs[slot].size_s > view.params[FIRST_THRESHOLD + group]:
        group += 1
    return group


@full_kernel
def share_by_class(view: View, now: float, grants: Records[Grant], again: Records[Again]) -> int:
    """Divide the units among the classes by weight, and inside each class in order of submission."""
    share = class_shares(view)
    count, left = 0, view.pool[0].units
    for group in range(len(share)):
        if share[group] > 0.0:
            served = count
            count = _serve_class(view, grants, group, share[group], served)
            for at in range(served, count):
                left -= grants[at].units
    left = _tidied(left)
    if left > 0.0:
        count = _offer_rest(view, grants, count, left)
    return count


@full_kernel
def class_shares(view: View) -> Floats:
    """Units of each class: its part by weight, or its demand if that is less, with the rest for the others."""
    classes = len(view.groups)
    share, part = np.zeros(classes), np.zeros(classes)
    left, total = view.pool[0].units, 0.0
    for group in range(classes):
        if view.groups[group].demand > 0.0:
            part[group] = view.params[FIRST_THRESHOLD + classes + group]
            total += part[group]
    while total > 0.0:
        # Classes whose demand is within their part are satisfied; the others divide the rest.
        remaining, weight = left, 0.0
        for group in range(classes):
            if part[group] > 0.0:
                if view.groups[group].demand <= left * (part[group] / total):
                    share[group] = view.groups[group].demand
                    part[group] = 0.0
                    remaining -= share[group]
                else:
                    weight += part[group]
        if remaining == left:
            break
        left, total = remaining, weight
    for group in range(classes):
        if part[group] > 0.0:
            share[group] = left * (part[group] / total)
    if view.pool[0].fractional == 0:
        _round_shares(view, share)
    return share


@full_kernel
def _round_shares(view: View, share: Floats) -> None:
    """Round shares to whole units by largest remainder, ties to the class of smaller jobs."""
    remainder = np.empty(len(share))
    total, whole = 0.0, 0.0
    for group in range(len(share)):
        floor = math.floor(share[group] + NEARLY_NOTHING)
        total += share[group]
        whole += floor
        remainder[group] = share[group] - floor if floor < view.groups[group].demand else -1.0
        share[group] = floor
    for _ in range(int(math.floor(total + NEARLY_NOTHING) - whole)):
        largest = 0
        for group in range(1, len(share)):
            if remainder[group] > remainder[largest] + NEARLY_NOTHING:
                largest = group
        share[largest] += 1.0
        remainder[largest] = -1.0


@full_kernel
def _serve_class(view: View, grants: Records[Grant], group: int, share: float, first: int) -> int:
    """Hand `share` units to the class, from grants[first] on; returns where its grants end."""
    line = view.order[group]
    curves = view.speedup.shape[0]
    relaxations = int(view.params[RELAXATIONS])
    count, left = first, share
    for relaxed in range(relaxations + 1):
        count, left = first, share
        for place in range(view.groups[group].head, view.groups[group].tail):
            slot = line[place]
            job = view.jobs[slot]
            cap = job.max_units
            if relaxed < relaxations:
                cap = max(view.table[relaxed * curves + job.curve, cap], job.min_units)
            units = min(left, float(cap))
            if job.least - NEARLY_NOTHING <= units < job.least:
                units = float(job.least)  # 8 x (0.3 / 0.8) is a little less than 3
            if units >= job.least:
                grants[count].job = slot
                grants[count].units = units
                count += 1
                left -= units
                if left <= NEARLY_NOTHING:
                    return count
    return count


@full_kernel
def _tidied(units: float) -> float:
    """Left-over units without the rounding error of shares, as minimum widths are whole."""
    return float(round(units)) if abs(units - round(units)) <= NEARLY_NOTHING else units


@full_kernel
def _offer_rest(view: View, grants: Records[Grant], served: int, left: float) -> int:
    """Give units left over by minimum widths to jobs that can use them, class by class in order of submission."""
    count, at = served, 0
    for group in range(len(view.groups)):
        for place in range(view.groups[group].head, view.groups[group].tail):
            slot = view.order[group, place]
            job = view.jobs[slot]
            if at < served and grants[at].job == slot:
                more = min(left, job.max_units - grants[at].units)
                grants[at].units += more
                left = _tidied(left - more)
                at += 1
            elif min(left, float(job.max_units)) >= max(job.least, NEARLY_NOTHING):
                grants[count].job = slot
                grants[count].units = min(left, float(job.max_units))
                left = _tidied(left - grants[count].units)
                count += 1
    return count


def _prepare(values: dict[str, Value | None], setting: Setting) -> Prepared:
    thresholds = _thresholds(values, setting)
    weights = class_weights(values, len(thresholds) + 1)
    caps = _cap_tables(
        setting.speedup,
        float(cast(float, values["zeta_min"])),
        float(cast(float, values["delta"])),
        values["cap"] == "first-violation",
    )
    relaxations = len(caps) // len(setting.speedup)
    params = [float(relaxations), *thresholds, math.inf, *(float(w) for w in weights)]
    return Prepared(np.array(params), caps if relaxations else np.zeros((1, 1), dtype=np.int64), len(weights))


def _thresholds(values: dict[str, Value | None], setting: Setting) -> tuple[float, ...]:
    given = cast("tuple[Fraction, ...] | None", values["thresholds"])
    weights = cast("tuple[Fraction, ...] | None", values["weights"])
    if given is None and weights is not None and len(weights) == 1:
        return ()
    if given is None:
        published = values["classes"] == "published"
        return thresholds_by_variation(setting.sizes, cast(float, values["T"]), published)
    return increasing(given)


def increasing(given: tuple[Fraction, ...]) -> tuple[float, ...]:
    """Thresholds as given, which must increase; raises PolicyError."""
    ends = tuple(float(t) for t in given)
    if any(b <= a for a, b in pairwise(ends)):
        raise PolicyError("policy wfq, parameter thresholds: they must increase")
    return ends


def class_weights(values: dict[str, Value | None], classes: int) -> tuple[Fraction, ...]:
    """The weight of each class, of sum one, by the parameters; raises PolicyError."""
    given = cast("tuple[Fraction, ...] | None", values["weights"])
    if given is None:
        decay = cast("float | None", values["W"])
        decay = steepest_decay(classes) if decay is None else decay
        return exponential_weights(decay, classes, values["classes"] == "published")
    if len(given) != classes:
        raise PolicyError(
            f"policy wfq, parameter weights: {len(given)} given for {classes} classes; "
            "there is one class more than there are thresholds"
        )
    total = sum(given, Fraction(0))
    return tuple(w / total for w in given)


def _cap_tables(speedup: Floats, zeta_min: float, delta: float, first_violation: bool) -> Ints:
    """Caps by efficiency for zeta_min, zeta_min - delta, ... until no curve is capped.

    Returns (relaxations x curves, widest + 1); entry [k c + i, d] is the cap of a job of curve i with maximum d.
    """
    widest = speedup.shape[1] - 1
    units = np.arange(1, widest + 1, dtype=np.int64)
    efficiency = np.divide(speedup[:, 1:], units, dtype=np.float64)
    lowest, levels = float(np.min(efficiency)), list[float]()
    while lowest < zeta_min:
        levels.append(zeta_min)
        zeta_min -= delta
    enough = np.greater_equal(efficiency, np.array(levels)[:, None, None], dtype=np.bool_)
    if first_violation:
        enough = np.logical_and.accumulate(enough, axis=2)
    caps = np.maximum.accumulate(np.where(enough, units, 1), axis=2)
    tables = np.zeros((len(levels), len(speedup), widest + 1), dtype=np.int64)
    tables[:, :, 1:] = caps
    return tables.reshape(-1, widest + 1)


wfq = Policy(
    name="wfq",
    summary="Classes of jobs by size share the units by weight; each class in order of submission.",
    question="Which trade-off between speed, fairness and predictability do you want?",
    paper="PCS (OSDI 2024), sections 4 and 5",
    parameters=(
        Parameter(
            "thresholds",
            "largest size of each class but the last, seconds on one unit",
            None,
            low=0.0,
            is_list=True,
        ),
        Parameter(
            "T", "without thresholds: largest squared coefficient of variation in a class", 1.0, low=0.0
        ),
        Parameter(
            "classes",
            "how T and W make classes: exactly, or as the published code does: the job that opens a class counts in "
            "none, and weights are rounded to a thousandth (a W that leaves a class less is refused)",
            "exact",
            choices=("exact", "published"),
        ),
        Parameter(
            "weights", "share of each class, that of the smallest jobs first", None, low=1e-9, is_list=True
        ),
        Parameter(
            "W",
            "without weights: class i weighs e^(-iW); not given: 2, or less where a class would have under 0.002",
            None,
            low=-10.0,
            high=10.0,
        ),
        Parameter("zeta_min", "efficiency below which a job is given no more units", 0.7, low=0.0, high=1.0),
        Parameter("delta", "step by which the efficiency asked for is relaxed", 0.1, low=1e-3, high=1.0),
        Parameter(
            "cap",
            "where efficiency is not monotone: stop at the first violation, or the largest width",
            "first-violation",
            choices=("first-violation", "largest"),
        ),
    ),
    classify=size_class,
    allocate=share_by_class,
    in_order=True,
    reads_progress=False,
    playout_whole=BY_CLASS,
    playout_fractional=BY_CLASS,
    prepare=_prepare,
)
