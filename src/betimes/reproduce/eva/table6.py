"""Eva's table 6: jobs of four tasks, with and without a price for the siblings that a slowed task holds up."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from betimes.reproduce.eva.compositions import jobs_of_four_tasks
from betimes.reproduce.eva.runs import UNITS, published, simulates
from betimes.reproduce.experiment import Experiment, Row
from betimes.reproduce.pace import Pace, Progress
from betimes.reproduce.workers import Workers

_JOBS = 100
_TRIALS = ("3", "10")
_FIRST_SEED = 10
_SCHEDULERS = {
    "No-Packing": "no-packing",
    "Eva-Single": "eva:rules=paper,penalty=none",
    "Eva-Multi": "eva:rules=paper",
    "Eva, improved": "eva",
}


def table6(parts: tuple[str, ...] = ()) -> Experiment:
    """The table over so many trials (the most of `parts`)."""
    trials = max(int(part) for part in parts or _TRIALS[:1])

    def run(_data: Path | None, _out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        from betimes.cluster import read_cluster

        cluster = read_cluster("ec2-2023")
        pace = Pace(progress, trials * len(_SCHEDULERS) * _JOBS)
        runs = [(trial, name) for trial in range(trials) for name in _SCHEDULERS]
        made = workers.made(
            simulates,
            ([(jobs_of_four_tasks(_JOBS, _FIRST_SEED + trial), cluster) for trial in range(trials)],),
            [(trial, _SCHEDULERS[name]) for trial, name in runs],
            pace,
            [f"trial {trial + 1}, {name}" for trial, name in runs],
        )
        found = dict(zip(runs, made, strict=True))
        shares = {
            name: [100.0 * found[at, name]["usd"] / found[at, "No-Packing"]["usd"] for at in range(trials)]
            for name in _SCHEDULERS
        }
        jcts = {name: [found[at, name]["jct"] for at in range(trials)] for name in _SCHEDULERS}
        progress("done", pace.total, pace.total)
        return [
            Row(
                name,
                metric,
                published("eva-table6", name, metric),
                mean(values),
                UNITS[metric],
                f"{min(values):.1f} to {max(values):.1f} over {trials} trials",
            )
            for name in _SCHEDULERS
            for metric, values in (("cost", shares[name]), ("jct", jcts[name]))
        ]

    return Experiment(
        f"eva-table6:{'+'.join(parts)}" if parts else "eva-table6",
        "Eva on jobs of four tasks, with and without a price for the siblings of a slowed task",
        (),
        run,
        _TRIALS,
        table6,
    )


EXPERIMENTS = (table6(),)
