"""The experiments: the portfolio against its members, its selections, and its dependence on parameters."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.portfolio.runs import LOGS, UNITS, Figures, Run, alone, simulates, stretch

if TYPE_CHECKING:
    from betimes.workload import Workload

JOBS = 400  # of each log, unless `full` is asked for
FULL = "full"
PROVISIONING = ("oda", "odb", "ode", "odm", "odx")

Simulate = Callable[[Sequence[Run]], list[tuple[Figures, list[str]]]]
"""Makes runs on a log; returns the figures and the selected members of each."""

Measure = Callable[[Simulate], Iterator[tuple[str, str, float, str]]]
"""Runs one log; yields case, metric, value and unit."""


@dataclass(frozen=True)
class Setting:
    """One point of a sweep: its label, parameters of the portfolio, exponents of U, and beliefs about sizes."""

    label: str
    parameters: str = ""
    alpha: float = 1.0
    beta: float = 1.0
    sizes: str = "true"

    @property
    def policy(self) -> str:
        """The portfolio with these parameters."""
        utility = f"alpha={self.alpha:g},beta={self.beta:g}"
        return f"portfolio:{utility}" + (f",{self.parameters}" if self.parameters else "")

    @property
    def run(self) -> Run:
        """The run with these parameters."""
        return Run(self.label, self.policy, self.sizes, self.alpha, self.beta)


RULES = (
    Setting("default"),
    Setting("whole-run", "rules=whole-run,period=8"),
    Setting("paper", "rules=paper,period=8"),
)
UTILITY = (
    *(Setting(f"alpha={alpha},beta=1", alpha=alpha) for alpha in (1, 2, 3, 4)),
    *(Setting(f"alpha=1,beta={beta}", beta=beta) for beta in (2, 3, 4, 0)),
)
INACCURACY = tuple(Setting(sizes, sizes=sizes) for sizes in ("true", "estimate", "last-two", "noise:0.5"))
PERIOD = tuple(Setting(str(ticks), f"rules=whole-run,period={ticks}") for ticks in (1, 2, 4, 8, 16, 32))
BUDGET = tuple(Setting(str(most), f"period=8,budget={most}") for most in (5, 10, 20, 30, 60))


def against_members(simulate: Simulate) -> Iterator[tuple[str, str, float, str]]:
    """Each member by itself, the portfolio, its rank among them and its gain over the best of each family."""
    runs = {**_members("true"), **{setting.label: setting.run for setting in RULES}}
    found = dict(zip(runs, (figures for figures, _ in simulate(list(runs.values()))), strict=True))
    members = {name: found[name] for name in _members("true")}
    best = {
        family: max(
            (name for name in members if name.startswith(family)), key=lambda name: members[name]["utility"]
        )
        for family in PROVISIONING
    }
    for family, name in best.items():
        yield from _lines(f"best {family}: {name}", members[name])
    top = max(each["utility"] for each in members.values())
    for setting in RULES:
        own = found[setting.label]
        yield from _lines(f"portfolio, {setting.label}", own)
        case, utility = f"portfolio, {setting.label}", own["utility"]
        rank = 1 + sum(each["utility"] > utility for each in members.values())
        yield case, f"rank among {len(members)} members", float(rank), ""
        yield case, "gain over the best member", 100.0 * (utility / top - 1.0), "%"
        for family, name in best.items():
            yield (
                case,
                f"gain over the best {family}",
                100.0 * (utility / members[name]["utility"] - 1.0),
                "%",
            )


def shares(simulate: Simulate) -> Iterator[tuple[str, str, float, str]]:
    """The share of selections won by each member, by family, order and placement."""
    import numpy as np

    for setting, (_, won) in zip(RULES, simulate([setting.run for setting in RULES]), strict=True):
        for part, kind in enumerate(("provisioning", "order", "placement")):
            names, counts = np.unique([name.split("/")[part] for name in won], return_counts=True)
            for name, count in zip(names.tolist(), counts.tolist(), strict=True):
                yield f"{setting.label}, {name}", f"selections by {kind}", 100.0 * count / len(won), "%"


def swept(settings: tuple[Setting, ...], simulate: Simulate) -> Iterator[tuple[str, str, float, str]]:
    """The portfolio with each setting."""
    found = simulate([setting.run for setting in settings])
    for setting, (figures, _) in zip(settings, found, strict=True):
        yield from _lines(setting.label, figures)


def inaccurate(simulate: Simulate) -> Iterator[tuple[str, str, float, str]]:
    """The portfolio, and the best and the median of its members, with each belief about sizes."""
    import statistics

    for setting in INACCURACY:
        (own, _), *others = simulate([setting.run, *_members(setting.sizes).values()])
        members = sorted(figures["utility"] for figures, _ in others)
        yield from _lines(setting.label, own)
        yield setting.label, "utility of the best member", members[-1], ""
        yield setting.label, "utility of the median member", statistics.median(members), ""


def _members(sizes: str) -> dict[str, Run]:
    from betimes.policies.nodes.portfolio import CANDIDATES

    return {name: Run(f"{name}, sizes {sizes}", alone(name), sizes) for name in CANDIDATES}


def _lines(case: str, figures: Figures) -> Iterator[tuple[str, str, float, str]]:
    for metric, value in figures.items():
        if metric != "selections" or value > 0.0:
            yield case, metric, value, UNITS[metric]


def _experiment(
    name: str, summary: str, measure: Measure, runs: int, chosen: tuple[str, ...] = (), full_name: str = ""
) -> Experiment:
    """An experiment on some logs, by default all; `full`: on whole logs."""
    logs = tuple(log for log in LOGS if log in chosen) or tuple(LOGS)
    jobs = None if FULL in chosen else JOBS
    return Experiment(
        name=full_name or name,
        summary=summary,
        needs=tuple(LOGS[log].file for log in logs),
        run=partial(_run, name, measure, runs, logs, jobs),
        parts=(*LOGS, FULL),
        narrowed=lambda parts: _experiment(name, summary, measure, runs, parts, f"{name}:{'+'.join(parts)}"),
    )


def _run(
    name: str,
    measure: Measure,
    runs: int,
    logs: tuple[str, ...],
    jobs: int | None,
    data: Path | None,
    progress: Progress,
    workers: Workers,
) -> list[Row]:
    assert data is not None
    workloads = {log: stretch(LOGS[log], data, jobs) for log in logs}
    pace = Pace(progress, runs * sum(len(each) for each in workloads.values()))
    published = _published(name)
    rows: list[Row] = []
    for log, workload in workloads.items():

        def simulate(some: Sequence[Run], workload: Workload = workload) -> list[tuple[Figures, list[str]]]:
            return workers.made(simulates, (workload,), some, pace, [run.label for run in some])

        for case, metric, value, unit in measure(simulate):
            rows.append(Row(f"{log}/{case}", metric, published.get((log, metric)), value, unit))
    progress("done", pace.total, pace.total)
    return rows


def _published(experiment: str) -> dict[tuple[str, str], float]:
    """By log and metric."""
    text = resources.files("betimes_papers.portfolio").joinpath("published.csv").read_text("utf-8")
    return {
        (line["log"], line["metric"]): float(line["published"])
        for line in csv.DictReader(text.splitlines())
        if line["experiment"] == experiment
    }


EXPERIMENTS = (
    _experiment(
        "portfolio-traces",
        "The portfolio against its 60 members on four logs",
        against_members,
        60 + len(RULES),
    ),
    _experiment("portfolio-selection-share", "Which members the portfolio selects", shares, len(RULES)),
    _experiment(
        "portfolio-utility",
        "The portfolio with exponents of utility from 0 to 4",
        partial(swept, UTILITY),
        len(UTILITY),
    ),
    _experiment(
        "portfolio-inaccuracy",
        "The portfolio and its members with true, estimated and predicted run times",
        inaccurate,
        61 * len(INACCURACY),
    ),
    _experiment(
        "portfolio-period",
        "The portfolio with 1 to 32 ticks from one selection to the next",
        partial(swept, PERIOD),
        len(PERIOD),
    ),
    _experiment(
        "portfolio-budget",
        "The portfolio with 5 to 60 policies simulated in a selection",
        partial(swept, BUDGET),
        len(BUDGET),
    ),
)
