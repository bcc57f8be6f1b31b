"""The gain of each switch of improved Eva: the same run without it, over several seeds, against the noise.

A gain is the cost without the switch less the cost with it, in points of No-Packing's, paired by seed. Its noise is the
standard error of the mean over the seeds; a gain of less than twice the noise is not significant.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from betimes_papers.eva.runs import PODS, UNITS, Figures, machines, simulates, trace
from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers

NAME = "eva-improvements"
JOBS = 500  # the first of each trace
SEEDS = tuple(str(seed) for seed in range(3, 11))
DEFAULT = SEEDS[:3]

_ON = {
    "table": "fitted",
    "matching": "true",
    "fill": "cost-test",
    "down_sizing": "reuse",
    "keep_old": "true",
    "honest_events": "true",
    "poisson": "false",
    "ends": "true",
}


def eva(**switches: str) -> str:
    """Eva with all improvements on, except for these switches."""
    return "eva:" + ",".join(f"{name}={value}" for name, value in {**_ON, **switches}.items())


SWITCHES = {
    "table=fitted": (eva(), eva(table="lower-bound")),
    "matching": (eva(), eva(matching="false")),
    "fill=cost-test, not never": (eva(), eva(fill="never")),
    "fill=cost-test, not always": (eva(), eva(fill="always")),
    "down_sizing=reuse": (eva(), eva(down_sizing="never")),
    "keep_old": (eva(), eva(keep_old="false")),
    "honest_events": (eva(), eva(honest_events="false")),
    "poisson": (eva(poisson="true"), eva()),
    "ends": (eva(), eva(ends="false")),
    "least_saving=0.1": (eva(least_saving="0.1"), eva()),
}
"""The policies with each switch and without it, all other improvements on."""

Pair = tuple[Figures, Figures]
"""The figures of a run with a switch, and of one without."""


def gains(pairs: Mapping[str, Sequence[Pair]], no_packing_usd: Sequence[float]) -> list[Row]:
    """The savings and the moves per job of each switch, as means over the seeds; the note has the noise."""
    made: list[Row] = []
    for switch, runs in pairs.items():
        saved = [
            100.0 * (without["usd"] - with_["usd"]) / usd
            for (with_, without), usd in zip(runs, no_packing_usd, strict=True)
        ]
        moves = [without["migrations"] - with_["migrations"] for with_, without in runs]
        made += [
            Row(switch, "gain", None, statistics.mean(saved), "points of No-Packing", _noise(saved)),
            Row(switch, "fewer moves", None, statistics.mean(moves), UNITS["migrations"], _noise(moves)),
        ]
    return made


def _noise(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "one seed shows no noise"
    error = statistics.stdev(values) / math.sqrt(len(values))
    verdict = "measured" if statistics.mean(values) > 2 * error else "not measured"
    return f"noise {error:.2f}: {verdict}; {_each(values)}"


def _each(values: Sequence[float]) -> str:
    return "each seed " + ", ".join(f"{value:.2f}" for value in values)


def _on(seeds: tuple[str, ...]) -> Experiment:
    def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        assert data is not None
        chosen = seeds or DEFAULT
        policies = ["no-packing", *dict.fromkeys(policy for pair in SWITCHES.values() for policy in pair)]
        pace = Pace(progress, len(policies) * JOBS * len(chosen))
        cluster = machines()
        runs = [(at, policy) for at in range(len(chosen)) for policy in policies]
        figures = workers.made(
            simulates,
            ([(trace(data, JOBS, seed=int(seed)), cluster) for seed in chosen],),
            runs,
            pace,
            [f"seed {chosen[at]}, {policy}" for at, policy in runs],
        )
        found = [dict[str, Figures]() for _ in chosen]
        for (at, policy), one in zip(runs, figures, strict=True):
            found[at][policy] = one
        base = [each["no-packing"]["usd"] for each in found]
        progress("done", pace.total, pace.total)
        shares = [100.0 * each[eva()]["usd"] / usd for each, usd in zip(found, base, strict=True)]
        moves = [each[eva()]["migrations"] for each in found]
        return [
            Row("all on", "cost", None, statistics.mean(shares), UNITS["cost"], _each(shares)),
            Row("all on", "moves", None, statistics.mean(moves), UNITS["migrations"], _each(moves)),
            *gains({name: [(each[a], each[b]) for each in found] for name, (a, b) in SWITCHES.items()}, base),
        ]

    name = f"{NAME}:{'+'.join(seeds)}" if seeds else NAME
    summary = f"what each switch of improved Eva saves on {JOBS} jobs, by seed"
    return Experiment(name, summary, (PODS,), run, SEEDS, _on)


EXPERIMENTS = (_on(()),)
