"""Promises with intervals, held against public logs: coverage, width, error and interval score, beside baselines.

Each log runs once with `--predict --interval 0.8`. The first 500 jobs are left out, for which there is little to learn
from. All times are on the logarithm of the JCT, as the interval score is: (upper - lower) + 10 x (distance outside).

"users": from the start in the play-out until the user's own estimate has passed. "rolling": the play-out times the
quantiles of the last 1,000 ratios of true to played JCT, without features. "prototype": the figures of an earlier
script with quantile regressions on features of the trace alone, where there are any. The score card is by the horizon
that was promised. "off" is what users feel: medians that were off by more than five times and by more than an hour.
A log is "chosen" if settings of the model were chosen by looking at it, "seen" if it was looked at meanwhile, "held
out" if no choice was made on it. To compare two versions, run this file with PYTHONPATH at the other one's src.

CPU is that of all the run, reading aside, over that of a run with point promises alone.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import Table, introduce, traces_at

from betimes import generate, read_trace, simulate
from betimes.outcome import Result
from betimes.outcome.accuracy import accuracy_of, interval_score
from betimes.workload import Workload

LEVEL, FIRST = 0.8, 500
YOUNG = 50, 200  # jobs of a new service
HORIZONS_S = (600.0, 3600.0, 21_600.0)
HORIZON_NAMES = ("< 10 min", "< 1 h", "< 6 h", "more")
WFQ = "wfq:T=2.46,W=2.25,zeta_min=0.85,delta=0.04"


class Log(NamedTuple):
    """A log, what it runs under, and how many of its jobs; prototype: score, median error and upper over lower end.

    use: whether choices were made on it.
    """

    name: str
    file: str
    policy: str
    jobs: int | None = None
    prototype: tuple[float, float, float] | None = None
    use: str = "held out"


LOGS = (
    Log("KTH-SP2", "swf/KTH-SP2-1996-2.swf.gz", "easy", None, (4.00, 0.420, 9.2), "chosen"),
    Log("SDSC-SP2", "swf/SDSC-SP2-1998-4.2-cln.swf.gz", "easy", None, (3.67, 0.455, 9.9), "chosen"),
    Log("CTC-SP2", "swf/CTC-SP2-1996-derived.swf.gz", "easy"),
    Log("HPC2N", "swf/HPC2N-2002-first3170.swf.gz", "easy", use="chosen"),
    Log("CEA-Curie", "swf/CEA-Curie-2011-2.1-cln.swf.gz", "easy", 30_000),
    Log("Theta", "swf/ALCF-Theta-2022.swf.gz", "easy", 8_000, use="chosen"),
    Log("CERIT", "swf/CERIT-SC-2013-wagap.swf.gz", "easy", 8_000, use="seen"),
    Log("LCG", "swf/LCG-2005-1.swf.gz", "easy", 8_000, use="seen"),
    Log("LLNL-Atlas", "swf/LLNL-Atlas-2006-2.1-cln.swf.gz", "easy", 8_000, use="seen"),
    Log("DAS2-fs1", "swf/DAS2-fs1-2003-1.swf.gz", "easy", 8_000),
    Log("RICC", "swf/RICC-2010-2.swf.gz", "easy", 3_000),
    Log("0e4a51", "gpu/philly_pcs/trace_0e4a51.csv.gz", WFQ),
    Log("2869ce", "gpu/philly_pcs/trace_2869ce.csv.gz", WFQ),
    Log("FitGpp mixture", "", "fitgpp", 30_000),
)


def main() -> None:
    """Run the logs and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="the first 2,000 jobs: a look, not a measurement"
    )
    parser.add_argument("--data", type=Path, help="the folder of the public traces")
    parser.add_argument("--jobs", type=int, help="the first N jobs of each log at most")
    parser.add_argument("--only", help="logs by name, separated by commas")
    parser.add_argument("--sizes", default="estimate", help="what the policy believes (default: estimate)")
    given = parser.parse_args()
    introduce(__doc__)
    chosen = given.only.split(",") if given.only else [log.name for log in LOGS]
    rows: list[list[str]] = []
    classes: list[list[str]] = []
    felt: list[list[str]] = []
    card: list[list[str]] = []
    for log in LOGS:
        if log.name not in chosen:
            continue
        folder = traces_at(given.data, *([log.file] if log.file else []))
        if log.file and folder is None:
            continue
        workload = _read(log, folder)
        workload = workload.head(2000 if given.quick else given.jobs or len(workload))
        _run(workload.head(FIRST), log, given.sizes, LEVEL)  # compiles and loads
        began = time.process_time()
        _run(workload, log, given.sizes, None)
        base_s, began = time.process_time() - began, time.process_time()
        judged = Judged(_run(workload, log, given.sizes, LEVEL), workload)
        cpu_s = time.process_time() - began
        rows.append([f"{log.name}, {log.policy[:6]}", *judged.main(log), f"{cpu_s / base_s:.1f}x"])
        felt.append([log.name, log.use, *judged.felt()])
        classes.append([log.name, *judged.classes()])
        card += [[log.name, *row] for row in judged.card()]
        print(f"{log.name}: done", flush=True)
    _print(
        ("log", "jobs", "coverage", "tenths", "score", "rolling", "users", "prototype", "error p50", "rolling",
         "users", "prototype", "upper/lower", "prototype", "CPU"),
        rows,
    )  # fmt: skip
    _print(
        ("what users feel", "used", "coverage", "tenths", "score", "off: late", "early", "error p50", "mean",
         "first 50-200"),
        felt,
    )  # fmt: skip
    _print(("coverage by class", "horizon", "width", "length", "no wait, wait", "ten largest users"), classes)
    _print(
        ("score card", "horizon", "jobs", "before upper", "upper/true", "in 1 min", "in 10 min", "2x off",
         "|error| p50", "|error| mean"),
        card,
    )  # fmt: skip


class Judged:
    """The promises of a result, after the first jobs."""

    def __init__(self, result: Result, workload: Workload) -> None:
        jobs, made = result.jobs, result.intervals
        assert made is not None
        known = np.flatnonzero(jobs.finished & ~np.isnan(made.predicted_low_s))
        self.kept = known[known >= FIRST]
        self.figures = accuracy_of(result, self.kept)
        young = known[(known >= YOUNG[0]) & (known < YOUNG[1])]
        self.young_frac = accuracy_of(result, young)["pred_cover_frac"]
        at = jobs.submit_s[self.kept]

        def jct(values: np.ndarray) -> np.ndarray:
            return np.maximum(values[self.kept] - at, 1.0)

        self.true, self.low, self.high = (
            jct(jobs.finish_s),
            jct(made.predicted_low_s),
            jct(made.predicted_high_s),
        )
        self.median = jct(jobs.predicted_finish_s)
        self.rolling = (jct(made.ratio_low_s), jct(made.ratio_finish_s), jct(made.ratio_high_s))
        self.users = (jct(made.played_start_s), jct(made.estimate_finish_s), jct(made.estimate_finish_s))
        self.waits = made.played_start_s[self.kept] > at + 1.0
        self.width = jobs.max_units[self.kept]
        self.user = jobs.user[self.kept]
        length_s = workload.estimate_s[self.kept]
        self.length_s = np.where(np.isnan(length_s), self.median, length_s)
        self.inside = (self.low <= self.true) & (self.true <= self.high)

    def main(self, log: Log) -> list[str]:
        """The row of the first table, but for its name and the CPU."""
        score, error, spread = (
            (f"{log.prototype[0]:.2f}", f"{log.prototype[1]:.3f}", f"{log.prototype[2]:.1f}")
            if log.prototype
            else ("-", "-", "-")
        )
        return [
            f"{len(self.kept):,}",
            f"{self.inside.mean():.3f}",
            self._tenths(),
            f"{_score(self.true, self.low, self.high):.2f}",
            f"{_score(self.true, self.rolling[0], self.rolling[2]):.2f}",
            f"{_score(self.true, self.users[0], self.users[2]):.2f}",
            score,
            f"{_error(self.true, self.median):.3f}",
            f"{_error(self.true, self.rolling[1]):.3f}",
            f"{_error(self.true, self.users[1]):.3f}",
            error,
            f"{np.median(self.high / self.low):.1f}",
            spread,
        ]

    def _tenths(self) -> str:
        tenths = [self.inside[part].mean() for part in np.array_split(np.arange(len(self.kept)), 10)]
        return f"{min(tenths):.2f}-{max(tenths):.2f}"

    def felt(self) -> list[str]:
        """The row of the table of what users feel, but for its name."""
        return [
            f"{self.inside.mean():.3f}",
            self._tenths(),
            f"{_score(self.true, self.low, self.high):.2f}",
            f"{self.figures['pred_far_late_frac']:.3f}",
            f"{self.figures['pred_far_early_frac']:.3f}",
            f"{_error(self.true, self.median):.3f}",
            f"{np.mean(np.abs(self.true / self.median - 1.0)):.2f}",
            f"{self.young_frac:.2f}",
        ]

    def classes(self) -> list[str]:
        """Coverage by class: the least and the greatest of those with 200 jobs and more."""
        quarter = np.searchsorted(np.quantile(self.length_s, (0.25, 0.5, 0.75)), self.length_s)
        users, counts = np.unique(self.user, return_counts=True)
        largest = users[np.argsort(-counts, kind="stable")[:10]]
        return [
            self._range(np.digitize(self.median, HORIZONS_S)),
            self._range(np.floor(np.log2(self.width)).astype(int)),
            self._range(quarter),
            self._range(self.waits.astype(int)),
            self._range(np.where(np.isin(self.user, largest), self.user, -1)),
        ]

    def card(self) -> list[list[str]]:
        """The score card, a row a horizon."""
        of = np.digitize(self.median, HORIZONS_S)
        rows: list[list[str]] = []
        for number, name in enumerate(HORIZON_NAMES):
            rows_of = of == number
            if not rows_of.any():
                continue
            true, median, high = self.true[rows_of], self.median[rows_of], self.high[rows_of]
            off_s, ratio = np.abs(true - median), np.maximum(true / median, median / true)
            rows.append(
                [
                    name,
                    f"{len(true):,}",
                    f"{(true <= high).mean():.3f}",
                    f"{np.median(high / true):.2f}",
                    f"{(off_s <= 60.0).mean():.2f}",
                    f"{(off_s <= 600.0).mean():.2f}",
                    f"{(ratio >= 2.0).mean():.2f}",
                    f"{np.median(off_s) / 60.0:.1f} min",
                    f"{off_s.mean() / 60.0:.1f} min",
                ]
            )
        return rows

    def _range(self, classes: np.ndarray) -> str:
        shares = [
            self.inside[classes == each].mean()
            for each in np.unique(classes)
            if np.sum(classes == each) >= 200 and each >= 0
        ]
        return f"{min(shares):.2f}-{max(shares):.2f}" if shares else "-"


def _read(log: Log, folder: Path | None) -> Workload:
    if not log.file:
        return generate(f"fitgpp:jobs={log.jobs}")
    assert folder is not None
    workload = read_trace(folder / log.file)
    return workload.head(log.jobs) if log.jobs is not None else workload


def _run(workload: Workload, log: Log, sizes: str, level: float | None) -> Result:
    if np.isnan(workload.estimate_s).all():
        sizes = "true"
    on_wide = None if log.policy == WFQ else "drop"
    return simulate(workload, log.policy, sizes=sizes, predict=True, interval=level, on_wide=on_wide)


def _print(columns: Sequence[str], rows: list[list[str]]) -> None:
    table = Table(*columns)
    for row in rows:
        table.line(*row)
    print(flush=True)


def _score(true: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    known = ~np.isnan(high)
    if not known.any():  # no user made an estimate
        return math.nan
    return float(np.mean(interval_score(np.log(low), np.log(high), np.log(true), LEVEL)[known]))


def _error(true: np.ndarray, median: np.ndarray) -> float:
    known = ~np.isnan(median)
    return float(np.median(np.abs(true / median - 1.0)[known])) if known.any() else math.nan


if __name__ == "__main__":
    main()
