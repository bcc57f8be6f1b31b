"""One result in a few figures: the keys that `simulate --json` prints and scripts depend on."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from betimes.errors import InputError
from betimes.outcome import metrics
from betimes.outcome.accuracy import accuracy_of
from betimes.outcome.metrics import mean, percentile
from betimes.outcome.result import Array, JobState, ResourceUse, Result, SelectionColumns

WHOLE = (0.0, 1.0)
STATUSES = ("all", "completed")
_COMPLETED, _UNKNOWN = 1, -1
_CLASSES = {"trial": 1, "best_effort": 0}


def summarise(result: Result, measure: tuple[float, float] = WHOLE, status: str = "all") -> dict[str, Any]:
    """The figures of one result, in the order of the command line's contract; None where not known.

    `jobs`, `unfinished`, `refused` and `predicted` count the selected jobs (see `selected`), `preemptions`
    adds theirs up, and means and percentiles are over those of them that finished (on nodes `finished` counts
    them). `makespan_s`,
    `utilisation_frac` and `timing` are the whole run's. Prediction errors appear where jobs were predicted,
    unfairness where contention was recorded (and, against a fair run, where there was one), figures by
    class where the run has several, `cost_usd` where costs are known. On nodes `utilisation_frac` is that of the
    busiest resource, and there are each resource's own, `killed`, and figures of preemption where there may be any.
    Where machines are rented for jobs alone: `rented_frac`, the share of jobs that ended on one; `wait_mean_h` and
    `wait_max_h`; `on_demand_of_fixed_frac`, the cost of rented machines over that of owned ones; and
    `effective_usd_per_unit_h`, what all machines cost an hour of a job's unit.
    """
    jobs = result.jobs
    rows = selected(result, measure, status)
    done = rows[jobs.finished[rows]]
    per_job = {name: job_metric(result, name)[done] for name in JOB_METRICS}
    jct_s, slowdown = per_job["jct_s"], per_job["slowdown"]
    accepted = jobs.state != JobState.REFUSED
    makespan_s = metrics.makespan(jobs.submit_s[accepted], jobs.finish_s[accepted])
    error = _known(per_job["prediction_error_frac"])
    out: dict[str, Any] = {
        "policy": result.policy,
        "jobs": len(rows),
        "unfinished": int(np.sum(jobs.state[rows] == JobState.UNFINISHED)),
        "refused": int(np.sum(jobs.state[rows] == JobState.REFUSED)),
        "predicted": int(np.sum(~np.isnan(jobs.predicted_finish_s[rows]))),
        "makespan_s": makespan_s,
        "jct_mean_s": mean(jct_s),
        "jct_p50_s": percentile(jct_s, 50),
        "jct_p99_s": percentile(jct_s, 99),
        "wait_mean_s": mean(per_job["wait_s"]),
        "slowdown_mean": mean(slowdown),
        "slowdown_p50": percentile(slowdown, 50),
        "slowdown_p95": percentile(slowdown, 95),
        "utilisation_frac": _utilisation(result, makespan_s),
        "preemptions": int(jobs.preemptions[rows].sum()),
        "timing": timing(result),
    }
    if result.resources:
        out |= _on_nodes(result, rows, makespan_s)
    if np.any(~np.isnan(jobs.predicted_finish_s)):
        out["pred_err_mean_frac"] = mean(np.abs(error))
        out["pred_err_p90_frac"] = percentile(np.abs(error), 90)
        out["pred_err_p99_frac"] = percentile(np.abs(error), 99)
        out["pred_bias_mean_frac"] = mean(error)
        out |= accuracy_of(result, rows)
    if np.any(~np.isnan(jobs.contention_mean)):
        unfair = _known(per_job["unfairness_frac"])
        out["unfairness_mean_frac"] = mean(unfair)
        out["unfairness_p99_frac"] = percentile(unfair, 99)
    if result.fair_finish_s is not None:
        unfair = _known(per_job["unfairness_fair_run_frac"])
        out["unfairness_fair_run_max_frac"] = percentile(unfair, 100)
    if len(np.unique(jobs.qos)) > 1:
        for name, code in _CLASSES.items():
            of_class = jobs.qos[done] == code
            out[f"jobs_{name}"] = int(np.sum(jobs.qos[rows] == code))
            out[f"jct_mean_s_{name}"] = mean(jct_s[of_class])
            for percent in (50, 95, 99):
                out[f"slowdown_p{percent}_{name}"] = percentile(slowdown[of_class], percent)
            out[f"preemptions_{name}"] = int(jobs.preemptions[rows][jobs.qos[rows] == code].sum())
    if result.leases is not None or result.fixed_usd is not None:
        out |= _money(result)
        if np.any(~np.isnan(jobs.cost_usd)):
            out |= _waiting_or_renting(result, done)
    elif np.any(~np.isnan(jobs.cost_usd)):
        out["cost_usd"] = metrics.total(_known(jobs.cost_usd[rows]))
    if result.selections is not None:
        out |= _selected_policies(result.selections)
    return _plain(out)


def _utilisation(result: Result, makespan_s: float) -> float:
    if not result.resources:
        return metrics.utilisation(result.jobs.units_s, result.units, makespan_s)
    return max(_held_frac(resource, makespan_s) for resource in result.resources)


def _held_frac(resource: ResourceUse, makespan_s: float) -> float:
    return resource.held_s / (resource.total * makespan_s) if makespan_s > 0 else math.nan


def _on_nodes(result: Result, rows: Array, makespan_s: float) -> dict[str, Any]:
    """The figures of nodes only; a preempted job's interval counts once it runs again."""
    jobs, out = result.jobs, dict[str, Any]()
    out["finished"] = int(np.sum(jobs.finished[rows]))
    out["killed"] = int(np.sum(jobs.state[rows] == JobState.KILLED))
    for resource in result.resources:
        name = resource.name.removesuffix("_gib")
        out[f"utilisation_{name}_frac"] = _held_frac(resource, makespan_s)
    if result.absences is not None:
        out["preempted_jobs"] = int(np.sum(jobs.preemptions[rows] > 0))
        absences = result.absences.take(np.isin(result.absences.row, rows))
        intervals = {
            "reschedule": absences.resumed_s - absences.preempted_s,
            "vacated_to_resumed": absences.resumed_s - absences.vacated_s,
        }
        for name, seconds in intervals.items():
            for percent in (50, 95):
                out[f"{name}_p{percent}_s"] = percentile(seconds, percent)
    return out


def _money(result: Result) -> dict[str, Any]:
    """The cost of all machines of the run, and the use of the rented ones."""
    leases, fixed_usd = result.leases, result.fixed_usd or 0.0
    rented_usd = metrics.total(leases.cost_usd) if leases is not None else 0.0
    out: dict[str, Any] = {
        "cost_usd": rented_usd + fixed_usd,
        "on_demand_usd": rented_usd,
        "fixed_usd": fixed_usd,
        "instances": len(leases) if leases is not None else 0,
        "migrations": result.migrations,
    }
    if leases is not None:
        there_s = metrics.total(np.maximum(0.0, leases.ended_s - leases.booted_s))
        out["idle_machine_h"] = metrics.total(leases.idle_s) / 3600.0
        out["tasks_per_instance"] = metrics.total(leases.task_s) / there_s if there_s > 0 else math.nan
    return out


def _waiting_or_renting(result: Result, done: Array) -> dict[str, Any]:
    """Savings and costs of waiting, if machines are rented for jobs alone (spec A.8 of the waiting policies)."""
    jobs, fixed_usd = result.jobs, result.fixed_usd or 0.0
    wait_s, ended = _wait(result)[done], jobs.finished
    rented_usd = metrics.total(result.leases.cost_usd) if result.leases is not None else 0.0
    return {
        "rented_frac": mean(jobs.rented[done].astype(np.float64)),
        "wait_mean_h": mean(wait_s) / 3600.0,
        "wait_max_h": percentile(wait_s, 100) / 3600.0,
        "on_demand_of_fixed_frac": rented_usd / fixed_usd if fixed_usd > 0 else math.nan,
        "effective_usd_per_unit_h": metrics.effective_price(
            rented_usd + fixed_usd, jobs.run_alone_s[ended], jobs.max_units[ended]
        ),
    }


def _selected_policies(selections: SelectionColumns) -> dict[str, Any]:
    """Selections and simulations of a portfolio, and the share of selections won by each simulated policy."""
    members, of_row = np.unique(selections.member, return_inverse=True)
    won = np.bincount(of_row[selections.chosen], minlength=len(members))
    out: dict[str, Any] = {"selections": int(won.sum()), "simulations": len(selections)}
    order = np.argsort(-won, kind="stable").tolist()
    return out | {f"selected_{members[at]}_frac": float(won[at] / won.sum()) for at in order}


def timing(result: Result) -> dict[str, Any]:
    """The timing of the run, and jobs per second of the event loop."""
    took = result.timing
    jobs_per_s = len(result.jobs) / took.wall_s if took.wall_s > 0 else None
    return {
        "load_s": took.load_s,
        "compile_s": took.compile_s,
        "wall_s": took.wall_s,
        "jobs_per_s": jobs_per_s,
        "events": took.events,
    }


def selected(result: Result, measure: tuple[float, float] = WHOLE, status: str = "all") -> Array:
    """Indices of the jobs that count: a window of the submit order, then the trace's status.

    `measure` is a pair of fractions (0.1, 0.9); windows that touch share no job and leave none out.
    `completed` keeps the jobs that the trace calls completed. Raises InputError where nothing is left.
    """
    low, high = measure
    if not 0.0 <= low < high <= 1.0:
        raise InputError(f"measure {low}..{high}: expected fractions with 0 <= first < second <= 1")
    if status not in STATUSES:
        raise InputError(f"status {status!r}: expected one of {', '.join(STATUSES)}")
    n = len(result.jobs)
    # A millionth of a job of slack: 0.29 * 100 is 28.999999999999996 and means 29.
    rows = np.arange(math.floor(low * n + 1e-6), math.floor(high * n + 1e-6))
    if not len(rows):
        raise InputError(f"measure {low:.4%}..{high:.4%} of {n} jobs selects none; widen it")
    if status == "all":
        return rows
    given = result.jobs.status
    if np.all(given == _UNKNOWN):
        raise InputError("status completed: the trace does not say which jobs completed; use status all")
    rows = rows[given[rows] == _COMPLETED]
    if not len(rows):
        raise InputError("status completed: none of the measured jobs completed in the trace; use status all")
    return rows


def parse_measure(text: str) -> tuple[float, float]:
    """Read `10%..90%` into (0.1, 0.9); raises InputError that names the expected form."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*\.\.\s*(\d+(?:\.\d+)?)\s*%\s*", text, re.ASCII)
    if found is None:
        raise InputError(f"measure {text!r}: expected two percentages, for example 10%..90%")
    low, high = float(found[1]) / 100.0, float(found[2]) / 100.0
    if not low < high <= 1.0:
        raise InputError(f"measure {text!r}: the first must be less than the second, and neither above 100%")
    return low, high


def job_metric(result: Result, name: str) -> Array:
    """One measure of every job, one value a row of `result.jobs`; NaN where it has none.

    Names: `jct_s`, `wait_s`, `slowdown`, `bounded_slowdown`, `prediction_error_frac` (signed),
    `unfairness_frac` (event-averaged contention), `unfairness_fair_run_frac`. Raises InputError for others.
    """
    if name not in JOB_METRICS:
        raise InputError(f"metric {name!r}: expected one of {', '.join(JOB_METRICS)}")
    return JOB_METRICS[name](result)


def to_json(value: Any, indent: int | None = 2) -> str:
    """Valid JSON, numbers as short as exact, NaN and infinities as null; dataclasses become objects."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _jct(result: Result) -> Array:
    return metrics.jct(result.jobs.submit_s, result.jobs.finish_s)


def _wait(result: Result) -> Array:
    return metrics.wait(result.jobs.submit_s, result.jobs.start_s)


def _slowdown(result: Result) -> Array:
    return metrics.slowdown(_jct(result), result.jobs.run_alone_s)


def _bounded_slowdown(result: Result) -> Array:
    return metrics.bounded_slowdown(_jct(result), result.jobs.run_alone_s)


def _prediction_error(result: Result) -> Array:
    jobs = result.jobs
    return metrics.prediction_error(jobs.submit_s, jobs.finish_s, jobs.predicted_finish_s)


def _unfairness(result: Result) -> Array:
    jobs = result.jobs
    fair = metrics.fair_finish_time(jobs.work_s, jobs.max_units, jobs.contention_mean, result.units)
    return metrics.unfairness(_jct(result), fair)


def _unfairness_fair_run(result: Result) -> Array:
    if result.fair_finish_s is None:
        return np.full(len(result.jobs), np.nan)
    return metrics.unfairness_fair_run(result.jobs.submit_s, result.jobs.finish_s, result.fair_finish_s)


JOB_METRICS: dict[str, Callable[[Result], Array]] = {
    "jct_s": _jct,
    "wait_s": _wait,
    "slowdown": _slowdown,
    "bounded_slowdown": _bounded_slowdown,
    "prediction_error_frac": _prediction_error,
    "unfairness_frac": _unfairness,
    "unfairness_fair_run_frac": _unfairness_fair_run,
}


def _known(values: Array) -> Array:
    return values[~np.isnan(values)]


def _plain(value: Any) -> Any:
    """The value in Python's built-in types, with None for NaN and infinities."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
