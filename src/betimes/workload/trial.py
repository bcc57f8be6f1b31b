"""Rules that mark jobs as trials, and draw their grace periods, for traces without these."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.errors import InputError, did_you_mean
from betimes.workload.columns import BEST_EFFORT, MOST_S, TRIAL
from betimes.workload.generators.distributions import truncated_normal
from betimes.workload.workload import Workload

Marks = NDArray[np.bool_]

RULES = {
    "run:SECONDS": "jobs that run at most so long at full width",
    "user:SHARE": "all jobs of users, drawn one after another until they have this share of the jobs",
    "random:SHARE": "this share of the jobs, drawn",
    "qos": "openb pods of any quality of service but BE",
}
# Kubernetes's classes and Alibaba's: LS, latency-sensitive, is a trial; BE is best effort.
_QOS_NAMES = {"BE": BEST_EFFORT, "LS": TRIAL, "Burstable": TRIAL, "Guaranteed": TRIAL}
# The longest grace period over the mean, as FitGpp was evaluated: 20 min over 3 min.
_HIGH_OVER_MEAN = 20 / 3
# Apart from each other and from generators under the same seed.
_MARKS_STREAM, _GRACE_STREAM = 0x7472, 0x6772


def mark_trials(
    workload: Workload, rule: str, seed: int = 0, *, speedup_at_max: ArrayLike | None = None
) -> Workload:
    """The same jobs, marked as trials or best-effort (`qos`) by one of `RULES`; the notes keep rule and seed.

    `run` takes the run time at full width: `work_s` over `speedup_at_max`, each job's speed-up at `max_units`
    (linear by default). `user` goes through the users in an order drawn by the seed until at least the share is
    reached (or there are no more); jobs of unknown users are best-effort. `qos` reads the further column
    `qos_name`. Raises InputError for an unknown rule, and where the workload lacks what the rule reads.
    """
    name, colon, value = rule.strip().partition(":")
    rng = np.random.default_rng((_seed(seed), _MARKS_STREAM))
    if name == "run" and colon:
        longest_s = _number(rule, value, f"seconds above 0, and at most {MOST_S:g}", MOST_S)
        speedup = workload.max_units if speedup_at_max is None else np.asarray(speedup_at_max, np.float64)
        trial = workload.work_s / speedup <= longest_s
    elif name == "user" and colon:
        trial = _of_users(workload, _number(rule, value, "a share above 0 and up to 1", 1.0), rng)
    elif name == "random" and colon:
        share = _number(rule, value, "a share above 0 and up to 1", 1.0)
        trial = np.zeros(len(workload), np.bool_)
        trial[rng.permutation(len(workload))[: round(share * len(workload))]] = True
    elif name == "qos" and not colon:
        trial = _of_qos_names(workload)
    else:
        names = tuple(each.partition(":")[0] for each in RULES)
        raise InputError(
            f"trial rule {rule!r}: expected one of {', '.join(RULES)}{did_you_mean(name, names)}"
        )
    return _noted(
        replace(workload, qos=np.where(trial, TRIAL, BEST_EFFORT).astype(np.int8)),
        "trial_rule",
        f"{rule.strip()}, seed {seed}",
    )


def draw_grace(workload: Workload, mean_s: float, high_s: float | None = None, seed: int = 0) -> Workload:
    """The same jobs with grace periods drawn for every one; the notes keep the law and the seed.

    A normal of this mean and the same standard deviation, drawn again outside [0, high_s] (20/3 of the mean by
    default: 20 min for 3 min); 0 s means no grace at all. Raises InputError for a mean below 0 or above
    `high_s`. Source: FitGpp (OpML'19), appendix A; the standard deviation is not stated there.
    """
    high_s = mean_s * _HIGH_OVER_MEAN if high_s is None else high_s
    if not (math.isfinite(mean_s) and math.isfinite(high_s) and 0 <= mean_s <= high_s <= MOST_S):
        raise InputError(
            f"grace periods: expected a mean of 0 s or more, up to the longest one, of at most {MOST_S:g} s, "
            f"found a mean of {mean_s:g} s and at most {high_s:g} s"
        )
    rng = np.random.default_rng((_seed(seed), _GRACE_STREAM))
    n = len(workload)
    grace_s = truncated_normal(rng, n, mean_s, mean_s, 0.0, high_s) if mean_s > 0 else np.zeros(n)
    return _noted(
        replace(workload, grace_s=grace_s), "grace_rule", f"{mean_s:.15g}:{high_s:.15g} s, seed {seed}"
    )


def _of_users(workload: Workload, share: float, rng: np.random.Generator) -> Marks:
    known = workload.user >= 0
    if not known.any():
        raise InputError(
            f"workload {workload.name}: no job has a user, which the trial rule user: needs; take another"
        )
    users, whose = np.unique(workload.user[known], return_inverse=True)
    order = rng.permutation(len(users))
    reached = np.cumsum(np.bincount(whose)[order])
    # A millionth of a job of slack: 0.29 * 100 is 28.999999999999996 and means 29.
    taken = int(np.searchsorted(reached, share * len(workload) - 1e-6)) + 1
    return np.isin(workload.user, users[order[:taken]]) & known


def _of_qos_names(workload: Workload) -> Marks:
    names = workload.extra.get("qos_name")
    if names is None:
        raise InputError(
            f"workload {workload.name}: it has no column qos_name (openb's qos), which the trial rule qos needs"
        )
    for unknown in sorted(set(np.unique(names).tolist()) - set(_QOS_NAMES)):
        row = int(np.argmax(names == unknown))
        raise InputError(
            f"job {workload.job_id[row]}, field qos_name: expected one of {', '.join(_QOS_NAMES)}, found {unknown!r}"
        )
    return np.isin(names, [name for name, qos in _QOS_NAMES.items() if qos == TRIAL])


def _number(rule: str, text: str, expected: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= most:
        raise InputError(f"trial rule {rule!r}: expected {expected}, found {text!r}")
    return number


def _seed(seed: int) -> int:
    if seed < 0:
        raise InputError(f"expected a seed from 0, found {seed}")
    return seed


def _noted(workload: Workload, key: str, value: str) -> Workload:
    workload.validate()
    return replace(workload, notes=replace(workload.notes, header={**workload.notes.header, key: value}))
