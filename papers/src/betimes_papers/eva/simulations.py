"""Eva's simulated experiments: tables 6, 13 and 14, and the sweeps of figures 4 to 8.

Table 6 is of jobs of four tasks, with and without a price for the siblings that a slowed task holds up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from betimes_papers.eva.compositions import jobs_of_four_tasks, several_gpus, several_tasks
from betimes_papers.eva.runs import (
    DEFAULT,
    EVA,
    JOBS,
    PODS,
    SCHEDULERS,
    SIZES,
    UNITS,
    machines,
    published,
    rows,
    simulates,
    trace,
)
from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.workload import Workload

_DELAYS = ("init_delay_s", "fetch_delay_s", "build_image_delay_s", "kill_delay_s", "upload_delay_s")


@dataclass(frozen=True)
class Setting:
    """One point of an experiment: its name, its jobs (of the data and a number of jobs) and its machines."""

    name: str
    jobs: Callable[[Path, int], Workload]
    cluster: Callable[[], Cluster]


@dataclass(frozen=True)
class Study:
    """Schedulers under some settings, and the reported metrics."""

    name: str
    summary: str
    settings: tuple[Setting, ...]
    schedulers: dict[str, str]
    metrics: tuple[str, ...]

    def experiment(self, sizes: tuple[str, ...] = ()) -> Experiment:
        """The study on the first jobs of the trace, for each of these numbers of jobs, by default `DEFAULT`."""

        def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
            assert data is not None
            return self._run(data, progress, workers, [int(size) for size in sizes or (DEFAULT,)])

        name = f"{self.name}:{'+'.join(sizes)}" if sizes else self.name
        return Experiment(name, self.summary, (PODS,), run, SIZES, self.experiment)

    def _run(self, data: Path, progress: Progress, workers: Workers, sizes: Sequence[int]) -> list[Row]:
        pace = Pace(progress, len(self.settings) * len(self.schedulers) * sum(sizes))
        points = [(jobs, setting) for jobs in sizes for setting in self.settings]
        runs = [(point, name) for point in range(len(points)) for name in self.schedulers]
        figures = workers.made(
            simulates,
            ([(setting.jobs(data, jobs), setting.cluster()) for jobs, setting in points],),
            [(point, self.schedulers[name]) for point, name in runs],
            pace,
            [f"{points[point][0]:,} jobs, {points[point][1].name} {name}" for point, name in runs],
        )
        made: list[Row] = []
        for at, (jobs, setting) in enumerate(points):
            first = at * len(self.schedulers)
            found = dict(zip(self.schedulers, figures[first : first + len(self.schedulers)], strict=True))
            size = f"{jobs}" if not setting.name else f"{jobs}/{setting.name}"
            made += rows(self.name, size, found, self.metrics, jobs == JOBS)
        progress("done", pace.total, pace.total)
        return made


def _durations(name: str) -> Callable[[Path, int], Workload]:
    return lambda data, jobs: trace(data, jobs, durations=name)


def _slower_to_move(factor: float) -> Callable[[Path, int], Workload]:
    def jobs(data: Path, count: int) -> Workload:
        import numpy as np

        workload = trace(data, count)
        slower = {name: factor * np.asarray(workload.extra[name], np.float64) for name in _DELAYS}
        return replace(workload, extra={**workload.extra, **slower})

    return jobs


def _arriving(jobs_per_h: float) -> Callable[[Path, int], Workload]:
    return lambda data, jobs: trace(data, jobs, mean_gap_s=3600.0 / jobs_per_h)


def _table(name: str, durations: str) -> Study:
    return Study(
        name,
        f"Eva and its baselines on the trace of 6,274 jobs, durations of {durations.capitalize()}",
        (Setting("", _durations(durations), machines),),
        SCHEDULERS,
        ("cost", "tasks_per_instance", "jct", "idle", "migrations"),
    )


_ABLATED = {
    **SCHEDULERS,
    "Eva, Full only": f"{EVA},only=full",
    "Eva, Partial only": f"{EVA},only=partial",
    "Eva, literal text, Partial only": "eva:rules=paper,only=partial",
}

_SHARES = (0.0, 0.2, 0.4, 0.6)

STUDIES = (
    _table("eva-table13", "alibaba"),
    _table("eva-table14", "gavel"),
    Study(
        "eva-fig4",
        "Eva where every pair of tasks has the same throughput, from 1 to 0.8",
        tuple(
            Setting(f"throughput {each:g}", _durations("gavel"), lambda each=each: machines(each))
            for each in (1.0, 0.95, 0.9, 0.85, 0.8)
        ),
        {**SCHEDULERS, "Eva-RP": f"{EVA},table=ignored"},
        ("cost", "jct"),
    ),
    Study(
        "eva-fig5",
        "Eva where moving a job takes 1 to 8 times as long",
        tuple(Setting(f"delay x {each:g}", _slower_to_move(each), machines) for each in (1.0, 2.0, 4.0, 8.0)),
        {
            name: _ABLATED[name]
            for name in ("No-Packing", "Stratus", "Eva", "Eva, Full only", "Eva, improved")
        },
        ("cost", "migrations"),
    ),
    Study(
        "eva-fig6",
        "Eva where 0 to 60 % of the jobs need 2, 4 or 8 GPUs",
        tuple(
            Setting(
                f"{100 * share:g} % multi-GPU",
                lambda data, jobs, share=share: several_gpus(data, jobs, share),
                machines,
            )
            for share in _SHARES
        ),
        {
            name: _ABLATED[name]
            for name in (
                "No-Packing",
                "Stratus",
                "Synergy",
                "Eva",
                "Eva, Partial only",
                "Eva, literal text",
                "Eva, literal text, Partial only",
                "Eva, improved",
            )
        },
        ("cost",),
    ),
    Study(
        "eva-fig7",
        "Eva where 0 to 60 % of the jobs have 2 or 4 tasks",
        tuple(
            Setting(
                f"{100 * share:g} % multi-task",
                lambda data, jobs, share=share: several_tasks(data, jobs, share),
                machines,
            )
            for share in _SHARES
        ),
        {**SCHEDULERS, "Eva-Single": f"{EVA},penalty=none"},
        ("cost", "jct"),
    ),
    Study(
        "eva-fig8",
        "Eva where 0.5 to 3 jobs arrive an hour on average; the trace has 3",
        tuple(Setting(f"{each:g} jobs an hour", _arriving(each), machines) for each in (0.5, 1.0, 2.0, 3.0)),
        SCHEDULERS,
        ("cost", "jct"),
    ),
)

_TABLE_6_JOBS = 100
_TRIALS = ("3", "10")
_FIRST_SEED = 10
_TABLE_6_SCHEDULERS = {
    "No-Packing": "no-packing",
    "Eva-Single": f"{EVA},penalty=none",
    "Eva-Multi": EVA,
    "Eva, improved": "eva",
}


def _table6(parts: tuple[str, ...] = ()) -> Experiment:
    """The table over a number of trials (the largest of `parts`)."""
    trials = max(int(part) for part in parts or _TRIALS[:1])

    def run(_data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        from betimes.cluster import read_cluster

        cluster = read_cluster("ec2-2023")
        pace = Pace(progress, trials * len(_TABLE_6_SCHEDULERS) * _TABLE_6_JOBS)
        runs = [(trial, name) for trial in range(trials) for name in _TABLE_6_SCHEDULERS]
        made = workers.made(
            simulates,
            ([(jobs_of_four_tasks(_TABLE_6_JOBS, _FIRST_SEED + trial), cluster) for trial in range(trials)],),
            [(trial, _TABLE_6_SCHEDULERS[name]) for trial, name in runs],
            pace,
            [f"trial {trial + 1}, {name}" for trial, name in runs],
        )
        found = dict(zip(runs, made, strict=True))
        shares = {
            name: [100.0 * found[at, name]["usd"] / found[at, "No-Packing"]["usd"] for at in range(trials)]
            for name in _TABLE_6_SCHEDULERS
        }
        jcts = {name: [found[at, name]["jct"] for at in range(trials)] for name in _TABLE_6_SCHEDULERS}
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
            for name in _TABLE_6_SCHEDULERS
            for metric, values in (("cost", shares[name]), ("jct", jcts[name]))
        ]

    return Experiment(
        f"eva-table6:{'+'.join(parts)}" if parts else "eva-table6",
        "Eva on jobs of four tasks, with and without a price for the siblings of a slowed task",
        (),
        run,
        _TRIALS,
        _table6,
    )


EXPERIMENTS = (_table6(), *(study.experiment() for study in STUDIES))
