"""Results as pictures in files (`.svg` or `.png`): distributions, jobs and machines over time, promises, cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from betimes.errors import InputError
from betimes.outcome.figure import (
    COLOURS,
    DASHES,
    GREY,
    MOST_STEPS,
    Kind,
    Paths,
    draw_distribution,
    drawing,
    scale_x,
    scaled_ticks,
)
from betimes.outcome.levels import averages, held_from, jobs_waiting, levels, thinned, units_in_use
from betimes.outcome.result import Array, JobState, Result, SegmentColumns
from betimes.outcome.summary import WHOLE, job_metric, selected
from betimes.outcome.tables import short_names
from betimes.units import S_PER_DAY, TIME_UNITS, humanise_s, time_unit

MOST_ROWS = 60
_READABLE = 0.4  # of a row: the least height of a bar with a number in it
_MOST_LANES = 400  # lines of a picture: each is at least a pixel high
_MOST_JOBS = 120  # lines of jobs: each can be told from the next
_DAYS = 7  # that jobs are drawn over, at most
_MOST_BINS = 800  # stretches of time on such a line


@dataclass(frozen=True)
class Axis:
    """A measure's name on an axis, and its kind: a duration, a ratio or a fraction of 1."""

    name: str
    kind: Kind


METRICS = {
    "jct_s": Axis("Job completion time", "time"),
    "wait_s": Axis("Wait until the first start", "time"),
    "slowdown": Axis("Slowdown (JCT / run time alone)", "ratio"),
    "bounded_slowdown": Axis("Bounded slowdown", "ratio"),
    "prediction_error_frac": Axis("Absolute prediction error (of the predicted JCT)", "percent"),
    "unfairness_frac": Axis("Unfairness (JCT over fair finish time, event-averaged contention)", "percent"),
    "unfairness_fair_run_frac": Axis("Unfairness (JCT over that of a max-min run)", "percent"),
}


def plot_cdf(
    results: Sequence[Result],
    metric: str,
    path: Paths,
    measure: tuple[float, float] = WHOLE,
    status: str = "all",
) -> None:
    """Draw which share of the jobs stays at or below each value of a measure, a curve a result.

    `metric` is one of `METRICS`. Raises InputError for another metric or suffix, or where a result has no
    value of it (unpredicted jobs, say).
    """
    if metric not in METRICS:
        raise InputError(f"metric {metric!r}: expected one of {', '.join(METRICS)}")
    curves = [_sorted_values(result, metric, measure, status) for result in results]
    names = short_names([result.policy for result in results])
    who = names[0] if len(names) == 1 else f"{len(names)} policies"
    title = _title(who, results, [len(curve) for curve in curves])
    draw_distribution(path, curves, names, METRICS[metric].kind, METRICS[metric].name, title)


def plot_timeline(result: Result, path: Paths) -> None:
    """Draw units in use, and jobs waiting (in the system, holding nothing), over time.

    Raises InputError where the result has no segments, or for another suffix.
    """
    segments, jobs = _segments(result), result.jobs
    first_s, end_s = _span(result, segments)
    there = jobs.state != JobState.REFUSED
    leave_s = np.where(np.isnan(jobs.finish_s), end_s, jobs.finish_s)
    held = (segments.start_s, segments.end_s, segments.units)
    with drawing(path, 8.4, 4.8) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        in_use, waiting = units_in_use(*held), jobs_waiting(jobs.submit_s[there], leave_s[there], *held)
        for axes, level, colour in ((upper, in_use, COLOURS[0]), (lower, waiting, COLOURS[1])):
            time_s, value = thinned(*level, end_s, MOST_STEPS)
            x, y = np.append(time_s, end_s) - first_s, np.append(value, value[-1:])
            axes.fill_between(x, y, step="post", color=colour, linewidth=0)
        if _counts_units(result):
            upper.axhline(result.units, color=GREY, linewidth=1, linestyle=DASHES[1])
            upper.set_ylim(0, 1.05 * result.units)
            upper.set_ylabel(f"Units in use (of {result.units:,})")
        else:
            upper.set_ylim(0, max(1.0, 1.05 * float(in_use[1].max())))
            upper.set_ylabel("Units of running jobs")
        lower.set_ylim(0, max(1.0, 1.05 * float(waiting[1].max())))
        for axes in (upper, lower):
            axes.yaxis.get_major_locator().set_params(integer=True)
        lower.set_ylabel("Jobs waiting")
        lower.set_xlim(0, end_s - first_s)
        unit = time_unit([end_s - first_s])
        scaled_ticks(lower, TIME_UNITS[unit])
        averaged = max(len(in_use[0]), len(waiting[0])) > MOST_STEPS
        over = f", averages over {humanise_s((end_s - first_s) / MOST_STEPS)}" if averaged else ""
        lower.set_xlabel(f"Time since the first submission ({unit}){over}")
        upper.set_title(_title(short_names([result.policy])[0], [result], [len(jobs)]))


def plot_allocations(result: Result, path: Paths) -> None:
    """Draw a small run job by job; a bar is as high as the share of the job's greatest width that it holds.

    At most 60 jobs: raises InputError for more, where the result has no segments, or for another suffix.
    """
    segments, jobs = _segments(result), result.jobs
    n = len(jobs)
    if n > MOST_ROWS:
        raise InputError(f"{n} jobs are too many to draw one by one (at most {MOST_ROWS}); draw a timeline")
    first_s, end_s = _span(result, segments)
    rows = np.arange(n)
    submit_s, predicted_s = jobs.submit_s - first_s, jobs.predicted_finish_s - first_s
    gone_s = np.where(jobs.state == JobState.REFUSED, jobs.submit_s, end_s)
    leave_s = np.where(np.isnan(jobs.finish_s), gone_s, jobs.finish_s)
    start_s, length_s = segments.start_s - first_s, segments.end_s - segments.start_s
    height = 0.84 * segments.units / jobs.max_units[segments.row]
    middle = segments.row + 0.42 - height / 2  # rows count downwards; bars stand on a common line
    with drawing(path, 8.4, 1.7 + 0.3 * max(3, n)) as figure:
        axes = figure.subplots()
        axes.hlines(rows + 0.42, submit_s, leave_s - first_s, color=GREY, linewidth=0.8, zorder=2)
        colours = [COLOURS[row % 6] for row in segments.row.tolist()]
        axes.barh(
            middle, length_s, height, start_s, color=colours, edgecolor="white", linewidth=0.6, zorder=3
        )
        for i in np.flatnonzero(height > _READABLE).tolist():
            text = f"{segments.units[i]:.3g}"
            if length_s[i] > (0.012 + 0.012 * len(text)) * (end_s - first_s):
                at = (start_s[i] + length_s[i] / 2, middle[i])
                ink = "white" if colours[i] in COLOURS[:3] else "black"
                axes.annotate(text, at, color=ink, fontsize=8, ha="center", va="center", zorder=4)
        submitted = {"marker": "|", "color": "black", "markersize": 10, "markeredgewidth": 1.6}
        axes.plot(submit_s, rows + 0.2, linestyle="", label="submitted", zorder=5, **submitted)
        if np.isfinite(predicted_s).any():
            promised = {"marker": "D", "color": "white", "markeredgecolor": "black", "markersize": 5}
            axes.plot(
                predicted_s,
                rows + 0.42,
                linestyle="",
                label="finish predicted at arrival",
                zorder=5,
                **promised,
            )
        axes.set_yticks(rows, [str(name) for name in jobs.job_id.tolist()])
        axes.set_ylim(n - 0.35, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_ylabel("Job")
        last_s = float(np.nanmax(np.append(predicted_s[np.isfinite(predicted_s)], end_s - first_s)))
        axes.set_xlim(-0.01 * last_s, 1.01 * last_s)
        unit = time_unit([last_s])
        scaled_ticks(axes, TIME_UNITS[unit])
        axes.set_xlabel(f"Time since the first submission ({unit}); numbers are units held")
        axes.set_title(_title(short_names([result.policy])[0], [result], [n]))
        figure.legend(loc="outside lower right", ncols=2)


def plot_jobs(result: Result, path: Paths) -> None:
    """Draw the life of jobs as lines, first submitted on top: waiting, running, done; evenly chosen where many.

    Of more than a week, the week with the most jobs in the system is drawn. Raises InputError where the result has no
    segments, or for another suffix.
    """
    segments, jobs = _segments(result), result.jobs
    first_s, end_s = _span(result, segments)
    leave_s = np.where(np.isnan(jobs.finish_s), end_s, jobs.finish_s)
    from_s, to_s = _busiest(jobs.submit_s, leave_s, first_s, end_s)
    there = np.flatnonzero((jobs.state != JobState.REFUSED) & (jobs.submit_s <= to_s) & (leave_s >= from_s))
    shown = there[np.unique(np.linspace(0, len(there) - 1, _MOST_JOBS).astype(np.int64))]
    lane = np.full(len(jobs), -1)
    lane[shown] = np.arange(len(shown))
    edges = np.linspace(from_s, to_s, _MOST_BINS + 1)

    def bins(start_s: Array, stop_s: Array) -> tuple[Array, Array]:
        """The first bin of each stretch, and the first after it; a stretch has one at least."""
        first = np.clip(np.searchsorted(edges, start_s, "right") - 1, 0, _MOST_BINS - 1)
        return first, np.maximum(first + 1, np.searchsorted(edges, stop_s))

    image = np.zeros((len(shown), _MOST_BINS), dtype=np.int8)
    for row, begin, end in zip(range(len(shown)), *bins(jobs.submit_s[shown], leave_s[shown]), strict=True):
        image[row, begin:end] = 1
    held = (lane[segments.row] >= 0) & (segments.units > 0)
    held &= (segments.start_s <= to_s) & (segments.end_s >= from_s)
    stretches = bins(segments.start_s[held], segments.end_s[held])
    for row, begin, end in zip(lane[segments.row[held]], *stretches, strict=True):
        image[row, begin:end] = 2
    with drawing(path, 8.4, max(4.8, 1.6 + 0.05 * len(shown))) as figure:
        axes = figure.subplots()
        _image(axes, image, (from_s - first_s, to_s - first_s), ("#FFFFFF", "#F3C998", COLOURS[0]), 2)
        promised_s = jobs.predicted_finish_s[shown] - first_s
        if np.isfinite(promised_s).any():
            style = {"marker": "|", "color": "black", "markersize": 4, "linestyle": "", "alpha": 0.6}
            axes.plot(promised_s, np.arange(len(shown)) + 0.5, label="end promised at submission", **style)
            axes.set_xlim(from_s - first_s, to_s - first_s)
        for colour, label in (("#F3C998", "waits"), (COLOURS[0], "runs")):
            axes.bar([from_s - first_s], [0], color=colour, label=label)
        of = "" if len(shown) == len(there) else f" ({len(shown):,} of {len(there):,} shown)"
        axes.set_ylabel(f"Jobs in order of submission{of}")
        what = "" if (from_s, to_s) == (first_s, end_s) else "; the busiest week"
        axes.set_title(_title(short_names([result.policy])[0], [result], [len(jobs)]) + what)
        figure.legend(loc="outside lower right", ncols=3)


def _busiest(submit_s: Array, leave_s: Array, first_s: float, end_s: float) -> tuple[float, float]:
    """The week with the most jobs in the system in the mean, begun some whole days after the first submission.

    All of the time, where that is not longer.
    """
    if end_s - first_s <= _DAYS * S_PER_DAY:
        return first_s, end_s
    begin_s = first_s + S_PER_DAY * np.arange(int((end_s - first_s) / S_PER_DAY) - _DAYS + 1)
    present = levels(
        np.concatenate((submit_s, leave_s)), np.concatenate((np.ones(len(submit_s)), -np.ones(len(leave_s))))
    )
    days = averages(*present, first_s + S_PER_DAY * np.arange(len(begin_s) + _DAYS))
    weeks = np.convolve(days, np.ones(_DAYS), "valid")
    begin = float(begin_s[int(np.argmax(weeks))])
    return begin, begin + _DAYS * S_PER_DAY


def plot_nodes(result: Result, path: Paths) -> None:
    """Draw how many tasks each node has over time; where there are many nodes, several share a line as a mean.

    Raises InputError where the result has no decisions about nodes, or for another suffix.
    """
    segments, decisions = _segments(result), result.decisions
    if decisions is None or not (decisions.node >= 0).any():
        raise InputError(f"{result.policy}: no nodes were recorded; simulate on nodes with a timeline")
    first_s, end_s = _span(result, segments)
    nodes = int(decisions.node.max()) + 1
    lines = min(nodes, _MOST_LANES // 2)
    placed = np.isin(decisions.what, ("start", "migrate")) & (decisions.node >= 0)
    held = held_from(decisions.row[placed], decisions.at_s[placed], segments.row, segments.start_s)
    line, tasks = decisions.node[placed] * lines // nodes, decisions.tasks[placed] * (held >= 0)
    starts_s, ends_s = segments.start_s[held], segments.end_s[held]
    edges = np.linspace(first_s, end_s, _MOST_BINS + 1)
    image = np.zeros((lines, _MOST_BINS))
    for at in range(lines):
        mine = line == at
        if mine.any():
            image[at] = averages(*units_in_use(starts_s[mine], ends_s[mine], tasks[mine]), edges)
    image *= lines / nodes
    with drawing(path, 8.4, 4.8) as figure:
        axes = figure.subplots()
        shown = _image(axes, image, (0.0, end_s - first_s), None, float(image.max()) or 1.0)
        figure.colorbar(shown, ax=axes, label="Tasks on a node")
        several = "" if lines == nodes else f", {nodes / lines:.3g} a line"
        axes.set_ylabel(f"Nodes{several}")
        axes.set_title(_title(short_names([result.policy])[0], [result], [len(result.jobs)]))


def plot_promises(results: Sequence[Result], path: Paths, most: int = 2000) -> None:
    """Draw promised against true completion times, a panel a result; at most `most` jobs, evenly chosen.

    Raises InputError where a result has no promise that can be judged, or for another suffix.
    """
    columns = min(3, len(results))
    lines = -(-len(results) // columns)
    pairs: list[tuple[Array, Array]] = []
    for result in results:
        jobs = result.jobs
        jct_s, promised_s = jobs.finish_s - jobs.submit_s, jobs.predicted_finish_s - jobs.submit_s
        known = np.flatnonzero((jct_s > 0) & (promised_s > 0) & np.isfinite(jct_s) & np.isfinite(promised_s))
        if not len(known):
            raise InputError(f"{result.policy}: no promise can be judged; simulate with --predict")
        known = known[np.unique(np.linspace(0, len(known) - 1, most).astype(np.int64))]
        pairs.append((promised_s[known], jct_s[known]))
    low = min(float(min(promised.min(), true.min())) for promised, true in pairs)
    high = max(float(max(promised.max(), true.max())) for promised, true in pairs)
    names = short_names([result.policy for result in results])
    with drawing(path, 1.0 + 3.4 * columns, 0.6 + 3.2 * lines) as figure:
        panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
        for axes, (promised, true), name in zip(panels, pairs, names, strict=False):
            axes.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=DASHES[1])
            axes.scatter(promised, true, s=6, color=COLOURS[0], alpha=0.4, linewidths=0, rasterized=True)
            scale_x(axes, "time", "Promised completion time", [promised, np.array([low, high])])
            axes.set_yscale(axes.get_xscale())
            axes.set_yticks(axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()])
            axes.set_ylim(axes.get_xlim())
            axes.yaxis.set_minor_locator(axes.xaxis.get_minor_locator())
            axes.set_title(name)
        for axes in panels[len(pairs) :]:
            axes.set_visible(False)
        figure.supylabel("True completion time", fontsize=10)


def plot_cost(
    policies: Sequence[str], owned_usd: Sequence[float], rented_usd: Sequence[float], path: Paths
) -> None:
    """Draw the cost of each policy: owned machines, and rented ones on top. Raises InputError for another suffix."""
    names = short_names(policies)
    with drawing(path, 7.6, 1.2 + 0.4 * len(names)) as figure:
        axes = figure.subplots()
        owned = np.array(owned_usd)
        axes.barh(names, owned, color=GREY, label="owned machines")
        axes.barh(names, rented_usd, left=owned, color=COLOURS[0], label="rented machines")
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("Cost (USD)")
        figure.legend(loc="outside lower right", ncols=2)


def _image(
    axes: Any, image: Array, span_s: tuple[float, float], colours: Sequence[str] | None, most: float
) -> Any:
    """Lines over time as a picture; one of pixels stays small however many jobs there are."""
    from matplotlib.colors import ListedColormap

    shown = axes.imshow(
        image,
        aspect="auto",
        interpolation="nearest",
        extent=(*span_s, len(image), 0.0),
        cmap="viridis" if colours is None else ListedColormap(list(colours)),
        vmin=0,
        vmax=most,
    )
    axes.grid(visible=False)
    axes.yaxis.get_major_locator().set_params(integer=True)
    unit = time_unit([span_s[1]])
    scaled_ticks(axes, TIME_UNITS[unit])
    axes.set_xlabel(f"Time since the first submission ({unit})")
    return shown


def _sorted_values(result: Result, metric: str, measure: tuple[float, float], status: str) -> Array:
    values = job_metric(result, metric)[selected(result, measure, status)]
    values = np.sort(np.abs(values[np.isfinite(values)]))
    if not len(values):
        raise InputError(f"{result.policy}: no job has a value of {metric}, so there is nothing to draw")
    return values


def _counts_units(result: Result) -> bool:
    """Whether jobs' units are the units that the machine is counted in; on nodes a job's unit may be more."""
    held_s = float(result.jobs.units_s.sum())
    return not result.resources or math.isclose(result.resources[0].held_s, held_s, rel_tol=1e-9)


def _segments(result: Result) -> SegmentColumns:
    if result.segments is None or not len(result.segments):
        raise InputError(f"{result.policy}: no allocations were recorded; simulate with a timeline")
    return result.segments


def _span(result: Result, segments: SegmentColumns) -> tuple[float, float]:
    submit_s = result.jobs.submit_s
    return float(submit_s[0]), float(max(segments.end_s.max(), submit_s[-1]))


def _title(who: str, results: Sequence[Result], counts: list[int]) -> str:
    return f"{who}: {described(results, counts)}"


def described(results: Sequence[Result], counts: Sequence[int] | None = None) -> str:
    """Workload, jobs and machine of some results in a line; counts: of the jobs shown of each, by default all."""
    counts = [len(result.jobs) for result in results] if counts is None else counts
    workloads = list(dict.fromkeys(result.workload_name for result in results))
    what = workloads[0] if len(workloads) == 1 else f"{len(workloads)} workloads"
    units = " or ".join(dict.fromkeys(_machine(result) for result in results))
    low, high = min(counts), max(counts)
    jobs = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{what}, {jobs} job{'' if high == 1 else 's'}, {units}"


def _machine(result: Result) -> str:
    """The machine's size, such as `64 units`, or `672 GPUs` if jobs are not counted in these."""
    what = "unit"
    if not _counts_units(result):
        what = {"gpu": "GPU", "cpu": "core"}.get(result.resources[0].name, "node")
    return f"{result.units:,} {what}{'' if result.units == 1 else 's'}"
