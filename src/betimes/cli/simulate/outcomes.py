"""The outputs of a study: figures, files and pictures, as each run is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.cli.folders import COMPARISON, PICTURES, REPORT, SUMMARY, names
from betimes.cli.simulate.study import Run, Study

if TYPE_CHECKING:
    from betimes.foresight.engines import Engine
    from betimes.outcome import Result
    from betimes.outcome.report import Picture

CDFS = {
    "jct_s": ("jct-cdf", "Which share of the jobs is done within each completion time."),
    "slowdown": ("slowdown-cdf", "Which share of the jobs has at most each slowdown."),
    "prediction_error_frac": (
        "prediction-error-cdf",
        "Which share of the promises is off by at most so much.",
    ),
    "unfairness_frac": ("unfairness-cdf", "Which share of the jobs is treated at most so unfairly."),
}
HEADINGS = (
    "Distributions",
    "Promises",
    "Cost",
    "Use and queue over time",
    "Jobs over time",
    "Nodes over time",
    "Selected policies",
)


class Outcomes:
    """Takes results in any order; returns summaries in the order of the policies.

    engines: that of each policy, by name. out and plots: the directories to fill, None for none. report: `out` gets a
    report with pictures, too. Results are kept only as far as the pictures need them.
    """

    def __init__(
        self,
        study: Study,
        engines: Mapping[str, Engine],
        out: Path | None,
        plots: Path | None,
        *,
        report: bool,
    ) -> None:
        policies = list(engines)
        self.study, self.policies, self.engines, self.out, self.plots = study, policies, engines, out, plots
        self.report_in = out if report else None
        self.several = len(policies) > 1 or study.flags.seeds is not None
        self.folders = dict(zip(policies, names(policies), strict=True))
        self._fair: dict[int, Any] = {}
        self._early: list[tuple[Run, Result]] = []
        self._summaries: dict[tuple[str, int], dict[str, Any]] = {}
        self._drawn: dict[str, Result] = {}
        self._pictures: list[Picture] = []

    def take(self, run: Run, result: Result, *, fair: bool) -> None:
        """Take in a result; `fair`: it waits for the max-min run of its seed if that is not done."""
        if run.fair:
            self._fair[run.seed] = result.jobs.finish_s
            early, self._early = self._early, []
            for other, its_result in early:
                self.take(other, its_result, fair=True)
        elif fair and run.engine == "pool" and run.seed not in self._fair:
            self._early.append((run, result))
        else:
            if run.engine == "pool":
                result = replace(result, fair_finish_s=self._fair_finish(run, result))
            self._settle(run, result)

    def rows(self) -> list[dict[str, Any]]:
        """The figures to print as JSON, an object a policy; over seeds the means, and their intervals beside."""
        if self.study.flags.seeds is None:
            rows = [self._of(policy)[0] for policy in self.policies]
        else:
            rows = [_flat(self._of(policy), list(self.study.all_seeds())) for policy in self.policies]
        widths = {"pool": "elastic", "nodes": "rigid"}
        of_engines = [{"engine": engine} for engine in self.engines.values()]
        if self.is_mixed:
            of_engines = [{**each, "widths": widths[each["engine"]]} for each in of_engines]
        return [{**row, **more} for row, more in zip(rows, of_engines, strict=True)]

    @property
    def is_mixed(self) -> bool:
        """Whether some policies ran on a pool and some on nodes, so that each is shown with its engine."""
        return len(set(self.engines.values())) > 1

    def shown(self) -> Sequence[Mapping[str, Any]]:
        """The figures to show as a table."""
        from betimes.outcome import over_seeds

        rows: Sequence[Mapping[str, Any]] = (
            self.rows()
            if self.study.flags.seeds is None
            else [over_seeds(self._of(policy)) for policy in self.policies]
        )
        return [{**row, "policy": self._title(row["policy"])} for row in rows]

    def _title(self, policy: str) -> str:
        engine = self.engines[policy]
        return f"{engine}:{policy.removeprefix(f'{engine}:')}" if self.is_mixed else policy

    def finish(self, warn: Callable[[str], object]) -> None:
        """Write the files that need all results: the comparison, and the pictures with all policies."""
        from betimes.outcome import to_json

        if self.out is not None and self.several:
            content = {"rows": self.rows(), "folders": list(self.folders.values())}
            (self.out / COMPARISON).write_text(to_json(content) + "\n", encoding="utf-8")
        if self._draws():
            self._draw_distributions(warn)
        if self.report_in is not None:
            self._draw_promises_and_cost()
            self._report(self.report_in)

    def _draws(self) -> bool:
        """Whether pictures were asked for: they take longer than most simulations."""
        return self.plots is not None or self.report_in is not None

    def _settle(self, run: Run, result: Result) -> None:
        from betimes.outcome import save, summarise

        study = self.study
        if self.out is None:
            summary = summarise(result, study.measure, study.flags.status)
        else:
            import json

            folder = save(result, self._folder(self.out, run), study.measure, study.flags.status)
            summary = json.loads((folder / SUMMARY).read_bytes())
            del summary["run"]
        self._summaries[run.policy, run.seed] = summary
        if self._draws() and run.seed == study.flags.seed:
            self._draw_timeline(run, result)
            self._drawn[run.policy] = replace(
                result, policy=self._title(run.policy), segments=None, decisions=None
            )

    def _of(self, policy: str) -> list[dict[str, Any]]:
        return [self._summaries[policy, seed] for seed in self.study.all_seeds()]

    def _fair_finish(self, run: Run, result: Result) -> Any:
        """Finish times of the max-min run; without one the key stays, with null, for scripts that read it."""
        import numpy as np

        return self._fair.get(run.seed, np.full(len(result.jobs), np.nan))

    def _folder(self, out: Path, run: Run) -> Path:
        folder = out / self.folders[run.policy] if len(self.policies) > 1 else out
        return folder / f"seed-{run.seed}" if self.study.flags.seeds is not None else folder

    def _files(self, name: str, heading: str, caption: str, *, is_new: bool = False) -> list[Path]:
        """The files of a picture: in `--plots`, unless it `is_new` there, and in both forms beside the report."""
        from betimes.outcome.report import Picture

        files = [self.plots / f"{name}.svg"] if self.plots is not None and not is_new else []
        if self.report_in is not None:
            path = self.report_in / PICTURES / f"{name}.svg"
            self._pictures.append(Picture(path, heading, caption))
            files += [path, path.with_suffix(".png")]
        return files

    def _draw_timeline(self, run: Run, result: Result) -> None:
        from betimes.outcome import plot_allocations, plot_selections, plot_timeline
        from betimes.outcome.plots import MOST_ROWS, plot_jobs, plot_nodes

        folder, who = self.folders[run.policy], self._title(run.policy)
        if result.selections is not None and len(result.selections):
            caption = f"{who}: the policies that were selected."
            plot_selections(result, self._files(f"selections-{folder}", "Selected policies", caption))
        if result.segments is None or not len(result.segments):
            return
        caption = f"{who}: what is in use, and how many jobs wait."
        plot_timeline(result, self._files(f"timeline-{folder}", "Use and queue over time", caption))
        if len(result.jobs) <= MOST_ROWS:
            caption = f"{who}: which units each job holds."
            plot_allocations(result, self._files(f"allocations-{folder}", "Jobs over time", caption))
        elif self.report_in is not None:
            caption = f"{who}: each line is a job, first submitted on top."
            plot_jobs(result, self._files(f"jobs-{folder}", "Jobs over time", caption, is_new=True))
        if self.report_in is not None and result.decisions is not None and (result.decisions.node > 0).any():
            caption = f"{who}: each line is a node; the brighter, the more tasks it has."
            plot_nodes(result, self._files(f"nodes-{folder}", "Nodes over time", caption, is_new=True))

    def _draw_distributions(self, warn: Callable[[str], object]) -> None:
        import numpy as np

        from betimes.outcome import job_metric, plot_cdf, selected

        results = [self._drawn[policy] for policy in self.policies]
        study = self.study
        for metric, (name, caption) in CDFS.items():
            if metric.startswith("prediction") and not study.options.predict:
                continue
            if metric.startswith("unfairness") and "pool" not in study.engines:
                continue
            known = [
                result
                for result in results
                if np.isfinite(
                    job_metric(result, metric)[selected(result, study.measure, study.flags.status)]
                ).any()
            ]
            if len(known) < len(results):
                warn(f"{name}.svg leaves out {len(results) - len(known)} policies with no value of {metric}")
            if known:
                files = self._files(name, "Distributions", caption)
                plot_cdf(known, metric, files, study.measure, study.flags.status)

    def _draw_promises_and_cost(self) -> None:
        import numpy as np

        from betimes.outcome.plots import plot_cost, plot_promises

        judged = [
            result
            for result in map(self._drawn.__getitem__, self.policies)
            if np.isfinite(result.jobs.predicted_finish_s - result.jobs.finish_s).any()
        ]
        if judged:
            caption = "Promised against true completion times; on the line a promise was kept exactly."
            plot_promises(judged, self._files("promises", "Promises", caption, is_new=True))
        costs = [(self._title(policy), self._of(policy)[0]) for policy in self.policies]
        priced = [(policy, figures) for policy, figures in costs if figures.get("cost_usd")]
        if priced:
            rented = [float(figures.get("on_demand_usd") or 0.0) for _, figures in priced]
            owned = [
                float(figures["cost_usd"]) - usd for (_, figures), usd in zip(priced, rented, strict=True)
            ]
            caption = "What the machines cost."
            files = self._files("cost", "Cost", caption, is_new=True)
            plot_cost([policy for policy, _ in priced], owned, rented, files)

    def _report(self, out: Path) -> None:
        from betimes import __version__
        from betimes.outcome import report
        from betimes.outcome.plots import described

        flags = self.study.flags
        seeds = f"seed {flags.seed}"
        if flags.seeds is not None:
            seeds = f"means over {flags.seeds} seeds from {flags.seed} on; pictures of the first"
        order = {heading: at for at, heading in enumerate(HEADINGS)}
        pictures = sorted(self._pictures, key=lambda picture: order[picture.heading])
        drawn = [self._drawn[policy] for policy in self.policies]
        made = f"Betimes {__version__}, {seeds}."
        report.write(out / REPORT, described(drawn), self.shown(), pictures, made)


def _flat(summaries: Sequence[Mapping[str, Any]], seeds: list[int]) -> dict[str, Any]:
    """One object with the contract's keys, every figure the mean over seeds; then seeds and half-widths."""
    from betimes.outcome import over_seeds

    intervals = over_seeds(summaries)
    flat: dict[str, Any] = {"policy": intervals["policy"]}
    for key in dict.fromkeys(key for summary in summaries for key in summary):
        if key == "timing":
            flat[key] = _mean_timing([summary["timing"] for summary in summaries])
        elif key != "policy":
            flat[key] = _whole(intervals[key].mean, [summary.get(key) for summary in summaries])
    widths = {key: each.half_width for key, each in intervals.items() if key != "policy"}
    return {**flat, "seeds": seeds, "ci95_half_width": widths}


def _mean_timing(timings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    mean = {
        key: sum(each[key] for each in timings) / len(timings) for key in timings[0] if key != "jobs_per_s"
    }
    jobs = sum((each["jobs_per_s"] or 0.0) * each["wall_s"] for each in timings)
    wall_s = sum(each["wall_s"] for each in timings)
    rate = jobs / wall_s if wall_s > 0 else None
    return {key: rate if key == "jobs_per_s" else mean[key] for key in timings[0]}


def _whole(mean: float, values: Sequence[Any]) -> float | int:
    """A mean of counts as an int if it is whole."""
    counts = all(isinstance(value, int) for value in values)
    return int(mean) if counts and float(mean).is_integer() else mean
