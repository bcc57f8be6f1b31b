"""Errors of promises on other clusters make the intervals of a young one better, and those of later jobs no worse.

Each log is begun anew at six places, on an empty cluster of which nothing is known, and the first jobs from there on
are judged, and then the first 4,000 of the log, without and with the errors of others (`errors_of_others.csv` in the
package). These are learned from the logs "learned from", and from none "held out". The score is the
interval score of log JCT, as in bench_accuracy.py; "off" are medians off by more than five times and more than an hour.

`--write` makes the table of the package again from the same places, and judges nothing. All takes four minutes of CPU.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import Table, introduce, traces_at

from betimes import read_trace
from betimes.foresight import past_errors
from betimes.foresight.intervals import CLASSES, class_of
from betimes.foresight.learned_promises import LearnedPromises
from betimes.foresight.simulate import simulate_learning
from betimes.kernels import Floats
from betimes.outcome import Result
from betimes.outcome.accuracy import interval_score
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload

LEVEL, PLACES, YOUNG, LONG = 0.8, 6, 240, 4000
LEARNED_FROM = {
    "SDSC-SP2": "swf/SDSC-SP2-1998-4.2-cln.swf.gz",
    "CTC-SP2": "swf/CTC-SP2-1996-derived.swf.gz",
    "CERIT": "swf/CERIT-SC-2013-wagap.swf.gz",
    "Theta": "swf/ALCF-Theta-2022.swf.gz",
    "DAS2-fs1": "swf/DAS2-fs1-2003-1.swf.gz",
}
HELD_OUT = {
    "KTH-SP2": "swf/KTH-SP2-1996-2.swf.gz",
    "LCG": "swf/LCG-2005-1.swf.gz",
    "LLNL-Atlas": "swf/LLNL-Atlas-2006-2.1-cln.swf.gz",
    "CEA-Curie": "swf/CEA-Curie-2011-2.1-cln.swf.gz",
    "HPC2N": "swf/HPC2N-2002-first3170.swf.gz",
    "RICC": "swf/RICC-2010-2.swf.gz",
}
SHORT = {"RICC": 3000}  # later promises there take minutes
BANDS = ((0, 30), (30, 100), (100, 200))
LATER_BANDS = ((0, 100), (100, 500), (500, 1000), (1000, LONG), (0, LONG))

FIRST = 120  # jobs of each place that the table is learned from
POINTS = 40  # of a class
ENOUGH = 100  # errors of a class, or it has those of all
NAMES = tuple(
    f"{rests_on}: {horizon}{wait}"
    for rests_on in ("learned", "asked")
    for horizon in ("< 10 min", "< 1 h", "< 6 h", "more")
    for wait in ("", " with a wait")
)


def main() -> None:
    """Print the tables, or write that of the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one place and 500 jobs of each log: a look")
    parser.add_argument("--data", type=Path, help="the folder of the public traces")
    parser.add_argument("--write", action="store_true", help="learn the package's table anew")
    given = parser.parse_args()
    introduce(__doc__)
    files = LEARNED_FROM if given.write else LEARNED_FROM | HELD_OUT
    folder = traces_at(given.data, *files.values())
    if folder is None:
        return
    if given.write:
        path = Path(past_errors.__file__).with_name("errors_of_others.csv")
        path.write_text(_table(folder))
        print(f"written: {path}")
        return
    for use, of in (("learned from", LEARNED_FROM), ("held out", HELD_OUT)):
        judged = {
            name: _judged(read_trace(folder / file), SHORT.get(name, LONG), quick=given.quick)
            for name, file in of.items()
        }
        for title, at, bands in (("cold starts", 0, BANDS), ("from the first job on", 1, LATER_BANDS)):
            columns = ("jobs", "coverage", "with", "score", "with", "late", "with", "off", "with")
            table = Table(f"{use}: {title}", *columns)
            for band in bands:
                table.line("mean", *_line([each[at] for each in judged.values()], band))
                for name, each in judged.items():
                    table.line(name, *_line([each[at]], band))
            print(flush=True)


class Promises(NamedTuple):
    """Promises of some runs, without and with errors of other clusters: number of the job, and how it was kept."""

    number: Floats
    without: Floats  # (promises, 4): inside, score, late, off
    beside: Floats


def _judged(log: Workload, count: int, *, quick: bool) -> tuple[Promises, Promises]:
    starts = list(_cold_starts(log))[: 1 if quick else PLACES]
    return _promises(starts), _promises([log.head(500 if quick else count)])


def _promises(runs: Sequence[Workload]) -> Promises:
    found = [[_kept(_run(run, others=others)) for run in runs] for others in (False, True)]
    (numbers, without), (_, beside) = (
        tuple(np.concatenate(each) for each in zip(*of, strict=True)) for of in found
    )
    return Promises(numbers, without, beside)


def _kept(result: Result) -> tuple[Floats, Floats]:
    jobs, made = result.jobs, result.intervals
    assert made is not None
    known = np.flatnonzero(jobs.finished & ~np.isnan(made.predicted_low_s))
    true, low, high, median = (
        np.maximum(each[known] - jobs.submit_s[known], 1.0)
        for each in (jobs.finish_s, made.predicted_low_s, made.predicted_high_s, jobs.predicted_finish_s)
    )
    far = (np.maximum(true / median, median / true) > 5.0) & (np.abs(true - median) > 3600.0)
    score = interval_score(np.log(low), np.log(high), np.log(true), LEVEL)
    kept = np.stack(((low <= true) & (true <= high), score, true > high, far), axis=1)
    return known.astype(np.float64), kept.astype(np.float64)


def _line(of: Sequence[Promises], band: tuple[int, int]) -> list[str]:
    """The means over logs, each of which counts the same."""
    means: list[list[Floats]] = [[], []]
    for each in of:
        rows = (each.number >= band[0]) & (each.number < band[1])
        for found, values in zip(means, (each.without, each.beside), strict=True):
            found.append(values[rows].mean(axis=0))
    without, beside = (np.mean(found, axis=0) for found in means)
    cells = [f"{band[0]}-{band[1]}"]
    for at, digits in enumerate((3, 2, 3, 3)):
        cells += [f"{without[at]:.{digits}f}", f"{beside[at]:.{digits}f}"]
    return cells


def _table(folder: Path) -> str:
    """The file of the package."""
    kinds, errors, weights = list[Floats](), list[Floats](), list[Floats]()
    for file in LEARNED_FROM.values():
        found = [_errors(_run(run, others=False)) for run in _cold_starts(read_trace(folder / file))]
        kind, error = (np.concatenate(each) for each in zip(*found, strict=True))
        kinds.append(kind)
        errors.append(error)
        weights.append(np.full(len(error), 1.0 / len(error)))
    kind, error, weight = (np.concatenate(each) for each in (kinds, errors, weights))
    lines = [
        f"# log(JCT / JCT in the play-out) at {POINTS} equally likely quantiles, by class of promise: the JCT in the",
        "# play-out, and whether the job waits. The play-out rests on run times as they are learned, or as they are",
        f"# asked for. Of the first {FIRST} jobs after {PLACES} beginnings of each of these public logs, under easy on",
        f"# an empty cluster of which nothing is known: {', '.join(LEARNED_FROM)}. Each log",
        f"# counts the same. A class of fewer than {ENOUGH} has the errors of all that rest on the same run times.",
        "# Made by benchmarks/bench_cold_starts.py --write.",
    ]
    for at, title in enumerate(NAMES):
        rows = kind == at
        if rows.sum() < ENOUGH:
            rows = kind // CLASSES == at // CLASSES
        lines.append(",".join([title, *(f"{each:.3f}" for each in _quantiles(error[rows], weight[rows]))]))
    return "\n".join(lines) + "\n"


def _errors(result: Result) -> tuple[Floats, Floats]:
    """Class and error of the promises to the first jobs: by run times as learned, as the twin expects them, and by what
    is asked for, as a service does until it knows the job's kin.
    """
    jobs, made = result.jobs, result.intervals
    assert made is not None
    known = np.flatnonzero(
        jobs.finished & ~np.isnan(made.played_finish_s) & ~np.isnan(made.estimate_finish_s)
    )
    known = known[known < FIRST]
    at = jobs.submit_s[known]
    waits = np.maximum(made.played_start_s[known] - at, 0.0)
    kinds, errors = list[int](), list[Floats]()
    for first, end_s in ((0, made.played_finish_s), (CLASSES, made.estimate_finish_s)):
        played = np.maximum(end_s[known] - at, 1.0)
        kinds += [first + class_of(*each) for each in zip(played.tolist(), waits.tolist(), strict=True)]
        errors.append(np.log(np.maximum(jobs.finish_s[known] - at, 1.0) / played))
    return np.array(kinds, dtype=float), np.concatenate(errors)


def _quantiles(values: Floats, weights: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order]) / math.fsum(weights)
    return values[order][np.searchsorted(passed, (np.arange(POINTS) + 0.5) / POINTS)]


def _cold_starts(log: Workload) -> Iterator[Workload]:
    """The jobs after each of the places, the first of which is the begin of the log."""
    for place in range(PLACES):
        first = (len(log) - YOUNG) * place // (PLACES - 1)
        yield log[first : first + YOUNG]


def _run(jobs: Workload, *, others: bool) -> Result:
    learned = LearnedPromises(LEVEL, ends_only=True)
    if not others:
        learned.model.intervals.prior = ()
    options = SimulationOptions.of(None, sizes="estimate", predict=True, interval=LEVEL, on_wide="drop")
    return simulate_learning(jobs, "easy", options, learned, None, None)


if __name__ == "__main__":
    main()
