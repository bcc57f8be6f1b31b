"""The options that several verbs share, each declared once."""

from __future__ import annotations

from typing import Annotated, Literal

from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.verbs import Argument, Option

STUDY = "What is simulated"
KNOWN = "What the scheduler knows"
COUNTED = "What is counted and kept"


File = Annotated[
    str,
    Argument(
        metavar="FILE",
        help="A trace, plain or gzipped; or a generator such as demo or synthetic:jobs=500; or sample:tiny.",
        show_default=False,
    ),
]
Format = Annotated[str, Option("--format", metavar="NAME", help="The trace's format; auto: by content.")]
OnBadRows = Annotated[
    Literal["fail", "skip"],
    Option("--on-bad-rows", help="Malformed rows: stop at the first, or leave them out and count them."),
]
Units = Annotated[
    int | None,
    Option(
        "--units",
        metavar="N",
        min=1,
        help="Units of the pool. By default the traced machine's; 64 for a generator.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    Option(
        "--cluster",
        metavar="FILE.toml",
        help="The nodes to run on: a cluster file, or an openb node list. With --engine pool its GPUs, or its cores "
        "if it has none, are the units.",
        show_default=False,
    ),
]
Engine = Annotated[
    Literal["auto", "pool", "nodes"],
    Option(
        "--engine",
        help="Elastic jobs on a pool (with --cluster, on its nodes), or rigid ones on nodes; auto: what the policy is "
        "for. fifo is for both: on nodes where jobs are rigid, another policy is for nodes, or there is a --cluster "
        "(or say pool:fifo, nodes:fifo).",
    ),
]
Trial = Annotated[
    str | None,
    Option(
        "--trial",
        metavar="RULE",
        help="Which jobs are trials: run:SECONDS, user:SHARE, random:SHARE, or qos (openb). By default those that "
        "the trace names.",
        show_default=False,
    ),
]
Grace = Annotated[
    str | None,
    Option(
        "--grace",
        metavar="MEAN[:MAX]",
        help="Draw how many seconds each job needs to leave when it is preempted, on nodes.",
        show_default=False,
    ),
]
Overrun = Annotated[
    Literal["extend", "kill"] | None,
    Option(
        "--overrun",
        help="Jobs that outrun their estimate on nodes: believe that they take twice as long (the default), or end "
        "them.",
        show_default=False,
    ),
]
Seed = Annotated[
    int, Option("--seed", metavar="N", min=0, help="Seed of everything that is drawn at random.")
]
Jobs = Annotated[
    int | None,
    Option("--jobs", metavar="N", min=1, help="Keep the first N jobs only.", show_default=False),
]

Policy = Annotated[
    str,
    Option(
        "--policy",
        required=True,
        metavar="NAME[:k=v,...]",
        help="A policy of `betimes policies`, or your own as FILE.py:NAME.",
        autocompletion=complete_policy,
        show_default=False,
    ),
]
Stream = Annotated[
    bool,
    Option(
        "--stream",
        help="Take the jobs in chunks, and keep only the times of each: for millions of them on nodes.",
    ),
]
Policies = Annotated[
    str,
    Option(
        "--policies",
        required=True,
        metavar="A,B,...",
        help="Policies, each with its parameters if any.",
        autocompletion=complete_policy,
        show_default=False,
    ),
]
Fractional = Annotated[
    bool, Option("--fractional", help="Grant fractions of a unit, as published; else whole units.")
]
Load = Annotated[
    float | None,
    Option(
        "--load",
        metavar="F",
        help="Stretch the gaps between submissions so that the jobs at full width want F of the pool, or of the "
        "nodes' scarcest resource.",
        show_default=False,
    ),
]
Curves = Annotated[
    str | None,
    Option(
        "--curves", metavar="FILE.csv", help="Measured speed-up curves, by their name.", show_default=False
    ),
]
RestartS = Annotated[
    float,
    Option(
        "--restart-s",
        metavar="S",
        help="Seconds lost whenever a running job's units change, or a preempted one resumes.",
    ),
]
ResizeInterval = Annotated[
    float,
    Option(
        "--resize-interval",
        metavar="S",
        help="A job on a pool keeps the width that it has got for S seconds, unless it is preempted.",
    ),
]
ResizeGain = Annotated[
    bool,
    Option(
        "--resize-gain",
        help="Resize jobs on a pool only where it pays: to grow if the job is done earlier, restart included; to "
        "shrink if another job gets the units.",
    ),
]
AsTrials = Annotated[
    bool,
    Option(
        "--as-trials",
        help="A job on a pool is a set of as many equal trials as it can use units: each takes one unit, and cannot be "
        "divided.",
    ),
]
OnWide = Annotated[
    Literal["refuse", "clip", "drop"] | None,
    Option(
        "--on-wide",
        help="Jobs that need more than there is: stop (by default on a pool), narrow them, or leave them out (on "
        "nodes).",
        show_default=False,
    ),
]
Seeds = Annotated[
    int | None,
    Option(
        "--seeds",
        metavar="N",
        min=2,
        help="Run N seeds from --seed on (a generator makes a workload for each): means, 95 % intervals.",
        show_default=False,
    ),
]
Predict = Annotated[bool, Option("--predict", help="Promise a finish at every submission, and judge it.")]
PredictSample = Annotated[
    int | None,
    Option(
        "--predict-sample",
        metavar="N",
        min=1,
        help="Promise a finish to N jobs drawn by the seed (implies --predict).",
        show_default=False,
    ),
]
PredictInterval = Annotated[
    float | None,
    Option(
        "--interval",
        metavar="LEVEL",
        help="Promise with an interval in which this share of the jobs is done, such as 0.8, learned from the jobs "
        "that have finished. With it --predict is meant, too.",
        show_default=False,
    ),
]
Sizes = Annotated[
    str | None,
    Option(
        "--sizes",
        metavar="true|estimate|last-two|learned|noise:F",
        help="Sizes the scheduler sees: true, the users' estimates, the mean of their last two jobs, learned from "
        "all jobs that have finished (estimates under policies that backfill), or wrong by up to a fraction F. By "
        "default true; on nodes the estimates, where there are any.",
        show_default=False,
    ),
]
Users = Annotated[
    str | None,
    Option(
        "--users",
        metavar="fair[:half-life=7d][,file=USERS.csv]",
        help="Users share: those who used more of late, by weight, go later. The file has the columns user and weight, "
        "and max_running_jobs, max_units or max_memory_gib.",
        show_default=False,
    ),
]
Status = Annotated[
    Literal["all", "completed"],
    Option("--status", help="Count all jobs, or those that completed in the trace."),
]
Measure = Annotated[
    str,
    Option("--measure", metavar="A%..B%", help="Count this part of the jobs, in order of submission."),
]
Fair = Annotated[
    bool | None,
    Option(
        "--fair/--no-fair",
        help="Compare with a max-min run on the pool too (unfairness, fair run). By default where it is quick (in "
        "whole units, or up to 20,000 jobs) and no policy rents.",
        show_default=False,
    ),
]
Out = Annotated[
    str | None,
    Option(
        "--out",
        metavar="DIR",
        help="Write tables: jobs.parquet, timeline.parquet, summary.json and, after preemption on nodes, "
        "absences.parquet: a folder a policy if several. --report adds pictures.",
        show_default=False,
    ),
]
Report = Annotated[
    bool,
    Option(
        "--report",
        help="Write report.html into --out, which shows the results and works offline, and its pictures (SVG, PNG).",
    ),
]
OpenReport = Annotated[
    bool, Option("--open", help="Write the report, as --report, and open it in the browser.")
]
Plots = Annotated[
    str | None,
    Option(
        "--plots",
        metavar="DIR",
        help="Write pictures (SVG): distributions, and each policy over time (with --seeds, of the first).",
        show_default=False,
    ),
]
OnRay = Annotated[
    bool,
    Option("--ray", help="Simulate on the Ray cluster of RAY_ADDRESS, or on a Ray of this machine."),
]
Processes = Annotated[
    int | None,
    Option(
        "--processes",
        metavar="N",
        min=1,
        help="Processes; by default one a CPU where there is enough to do.",
        show_default=False,
    ),
]
