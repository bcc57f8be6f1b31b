"""`betimes tune`: a Pareto front of configurations of weighted fair queueing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli import options
from betimes.cli.simulate.flags import SimulationFlags, spread_flags
from betimes.cli.verbs import Json, Output, State

if TYPE_CHECKING:
    from betimes.cli.render.progress import Display
    from betimes.cli.simulate.study import Study
    from betimes.foresight.tuning import Front, Progress, Search

MOST_HERE = 100_000
"""Up to this many jobs in all evaluations together, starting other processes takes longer than they save."""

SHORT_S = 5.0
"""For a shorter budget, starting other processes would take too long."""

Objectives = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        metavar="METRIC:MEASURE",
        help="What is wanted, once for each: jct, pred_err, unfairness, slowdown, wait, makespan or utilisation; avg, "
        "p50, p90, p95, p99 or max. By default jct:avg and pred_err:avg.",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=2,
        help="Jobs to search on, and as many after them to report on. By default 1,000, or half of all where there are "
        "fewer.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="FILE.toml",
        help="The nodes whose GPUs, or cores where they have none, are the units.",
        show_default=False,
    ),
]
Evaluations = Annotated[
    int, typer.Option("--evaluations", metavar="N", min=1, help="Configurations to try at most.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Search for so long at most: 20s, 5m.", show_default=False),
]
Solver = Annotated[
    str, typer.Option("--solver", metavar="NAME", help="Who proposes them: spea2, nsga2 or random.")
]
Baselines = Annotated[
    str,
    typer.Option("--baselines", metavar="A,B,...", help="Policies to compare with; none: leave them out."),
]
Cached = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Keep evaluations for later searches, and use those that were kept."
    ),
]
File = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="A trace, as of `betimes simulate`; or --live.", show_default=False),
]
Live = Annotated[
    bool,
    typer.Option(
        "--live",
        help="In the place of FILE: the jobs that the running service was given last, on its own cluster. The service "
        "searches, and keeps the front.",
    ),
]
PredictSample = Annotated[
    int | None,
    typer.Option(
        "--predict-sample",
        metavar="N",
        min=1,
        help="Search on the promises of N jobs drawn by the seed: sooner, and less exact; the front is reported on the "
        "promises of all.",
        show_default=False,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Write front.json, front.html (works offline; a click copies a command), front.svg and front.png.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class PoolFlags:
    """The flags of a simulation that a search has, too."""

    units: options.Units = None
    cluster: Cluster = None
    fractional: options.Fractional = False
    jobs: Jobs = None
    load: options.Load = None
    curves: options.Curves = None
    restart_s: options.RestartS = 0.0
    resize_interval_s: options.ResizeInterval = 0.0
    resize_gain: options.ResizeGain = False
    on_wide: options.OnWide = None
    predict_sample: PredictSample = None
    sizes: options.Sizes = None


@spread_flags
def tune(
    context: typer.Context,
    *,
    file: File = None,
    live: Live = False,
    state: State = None,
    objective: Objectives = None,
    pool: PoolFlags,
    evaluations: Evaluations = 1000,
    budget: Budget = None,
    solver: Solver = "spea2",
    seed: options.Seed = 0,
    baselines: Baselines = "fifo,srsf,themis,afs,max-min",
    processes: options.Processes = None,
    ray: options.OnRay = False,
    cached: Cached = True,
    out: Out = None,
    form: options.Format = "auto",
    on_bad_rows: options.OnBadRows = "fail",
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Search for the configurations of wfq that no other beats in every objective, and show what each brings.

    They are found on one part of the workload and reported on the next. Ctrl-C ends the search with the front so far;
    the same command goes on where it ended. `betimes policy set` puts one in force.
    """
    from betimes.cli.live.policy.tune_live import check_source, tune_live

    check_source(context, file, live)
    if file is None:
        tune_live(
            objective,
            evaluations,
            budget,
            pool.jobs,
            seed,
            solver,
            pool.sizes,
            out,
            state,
            as_json,
            wide=output is not None,
        )
        return
    from betimes.cli import folders
    from betimes.cli.duration_options import parse_option
    from betimes.cli.render.fronts import show
    from betimes.cli.render.progress import Display
    from betimes.cli.simulate.running import study
    from betimes.foresight.tuning import Search, parse_objectives
    from betimes.outcome import to_json
    from betimes.policies import split_policies

    asked = parse_objectives(objective or ["jct:avg", "pred_err:avg"])
    search = Search(
        evaluations=evaluations,
        budget_s=None if budget is None else parse_option("--budget", budget, 1e-6),
        solver=solver,
        seed=seed,
        jobs=pool.jobs or 1000,
        processes=processes,
        ray=ray,
        baselines=() if baselines in {"", "none"} else tuple(split_policies(baselines)),
        cached=cached,
    )
    flags = SimulationFlags(
        file=file,
        engine="pool",
        predict=any(each.predicts for each in asked),
        seed=seed,
        fair=False,
        form=form,
        on_bad_rows=on_bad_rows,
        **{**vars(pool), "jobs": None},  # the search takes its parts of all jobs
    )
    wanted, _, _ = study("wfq", flags, several=False, timeline=False)
    if out is not None:
        folders.check("--out", out)
    display = Display()
    with display.shown():
        front = _searched(wanted, [str(each) for each in asked], search, display)
        if out is not None:
            from betimes.cli.render.fronts import write

            with folders.staged(out) as stage:
                write(front, stage)
    display.say_notes()
    if as_json:
        print(to_json(front.model_dump(mode="json")))
    else:
        show(front, wide=output is not None)


def _searched(study: Study, objectives: list[str], search: Search, display: Display) -> Front:
    from dataclasses import replace

    from betimes.cli.simulate.study import load, notes_of
    from betimes.cli.warming import compile_kernels
    from betimes.foresight.tuning import tune as search_front
    from betimes.policies import parse_policy
    from betimes.processes import cpus

    display.expect("reading", None)
    loaded = load(study, study.flags.seed)
    display.finish("reading")
    for note in notes_of(loaded.workload):
        display.note(note)
    compile_kernels(
        {name: parse_policy(name) for name in ("wfq", *search.baselines)}, study.options.predict, display
    )
    if search.processes is None and not search.ray:
        jobs = min(search.jobs or len(loaded.workload), len(loaded.workload) // 2)
        is_long = search.evaluations * jobs > MOST_HERE and (search.budget_s or SHORT_S) >= SHORT_S
        search = replace(search, processes=cpus() if is_long else 1)

    def progressed(progress: Progress) -> None:
        known = not math.isnan(progress.hypervolume)
        volume = f", hypervolume {progress.hypervolume:.4f}" if known else ""
        label = f"{progress.doing}: {progress.front} on the front{volume}"
        display.at("search", label, progress.done, progress.of)

    workload, options = loaded.placed["pool"]
    front = search_front(workload, objectives, options, how=search, progress=progressed)
    display.finish("search")
    if front.ended != "evaluations":
        why = {
            "budget": "the time was up",
            "interrupted": "interrupted",
            "exhausted": "nothing new was proposed",
        }
        display.note(f"{why[front.ended]} after {front.evaluations:,} of {search.evaluations:,} evaluations")
    if front.test is None:
        display.note("too few jobs for a part to report on: the values are those of the part searched on")
    return front
