"""Figures 1, 2 and 4 to 11 of SoCC 2021: the varied parameter, the curves, and the metrics shown.

A curve is a name with a function that returns its figures at a point. The paper prints few numbers; those that it does
are in `published.csv`, under their curve and point.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from betimes.processes import Do, Say
from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.waiting.runs import UNITS, Figures, Runs, increased
from betimes_papers.waiting.traces import BASELINE, DEFAULT, TRACES, case, files_of

SHORT = ("1m", "3m", "15m", "1h", "4h", "24h")
PATIENCE = ("6h", "12h", "24h", "48h")
SHARES = (0.6, 0.8, 1.0, 1.2, 1.5)  # of the baseline's machines
T, B = "15m", "24h"
LJW = "ljw:t={},length=core_time"
COMPOUND = f"compound:t={T},b={{}},length=core_time"
ON_DEMAND = ("on_demand", "on_demand_increase", "on_demand_points")

Curve = Callable[[Runs, str], Figures]
"""The figures of a curve at a point; none if too few jobs wait to learn from."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: the points of its axis, `x=value`; its curves, the oracle's first; its panels.

    trace: the default trace.
    """

    name: str
    summary: str
    points: tuple[str, ...]
    curves: dict[str, Curve]
    metrics: tuple[str, ...]
    against_oracle: bool = True
    trace: str = DEFAULT


def _value(point: str) -> str:
    return point.partition("=")[2]


def _at(policy: str, run_times: str | None = None) -> Curve:
    """The curve of a policy in which `{}` stands for the point's value."""
    return lambda runs, point: runs.figures(policy.format(_value(point)), run_times=run_times)


def _learned(policy: str, kind: str = "forest", more: str = "") -> Curve:
    """A policy with learned waits; the model is fitted to the waits under the same policy with oracles."""

    def curve(runs: Runs, point: str) -> Figures:
        plain = policy.format(_value(point))
        made = runs.model(kind, plain)
        return {} if made is None else runs.figures(f"{plain},waits=learned,model={made[0]}{more}")

    return curve


def _simulated(policy: str, sizes: str) -> Curve:
    """A policy with simulated waits; no figures if jobs come in chunks or lack the estimates."""

    def curve(runs: Runs, point: str) -> Figures:
        import numpy as np

        if runs.case.in_chunks is not None:
            return {}
        if sizes == "estimate" and np.isnan(runs.case.later.estimate_s).all():
            return {}
        return runs.figures(policy.format(_value(point)), sizes=sizes)

    return curve


def _by_t_or_b(more: str, run_times: str | None = None) -> Curve:
    return lambda runs, point: runs.figures(_compound(point) + more, run_times=run_times)


def _ours_by_t_or_b(runs: Runs, point: str) -> Figures:
    return _learned(_compound(point), more=",lengths=speculate")(runs, point)


def _compound(point: str) -> str:
    """The baseline with the point's t or b."""
    varied = f"{point},b={B}" if point.startswith("t=") else f"t={T},{point}"
    return f"compound:{varied},length=core_time"


def _with_machines(more: str, learns: bool = False) -> Curve:
    def curve(runs: Runs, point: str) -> Figures:
        machines = max(1, round(float(_value(point).rstrip("%")) / 100.0 * runs.machines))
        if not learns:
            return runs.figures(BASELINE + more, machines)
        made = runs.model("forest", BASELINE, machines)
        return (
            {} if made is None else runs.figures(f"{BASELINE},waits=learned,model={made[0]}{more}", machines)
        )

    return curve


def _quality(kind: str) -> Curve:
    """The quality of a model's predictions of waits longer than b."""

    def curve(runs: Runs, point: str) -> Figures:
        if kind == "none":
            return {"mcc": 0.0}  # a constant prediction: all jobs can wait
        made = runs.model(kind, f"sww:{point}")
        return {} if made is None else {"mcc": made[1].mcc[max(made[1].mcc)]}

    return curve


def _run_times(kind: str) -> Curve:
    """The quality of a run-time predictor: correlation for short jobs, and mean error."""

    def curve(runs: Runs, point: str) -> Figures:
        import numpy as np

        from betimes.foresight.waits import mcc
        from betimes.policies import parse_nodes_policy

        jobs = runs.estimated(kind)
        true, guess, t_s = (
            jobs.work_s / jobs.max_units,
            jobs.estimate_s,
            float(str(parse_nodes_policy(f"ljw:{point}").values["t"])),
        )
        error = np.abs(guess - true) / np.maximum(1.0, true)
        units = jobs.max_units
        return {"mcc": mcc(guess * units <= t_s, true * units <= t_s), "mape": 100.0 * float(error.mean())}

    return curve


def _shorter(exponential: bool) -> Curve:
    """The share of all jobs that run for less than the point's time, %."""

    def curve(runs: Runs, point: str) -> Figures:
        import numpy as np

        from betimes.policies import parse_nodes_policy

        t_s = float(str(parse_nodes_policy(f"ljw:{point}").values["t"]))
        run_s = np.concatenate(
            [jobs.work_s / jobs.max_units for jobs in (runs.case.earlier, runs.case.later)]
        )
        share = 1.0 - math.exp(-t_s / run_s.mean()) if exponential else float((run_s < t_s).mean())
        return {"shorter": 100.0 * share}

    return curve


_T = tuple(f"t={t}" for t in SHORT)
_B = tuple(f"b={b}" for b in PATIENCE)
_LJW: dict[str, Curve] = {
    "oracle": _at(LJW),
    "forest": _at(f"{LJW},lengths=estimate", "forest"),
    "last two": _at(f"{LJW},lengths=estimate", "last-two"),
    "10 % error": _at(f"{LJW},lengths=estimate", "10 % error"),
    "speculation": _at(f"{LJW},lengths=speculate"),
    "speculation on spot": _at(f"{LJW},lengths=speculate,spot=true"),
}
_SWW: dict[str, Curve] = {
    "oracle": _at("sww:b={}"),
    "none": _at("sww:b={},waits=none"),
    "learned": _learned("sww:b={}"),
}
_COMPOUND: dict[str, Curve] = {
    "oracle": _by_t_or_b(""),
    "ours": _ours_by_t_or_b,
    "run times": _by_t_or_b(",lengths=estimate,waits=none", "forest"),
}

_LEARNED: dict[str, Curve] = {
    "oracle": _at(COMPOUND),
    "oracle, speculating": _at(f"{COMPOUND},lengths=speculate"),
    "none": _at(f"{COMPOUND},lengths=speculate,waits=none"),
    **{kind: _learned(COMPOUND, kind, ",lengths=speculate") for kind in ("linear", "forest", "boosting")},
    **{
        f"simulated, {name}": _simulated(f"{COMPOUND},lengths=speculate,waits=simulated", sizes)
        for name, sizes in (("true sizes", "true"), ("estimates", "estimate"), ("last two", "last-two"))
    },
}

FIGURES = (
    Figure(
        "waiting-fig1",
        "LJW with known run times: cost on demand and mean wait over the threshold t",
        _T,
        {"fifo": _at(LJW), "sjf": _at(f"{LJW},order=sjf")},
        ("on_demand", "wait"),
        against_oracle=False,
    ),
    Figure(
        "waiting-fig2",
        "Models of run times: error, and how well they tell short jobs",
        _T,
        {kind: _run_times(kind) for kind in ("last-two", "linear", "forest", "boosting", "svr", "net")},
        ("mape", "mcc"),
        against_oracle=False,
    ),
    Figure(
        "waiting-fig3",
        "Run times: the share of jobs that take less, beside an exponential distribution of the same mean",
        tuple(f"t={t}" for t in ("3m", "15m", "1h", "10h")),
        {"jobs": _shorter(exponential=False), "exponential": _shorter(exponential=True)},
        ("shorter",),
        against_oracle=False,
    ),
    Figure(
        "waiting-fig4", "LJW without known run times: cost on demand against the oracle's", _T, _LJW,
        ("on_demand_increase", "on_demand_points"),
    ),
    Figure("waiting-fig5", "LJW without known run times: mean wait", _T, _LJW, ("wait", "wait_increase")),
    Figure(
        "waiting-fig6",
        "Models of waits: how well they tell waits longer than b",
        _B,
        {kind: _quality(kind) for kind in ("none", "linear", "forest", "boosting")},
        ("mcc",),
        against_oracle=False,
    ),
    Figure("waiting-fig7", "SWW with learned waits: cost on demand", _B, _SWW, ON_DEMAND),
    Figure("waiting-fig8", "SWW with learned waits: mean wait", _B, _SWW, ("wait", "wait_increase")),
    Figure(
        "waiting-fig9", "Speculation and learned waits: cost on demand over t and over b", (*_T, *_B), _COMPOUND,
        ON_DEMAND,
    ),
    Figure(
        "waiting-fig10", "Speculation and learned waits: mean wait over t and over b", (*_T, *_B), _COMPOUND,
        ("wait", "wait_increase"),
    ),
    Figure(
        "waiting-fig11",
        "Speculation and learned waits: total cost and mean wait over the number of owned machines",
        tuple(f"s={100 * share:.0f}%" for share in SHARES),
        {"oracle": _with_machines(""), "ours": _with_machines(",lengths=speculate", learns=True)},
        ("total_increase", "wait"),
    ),
    Figure(
        "waiting-fig12",
        "Figure 6 on another trace; the paper's, Google's, is not at hand",
        _B,
        {kind: _quality(kind) for kind in ("none", "linear", "forest", "boosting")},
        ("mcc",),
        against_oracle=False,
        trace="cea-curie-20k",
    ),
    Figure(
        "waiting-learned",
        "Speculation with waits that are known, learned, simulated or not predicted at all: cost and wait",
        (f"b={B}",), _LEARNED, ("rented", *ON_DEMAND, "total_increase", "wait", "wait_increase"),
    ),
)  # fmt: skip


def measures(figure: str, trace: str, data: Path | None) -> Do:
    """A worker's function from a curve and a point, by name, to figures; it holds the trace in memory."""
    runs, curves = Runs(case(trace, data)), next(each for each in FIGURES if each.name == figure).curves

    def measured(task: tuple[str, str], say: Say) -> Figures:
        curve, point = task
        found = curves[curve](runs, point)
        say(1)
        return found

    return measured


def found_in(
    figure: Figure, trace: str, data: Path | None, pace: Pace, workers: Workers
) -> dict[tuple[str, str], Figures]:
    """The figures of each curve at each point."""
    tasks = [(curve, point) for point in figure.points for curve in figure.curves]
    named = [f"{trace}, {curve} at {point}" for curve, point in tasks]
    each = workers.made(measures, (figure.name, trace, data), tasks, pace, named)
    found = dict[tuple[str, str], Figures](zip(tasks, each, strict=True))
    if not figure.against_oracle:
        return found
    oracle = next(iter(figure.curves))
    return {(curve, point): increased(mine, found[oracle, point]) for (curve, point), mine in found.items()}


def published(name: str) -> dict[tuple[str, str], tuple[float, str]]:
    """The published values of a figure: value and note, by `curve/point` and metric."""
    with (Path(__file__).parent / "published.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["case"], row["metric"]): (float(row["value"]), row["note"])
            for row in csv.DictReader(file)
            if row["figure"] == name
        }


def rows_of(figure: Figure, trace: str, found: dict[tuple[str, str], Figures]) -> list[Row]:
    """A row for each metric of each curve at each point."""
    printed = published(figure.name)
    rows = list[Row]()
    for (curve, point), figures in found.items():
        for metric in figure.metrics:
            if metric in figures and not math.isnan(figures[metric]):
                value, note = printed.get((f"{curve}/{point}", metric), (None, ""))
                rows.append(
                    Row(f"{trace}/{curve}/{point}", metric, value, figures[metric], UNITS[metric], note)
                )
    return rows


def experiment(figure: Figure, traces: Sequence[str] = (), full_name: str | None = None) -> Experiment:
    """The experiment of a figure on some of the traces, by default on the figure's trace."""
    traces = traces or (figure.trace,)

    def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        rows, pace = list[Row](), Pace(progress, len(traces) * len(figure.points) * len(figure.curves))
        for trace in traces:
            rows += rows_of(figure, trace, found_in(figure, trace, data, pace, workers))
        return rows

    return Experiment(
        name=full_name or figure.name,
        summary=figure.summary,
        needs=tuple(dict.fromkeys(file for trace in traces for file in files_of(trace))),
        run=run,
        parts=TRACES,
        narrowed=lambda parts: experiment(figure, parts, f"{figure.name}:{'+'.join(parts)}"),
    )


EXPERIMENTS = tuple(experiment(figure) for figure in FIGURES)
