"""The experiments: the portfolio against its members, what it selects, and how it depends on its parameters."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.reproduce.experiment import Experiment, Progress, Row
from betimes.reproduce.pace import Pace
from betimes.reproduce.portfolio.runs import LOGS, UNITS, Figures, alone, figures_of, simulated, stretch

if TYPE_CHECKING:
    from betimes.workload import Workload

JOBS = 400  # of each log, unless `full` is asked for
FULL = "full"
PROVISIONING = ("oda", "odb", "ode", "odm", "odx")

Measure = Callable[["Workload", Pace], Iterator[tuple[str, str, float, str]]]
"""Runs one log; gives case, metric, value and unit."""


@dataclass(frozen=True)
class Setting:
    """One point of a sweep: its label, parameters of the portfolio, exponents of U, and what is believed of sizes."""

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


def against_members(workload: Workload, pace: Pace) -> Iterator[tuple[str, str, float, str]]:
    """Each member by itself, the portfolio, its rank among them and its gain over the best of each family."""
    members = _members(workload, pace, "true")
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
        own = simulated(workload, setting.policy)[1]
        pace.run(setting.label, len(workload))
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


def shares(workload: Workload, pace: Pace) -> Iterator[tuple[str, str, float, str]]:
    """Which share of the selections each member won, by family, order and placement."""
    import numpy as np

    for setting in RULES:
        pace.run(setting.label, len(workload))
        found = simulated(workload, setting.policy)[0].selections
        assert found is not None
        won = found.member[found.chosen]
        for part, kind in enumerate(("provisioning", "order", "placement")):
            names, counts = np.unique([name.split("/")[part] for name in won], return_counts=True)
            for name, count in zip(names.tolist(), counts.tolist(), strict=True):
                yield f"{setting.label}, {name}", f"selections by {kind}", 100.0 * count / len(won), "%"


def swept(
    settings: tuple[Setting, ...], workload: Workload, pace: Pace
) -> Iterator[tuple[str, str, float, str]]:
    """The portfolio with each setting."""
    for setting in settings:
        pace.run(setting.label, len(workload))
        result = simulated(workload, setting.policy, setting.sizes)[0]
        yield from _lines(setting.label, figures_of(result, setting.alpha, setting.beta))


def inaccurate(workload: Workload, pace: Pace) -> Iterator[tuple[str, str, float, str]]:
    """The portfolio, and the best and the median of its members, with each belief about sizes."""
    import statistics

    for setting in INACCURACY:
        members = sorted(each["utility"] for each in _members(workload, pace, setting.sizes).values())
        pace.run(setting.label, len(workload))
        own = simulated(workload, setting.policy, setting.sizes)[1]
        yield from _lines(setting.label, own)
        yield setting.label, "utility of the best member", members[-1], ""
        yield setting.label, "utility of the median member", statistics.median(members), ""


def _members(workload: Workload, pace: Pace, sizes: str) -> dict[str, Figures]:
    from betimes.policies.nodes.portfolio import CANDIDATES

    found: dict[str, Figures] = {}
    for name in CANDIDATES:
        pace.run(f"{name}, sizes {sizes}", len(workload))
        found[name] = simulated(workload, alone(name), sizes)[1]
    return found


def _lines(case: str, figures: Figures) -> Iterator[tuple[str, str, float, str]]:
    for metric, value in figures.items():
        if metric != "selections" or value > 0.0:
            yield case, metric, value, UNITS[metric]


def _experiment(
    name: str, summary: str, measure: Measure, runs: int, chosen: tuple[str, ...] = (), full_name: str = ""
) -> Experiment:
    """An experiment on some logs, all where none is chosen; `full`: on the whole of them."""
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
    out: Path | None,
    progress: Progress,
) -> list[Row]:
    assert data is not None
    workloads = {log: stretch(LOGS[log], data, jobs) for log in logs}
    pace = Pace(progress, runs * sum(len(each) for each in workloads.values()))
    published = _published(name)
    rows: list[Row] = []
    for log, workload in workloads.items():
        for case, metric, value, unit in measure(workload, pace):
            rows.append(Row(f"{log}/{case}", metric, published.get((log, metric)), value, unit))
    progress("done", pace.total, pace.total)
    if out is not None:
        from betimes.reproduce.row_picture import draw

        draw(name, rows, out / f"{name}.svg")
    return rows


def _published(experiment: str) -> dict[tuple[str, str], float]:
    """By log and metric."""
    text = resources.files("betimes.reproduce.portfolio").joinpath("published.csv").read_text("utf-8")
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
