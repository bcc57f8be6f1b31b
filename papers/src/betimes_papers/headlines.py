"""The first claims of the five papers, each as one row: published, ours, and whether they agree.

A headline is an effect around 0: a change in per cent, or a bound. Experiments are run as they are by themselves, in
small variants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from betimes_papers.experiment import Experiment, Progress, Row, Workers

Ours = Callable[[str, str], float]
"""Our value of a case and a metric of the headline's experiment."""
NAME = "headlines"
SLACK = 1.1  # times a bound that still meets it
MATCHES, WEAKER, CONTRARY = "matches", "weaker", "contrary"


@dataclass(frozen=True)
class Headline:
    """A claim, and where ours is found.

    published: in `unit`; as a bound (`within`), the most that ours may be. why: what is known where ours is weaker or
    contrary.
    """

    paper: str
    claim: str
    published: float
    experiment: str
    ours: Callable[[Ours], float]
    unit: str = "%"
    kind: Literal["effect", "within"] = "effect"
    why: str = ""

    def row(self, of: Ours) -> Row:
        """Published and ours, with the verdict."""
        ours = self.ours(of)
        said = verdict(self.published, ours, self.kind)
        note = said if said == MATCHES or not self.why else f"{said}: {self.why}"
        return Row(f"{self.paper}/{self.claim}", "effect", self.published, ours, self.unit, note)


def verdict(published: float, ours: float, kind: str = "effect") -> str:
    """Whether our value agrees with a published effect, or bound.

    An effect matches with the same sign and at least half its size; a bound is met, or missed by less than its size.
    """
    if kind == "within":
        reached = max(0.0, ours) / published
        return MATCHES if reached <= SLACK else WEAKER if reached <= 2.0 else CONTRARY
    reached = ours / published
    return MATCHES if reached >= 0.5 else WEAKER if reached > 0.0 else CONTRARY


def _is(case: str, metric: str) -> Callable[[Ours], float]:
    return lambda of: of(case, metric)


def _change(case: str, over: str, metric: str) -> Callable[[Ours], float]:
    """By how much a case is above another, %."""
    return lambda of: 100.0 * (of(case, metric) / of(over, metric) - 1.0)


_LOADS = (
    ("load of FIFO", "8192/load of FIFO, as the text has it/FitGpp"),
    ("load of each policy", "8192/load of each policy, smaller trial jobs/FitGpp"),
)
_DIVERGES = "with FIFO's load the change follows how long the experiment runs (docs/reproductions.md)"
_LOGS = (
    ("kth-sp2", 8.0, ""),
    ("sdsc-sp2", 11.0, "24 readings of the rules tried; that with the highest gain on average is kept"),
    ("das2-fs1", 45.0, "another log than published (DAS2-fs0)"),
    ("lcg", 30.0, "another log than published (LPC-EGEE)"),
)
_OTHER_TRACE = "another trace than published, and at most 6,000 jobs to try"
_PACKERS = ("Stratus", "Synergy", "Owl")

HEADLINES: tuple[Headline, ...] = (
    Headline("pcs", "figure 1: Tiresias's mean error", 46.0, "pcs-fig1", _is("srsf", "pred_err_mean")),
    Headline(
        "pcs", "figure 6: PCS-JCT's mean error against AFS's, on a testbed", -48.0, "pcs-fig6",
        _change("real/PCS-JCT", "real/afs", "pred_err_mean"),
    ),
    Headline(
        "pcs", "figure 6: PCS-JCT's mean unfairness against AFS's, on a testbed", -47.0, "pcs-fig6",
        _change("real/PCS-JCT", "real/afs", "unfairness_mean"),
        why="16 GPUs are simulated, with 30 s lost at each change",
    ),
    Headline(
        "pcs", "figure 7, 0e4a51: PCS-JCT's mean error against AFS's", -78.0, "pcs-fig7:0e4a51",
        _change("0e4a51/PCS-JCT", "0e4a51/afs", "pred_err_mean"),
    ),
    Headline(
        "pcs", "figure 7, 0e4a51: Themis's mean error", 48.0, "pcs-fig7:0e4a51",
        _is("0e4a51/themis", "pred_err_mean"), why="the published forecast forgot the pending lease",
    ),
    Headline(
        "pcs", "figure 8: PCS-JCT's p99 error against Tiresias's", -68.0, "pcs-fig8",
        _change("PCS-JCT", "srsf", "pred_err_p99"),
    ),
    Headline(
        "pcs", "figure 11, Workload-1: largest error of small jobs", 200.0, "pcs-fig11",
        _is("Workload-1/Tiresias/small", "pred_err_max"),
        why="small jobs err by less here, long ones by more (1142 %, published: above 600)",
    ),
    *(
        Headline(
            "fitgpp", f"figure 1, {load}: {what}", published, "fitgpp-fig1:8192", _is(case, metric), why=_DIVERGES
        )
        for load, case in _LOADS
        for what, metric, published in (
            ("TE p95 slowdown", "te_slowdown_p95_change", -96.6),
            ("BE p50 slowdown", "be_slowdown_p50_change", 18.0),
            ("BE p95 slowdown", "be_slowdown_p95_change", 23.9),
        )
    ),
    Headline(
        "fitgpp", "section 3: median absence against LRTP's", -50.0, "fitgpp-intervals:8192",
        lambda of: 100.0 * (of("8192/FitGpp", "told_to_resumed_p50_over_LRTP") - 1.0),
    ),
    Headline(
        "fitgpp", "section 3: preempted jobs, of LRTP's", 7.0, "fitgpp-intervals:8192",
        lambda of: 100.0 * of("8192/FitGpp", "preempted_over_LRTP"), kind="within",
        why="met as a share of all jobs only",
    ),
    *(
        Headline(
            "portfolio", f"gain over the best member, {log}", published, "portfolio-traces",
            _is(f"{log}/portfolio, default", "gain over the best member"), why=why,
        )
        for log, published, why in _LOGS
    ),
    Headline(
        "eva", "table 4: No-Packing's cost against the optimum", 56.0, "eva-table4",
        lambda of: of("No-Packing", "cost") - 100.0,
    ),
    Headline(
        "eva", "table 6: cost of jobs of four tasks against No-Packing's", -25.8, "eva-table6",
        lambda of: of("Eva-Multi", "cost") - 100.0,
    ),
    *(
        Headline(
            "eva", f"table {table}, 1,000 jobs: {what} against No-Packing's", published, f"eva-table{table}:1000",
            _change("1000/Eva", "1000/No-Packing", metric),
        )
        for table, what, metric, published in (
            (13, "cost", "cost", -40.0), (13, "JCT", "jct", 15.0),
            (14, "cost", "cost", -42.0), (14, "JCT", "jct", 15.5),
        )
    ),
    Headline(
        "eva", "table 13, 1,000 jobs: cost against the best other packer's", -17.0, "eva-table13:1000",
        lambda of: 100.0 * (of("1000/Eva", "cost") / min(of(f"1000/{each}", "cost") for each in _PACKERS) - 1.0),
        why="Stratus and Synergy cost less here than published",
    ),
    Headline(
        "eva", "figure 7, 60 % of several tasks: Eva-Single's cost against Eva's", 13.0, "eva-fig7",
        _change("200/60 % multi-task/Eva-Single", "200/60 % multi-task/Eva", "cost"),
    ),
    *(
        Headline(
            "waiting", f"figure 9, forest, {trace}: {what}", published,
            "waiting-learned:ctc-20k+ricc-20k+cea-curie-20k",
            _is(f"{trace}/forest/b=24h", metric), unit, "within", _OTHER_TRACE,
        )
        for trace in ("ctc-20k", "cea-curie-20k", "ricc-20k")
        for what, metric, published, unit in (
            ("cost on demand above the oracle's", "on_demand_points", 4.0, "points of fixed"),
            ("mean wait above the oracle's", "wait_increase", 13.0, "%"),
        )
    ),
    Headline(
        "waiting", "figure 7, sww:b=24h, learned waits, ctc-20k: cost on demand above the oracle's", 2.0,
        "waiting-fig7", _is("ctc-20k/learned/b=24h", "on_demand_increase"), kind="within", why=_OTHER_TRACE,
    ),
)  # fmt: skip
PAPERS = tuple(dict.fromkeys(each.paper for each in HEADLINES))


def experiment_of(find: Callable[[str], Experiment]) -> Experiment:
    """The experiment that runs those of all headlines, which `find` gives by name."""
    return _experiment(find, PAPERS, NAME)


def _narrowed(find: Callable[[str], Experiment], papers: tuple[str, ...]) -> Experiment:
    return _experiment(find, papers, f"{NAME}:{'+'.join(papers)}")


def _experiment(find: Callable[[str], Experiment], papers: Sequence[str], name: str) -> Experiment:
    chosen = [each for each in HEADLINES if each.paper in papers]
    runs = {each.experiment: find(each.experiment) for each in chosen}

    def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        found = {
            each: one.rows(data, progress, Workers() if one.alone else workers) for each, one in runs.items()
        }
        return rows_of(chosen, found)

    return Experiment(
        name=name,
        summary="The first claims of the five papers, each with a verdict",
        needs=tuple(dict.fromkeys(file for one in runs.values() for file in one.needs)),
        run=run,
        parts=PAPERS,
        narrowed=partial(_narrowed, find),
    )


def rows_of(headlines: Iterable[Headline], found: Mapping[str, Sequence[Row]]) -> list[Row]:
    """A row for each headline; found: the rows of the experiments, by name."""
    ours = {name: _lookup(rows) for name, rows in found.items()}
    return [each.row(ours[each.experiment]) for each in headlines]


def _lookup(rows: Sequence[Row]) -> Ours:
    values = {(row.case, row.metric): row.ours for row in rows}
    return lambda case, metric: values[case, metric]
