"""The experiments of FitGpp (OpML 2019): figure 1, absences of preempted jobs, and sweeps over unpublished parameters.

Figure 1 is a picture without numbers; the text gives three changes against FIFO, and in section 3 the absences and the
number of preempted jobs. The published point is s=4, P=1 with grace periods of 3 minutes in the mean; the demands of
the jobs are not published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.fitgpp.runs import (
    NO_LIMIT,
    Figures,
    Planned,
    fifo,
    fitgpp,
    lrtp,
    rand,
    row,
    rows_of,
    runs,
    simulated,
    sized,
    with_changes,
)

PUBLISHED = {"te_p95_change": -96.6, "be_p50_change": 18.0, "be_p95_change": 23.9}
SLOWDOWNS = tuple(f"{group}_p{percent}" for group in ("te", "be") for percent in (50, 95, 99))
CHANGES = ("te_p95_change", "be_p50_change", "be_p95_change")

ABSENCES = ("told_p50", "told_p95", "left_p50", "left_p95")
COUNTS = ("preemptions", "preempted")
RATIOS = ("told_p50", "told_p95", "left_p95", "preemptions", "preempted")
# "Almost half", "20% shorter" and "33% shorter"; "less than 7.0% relative to that of LRTP and RAND".
PUBLISHED_RATIOS = {
    "LRTP": {"told_p50": 0.5, "told_p95": 0.8, "preempted": 0.07},
    "RAND": {"told_p50": 0.5, "told_p95": 0.67, "preempted": 0.07},
}
_METRICS = {"told": "told_to_resumed", "left": "left_to_resumed"}

KEYS = (
    "te_p50", "te_p95", "te_p99", "te_p95_change", "be_p50_change", "be_p95_change",
    "told_p50", "told_p95", "preemptions", "preempted",
)  # fmt: skip
_CUT_AT = 20 / 3  # limit of grace periods, in means


@dataclass(frozen=True)
class Setting:
    """One value of a varied parameter: its label, parameters of the generator, and the policies beside FIFO."""

    label: str
    planned: tuple[Planned, ...]
    parameters: tuple[str, ...] = ()
    published: bool = False


@dataclass(frozen=True)
class Sweep:
    """A varied parameter and its settings."""

    name: str
    settings: tuple[Setting, ...]


def _all(most: int = 1) -> tuple[Planned, ...]:
    return lrtp(most), rand(most), fitgpp(most=most)


def _demands(te: tuple[int, int, int], be: tuple[int, int, int], factor: float = 1.0) -> tuple[str, ...]:
    """Means of cores, GiB and GPUs; the sigmas are `factor` times the means."""
    return tuple(
        f"{group}_{name}={mean}+{factor * mean:g}"
        for group, means in (("te", te), ("be", be))
        for name, mean in zip(("cpu", "memory_gib", "gpu"), means, strict=True)
    )


def _run_times(factor: float) -> tuple[str, ...]:
    """The means, with sigmas of `factor` times the means, and the bounds of the generator."""
    return f"te_run_s=300+{300 * factor:g}", f"be_run_s=1800+{1800 * factor:g}"


def _grace(minutes: float) -> tuple[str, ...]:
    """The published distribution, stretched."""
    mean_s = 60.0 * minutes
    return (f"grace_s={mean_s:g}+{mean_s:g}+0+{_CUT_AT * mean_s:g}",)


WEIGHT = Sweep(
    "fitgpp-s",
    tuple(Setting(f"{s:g}", (fitgpp(s),), published=s == 4) for s in (0, 0.5, 1, 2, 4, 8, 16)),
)
LIMIT = Sweep(
    "fitgpp-P",
    (
        *(Setting(str(most), _all(most), published=most == 1) for most in (1, 2, 3)),
        Setting("none", _all(NO_LIMIT)),
    ),
)
GRACE = Sweep(
    "fitgpp-grace",
    tuple(
        Setting(f"{mean:g}", _all(), _grace(mean), published=mean == 3)
        for mean in (0, 1.5, 3, 4.5, 6, 7.5, 9)
    ),
)
DEMANDS = Sweep(
    "fitgpp-mixtures",
    (
        Setting("all (8,32,2)", _all(), published=True),
        Setting("TE (8,64,2), BE (16,96,4)", _all(), _demands((8, 64, 2), (16, 96, 4)), published=True),
        Setting("all (16,96,4)", _all(), _demands((16, 96, 4), (16, 96, 4)), published=True),
    ),
)

SIGMAS = Sweep(
    "fitgpp-sigma",
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
)


@dataclass(frozen=True)
class Reading:
    """A reading of the load kept at 2.0: under FIFO alone, or under each policy (`kept`), and its parameters."""

    label: str
    parameters: tuple[str, ...] = ()
    kept: bool = False


READINGS = (
    Reading("load of FIFO, as the text has it"),
    Reading("load of each policy, smaller trial jobs", _demands((8, 64, 2), (16, 96, 4)), kept=True),
)
"""The text keeps the load at 2.0 "if they were scheduled by FIFO". Best-effort jobs are slower by as much as published
only under the other: all waiting is theirs then, and the demands of trial jobs decide how much that is."""


def slowdowns(sizes: tuple[int, ...], progress: Progress, workers: Workers) -> list[Row]:
    """Figure 1: slowdowns by policy, and the share of preempted jobs, under both readings, for some numbers of jobs."""
    planned = (fifo(), lrtp(), rand(), fitgpp())
    pace = Pace(progress, len(READINGS) * runs(planned) * sum(sizes))
    rows: list[Row] = []
    for jobs in sizes:
        for reading in READINGS:
            case = f"{jobs}/{reading.label}"
            base, *others = simulated(
                jobs, planned, pace, reading.parameters, kept=reading.kept, workers=workers
            )
            rows += rows_of(f"{case}/FIFO", base, SLOWDOWNS)
            for each, figures in zip(planned[1:], others, strict=True):
                published = PUBLISHED if each.name == "FitGpp" else None
                rows += rows_of(
                    f"{case}/{each.name}",
                    with_changes(figures, base),
                    (*SLOWDOWNS, *CHANGES, "preempted"),
                    published,
                )
            named = dict(zip((each.name for each in planned[1:]), others, strict=True))
            rows += _ratios(case, named, ("preempted",))
    progress("done", pace.total, pace.total)
    return rows


def absences(sizes: tuple[int, ...], progress: Progress, workers: Workers) -> list[Row]:
    """Section 3: the absences of preempted jobs, and their number."""
    planned = (lrtp(), rand(), fitgpp())
    pace = Pace(progress, runs(planned) * sum(sizes))
    rows: list[Row] = []
    for jobs in sizes:
        figures = simulated(jobs, planned, pace, workers=workers)
        found = {each.name: of_policy for each, of_policy in zip(planned, figures, strict=True)}
        for policy, of_policy in found.items():
            rows += rows_of(f"{jobs}/{policy}", of_policy, (*ABSENCES, *COUNTS))
        rows += _ratios(f"{jobs}", found, RATIOS)
    progress("done", pace.total, pace.total)
    return rows


def _ratios(case: str, found: dict[str, list[Figures]], keys: tuple[str, ...]) -> Iterator[Row]:
    """FitGpp's figures over those of each other policy with the same seed."""
    for other, published in PUBLISHED_RATIOS.items():
        for key in keys:
            group, _, rest = key.partition("_")
            name = "_".join(filter(None, (_METRICS.get(group, group), rest, "over", other)))
            pairs = zip(found["FitGpp"], found[other], strict=True)
            values = [mine[key] / theirs[key] for mine, theirs in pairs]
            yield row(f"{case}/FitGpp", name, values, "ratio", published.get(key))


def _swept(
    sweep: Sweep, kept: bool, sizes: tuple[int, ...], progress: Progress, workers: Workers
) -> list[Row]:
    """Every setting of a sweep; kept: the load is kept up under each policy, not under FIFO alone."""
    keys = (*KEYS, "submitted_change") if kept else KEYS
    pace = Pace(progress, sum(runs((fifo(), *each.planned)) for each in sweep.settings) * sum(sizes))
    rows: list[Row] = []
    for jobs in sizes:
        for setting in sweep.settings:
            planned = (fifo(), *setting.planned)
            base, *others = simulated(jobs, planned, pace, setting.parameters, kept=kept, workers=workers)
            for each, figures in zip(setting.planned, others, strict=True):
                published = PUBLISHED if setting.published and each.name == "FitGpp" else None
                case = f"{jobs}/{setting.label}/{each.name}"
                rows += rows_of(case, with_changes(figures, base), keys, published)
    progress("done", pace.total, pace.total)
    return rows


def _experiment(sweep: Sweep, summary: str, name: str = "", kept: bool = False) -> Experiment:
    return sized(name or sweep.name, summary, partial(_swept, sweep, kept))


EXPERIMENTS = (
    sized("fitgpp-fig1", "FitGpp, figure 1: slowdowns of trial and best-effort jobs", slowdowns),
    sized("fitgpp-intervals", "FitGpp, section 3: absences of preempted jobs, and their number", absences),
    _experiment(WEIGHT, "FitGpp with weights s from 0 to 16"),
    _experiment(LIMIT, "FitGpp, LRTP and RAND with limits P on the preemptions of a job"),
    _experiment(GRACE, "FitGpp, LRTP and RAND with grace periods of 0 to 9 minutes"),
    _experiment(DEMANDS, "FitGpp, LRTP and RAND with other demands of the jobs"),
    _experiment(SIGMAS, "FitGpp, LRTP and RAND with narrower and wider distributions"),
    _experiment(
        DEMANDS, "FitGpp, LRTP and RAND with the load kept under each of them", "fitgpp-load", kept=True
    ),
)
