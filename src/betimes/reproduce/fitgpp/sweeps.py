"""FitGpp with other parameters: the weight s, the limit P, and longer and shorter grace periods; and other demands.

Published is the point s=4, P=1 with grace periods of 3 minutes in the mean; demands are not (`fitgpp_runs`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.outcome.figure import drawing
from betimes.reproduce.experiment import Experiment, Row
from betimes.reproduce.fitgpp.fig1 import PUBLISHED
from betimes.reproduce.fitgpp.picture import bars, legend, lines
from betimes.reproduce.fitgpp.runs import (
    NO_LIMIT,
    Figures,
    Planned,
    fifo,
    fitgpp,
    lrtp,
    rand,
    rows_of,
    runs,
    simulated,
    sized,
    spread,
    with_changes,
)
from betimes.reproduce.pace import Pace, Progress
from betimes.reproduce.workers import Workers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


KEYS = (
    "te_p50", "te_p95", "te_p99", "te_p95_change", "be_p50_change", "be_p95_change",
    "told_p50", "told_p95", "preemptions", "preempted",
)  # fmt: skip
_CUT_AT = 20 / 3  # means, where grace periods are cut


@dataclass(frozen=True)
class Setting:
    """One value of what is varied: its label, parameters of the generator, and the policies beside FIFO."""

    label: str
    planned: tuple[Planned, ...]
    parameters: tuple[str, ...] = ()
    published: bool = False


@dataclass(frozen=True)
class Sweep:
    """What is varied over which settings, and whether these have an order (then points are joined)."""

    name: str
    title: str
    settings: tuple[Setting, ...]
    ordered: bool = True


Found = dict[str, dict[str, list[Figures]]]
"""By label of the setting, then by policy: the figures with each seed."""


def _all(most: int = 1) -> tuple[Planned, ...]:
    return lrtp(most), rand(most), fitgpp(most=most)


def _demands(te: tuple[int, int, int], be: tuple[int, int, int], factor: float = 1.0) -> tuple[str, ...]:
    """Means of cores, GiB and GPUs; sigmas are as large, times `factor`."""
    return tuple(
        f"{group}_{name}={mean}+{factor * mean:g}"
        for group, means in (("te", te), ("be", be))
        for name, mean in zip(("cpu", "memory_gib", "gpu"), means, strict=True)
    )


def _run_times(factor: float) -> tuple[str, ...]:
    """The means, with sigmas of `factor` times as much, and the bounds of the generator."""
    return f"te_run_s=300+{300 * factor:g}", f"be_run_s=1800+{1800 * factor:g}"


def _grace(minutes: float) -> tuple[str, ...]:
    """The published distribution, stretched."""
    mean_s = 60.0 * minutes
    return (f"grace_s={mean_s:g}+{mean_s:g}+0+{_CUT_AT * mean_s:g}",)


WEIGHT = Sweep(
    "fitgpp-s",
    "Weight s of the grace period",
    tuple(Setting(f"{s:g}", (fitgpp(s),), published=s == 4) for s in (0, 0.5, 1, 2, 4, 8, 16)),
)
LIMIT = Sweep(
    "fitgpp-P",
    "Limit P on the preemptions of a job",
    (
        *(Setting(str(most), _all(most), published=most == 1) for most in (1, 2, 3)),
        Setting("none", _all(NO_LIMIT)),
    ),
)
GRACE = Sweep(
    "fitgpp-grace",
    "Mean grace period, minutes",
    tuple(
        Setting(f"{mean:g}", _all(), _grace(mean), published=mean == 3)
        for mean in (0, 1.5, 3, 4.5, 6, 7.5, 9)
    ),
)
DEMANDS = Sweep(
    "fitgpp-mixtures",
    "Mean demands: cores, GiB, GPUs",
    (
        Setting("all (8,32,2)", _all(), published=True),
        Setting("TE (8,64,2), BE (16,96,4)", _all(), _demands((8, 64, 2), (16, 96, 4)), published=True),
        Setting("all (16,96,4)", _all(), _demands((16, 96, 4), (16, 96, 4)), published=True),
    ),
    ordered=False,
)

SIGMAS = Sweep(
    "fitgpp-sigma",
    "Standard deviations, against those assumed",
    (
        Setting("assumed", _all(), published=True),
        *(
            Setting(f"demands x {factor:g}", _all(), _demands((8, 32, 2), (8, 32, 2), factor), published=True)
            for factor in (0.25, 0.5, 2)
        ),
        *(
            Setting(f"run times x {factor:g}", _all(), _run_times(factor), published=True)
            for factor in (0.5, 2)
        ),
    ),
    ordered=False,
)


def found_in(sweep: Sweep, jobs: int, pace: Pace, workers: Workers) -> Found:
    """Run every setting."""
    found: Found = {}
    for setting in sweep.settings:
        planned = (fifo(), *setting.planned)
        base, *others = simulated(jobs, planned, pace, setting.parameters, workers=workers)
        found[setting.label] = {
            each.name: with_changes(figures, base)
            for each, figures in zip(setting.planned, others, strict=True)
        }
    return found


def experiment(sweep: Sweep, summary: str) -> Experiment:
    """The experiment of a sweep."""
    return sized(sweep.name, summary, _runner(sweep))


def _runner(sweep: Sweep) -> Callable[[tuple[int, ...], Path | None, Progress, Workers], list[Row]]:
    def run(sizes: tuple[int, ...], out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        pace = Pace(progress, sum(runs((fifo(), *each.planned)) for each in sweep.settings) * sum(sizes))
        found = {jobs: found_in(sweep, jobs, pace, workers) for jobs in sizes}
        progress("done", pace.total, pace.total)
        if out is not None:
            draw(sweep, found, out / f"{sweep.name}.svg")
        return [
            row
            for jobs in sizes
            for setting in sweep.settings
            for policy, figures in found[jobs][setting.label].items()
            for row in rows_of(
                f"{jobs}/{setting.label}/{policy}",
                figures,
                KEYS,
                PUBLISHED if setting.published and policy == "FitGpp" else None,
            )
        ]

    return run


_PANELS = (
    ("te_p95", "Trial jobs, 95th percentile", "Slowdown"),
    ("be_p95_change", "Best-effort jobs, change of the 95th percentile", "% against FIFO"),
    ("told_p50", "From the signal to resumption, median", "Minutes"),
    ("preemptions", "Preemptions", "% of all jobs"),
)
_OWN = 2  # of the colours, also where FitGpp is alone
_BARS = 2.6  # inches that the bars of a setting and their numbers need in two panels


def draw(sweep: Sweep, found: dict[int, Found], path: Path) -> None:
    """Four panels a number of jobs, two by two; raises InputError where the file cannot be written."""
    width = 10.4 if sweep.ordered else max(10.4, _BARS * len(sweep.settings))
    with drawing(path, width, 0.4 + 6.8 * len(found)) as figure:
        panels: Any = figure.subplots(2 * len(found), 2, squeeze=False)
        for (jobs, of_size), axes_of_size in zip(found.items(), panels.reshape(len(found), 4), strict=True):
            for panel, axes in zip(_PANELS, axes_of_size, strict=True):
                _panel(axes, sweep, of_size, *panel)
            if len(found) > 1:
                axes_of_size[0].set_title(f"{jobs:,} jobs. {_PANELS[0][1]}")
        legend(figure, panels[0, 0])


def _panel(axes: Axes, sweep: Sweep, found: Found, key: str, title: str, label: str) -> None:
    groups = tuple(label.replace(", ", "\n").replace(" x ", "\nx ") for label in found)
    policies = tuple(next(iter(found.values())))
    series = {
        policy: [spread(of_setting[policy], key) for of_setting in found.values()] for policy in policies
    }
    if sweep.ordered:
        lines(axes, groups, series, first=_OWN + 1 - len(policies))
    else:
        bars(axes, groups, series)
    axes.set_title(title)
    axes.set_ylabel(label)
    axes.set_xlabel(sweep.title)
    if min(each.low for values in series.values() for each in values) >= 0.0:
        axes.set_ylim(bottom=0.0)


EXPERIMENTS = (
    experiment(WEIGHT, "FitGpp with weights s from 0 to 16"),
    experiment(LIMIT, "FitGpp, LRTP and RAND with limits P on the preemptions of a job"),
    experiment(GRACE, "FitGpp, LRTP and RAND with grace periods of 0 to 9 minutes"),
    experiment(DEMANDS, "FitGpp, LRTP and RAND with other demands of the jobs"),
    experiment(SIGMAS, "FitGpp, LRTP and RAND with narrower and wider distributions"),
)
