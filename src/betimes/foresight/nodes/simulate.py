"""One workload under one policy on nodes, with promises where they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from betimes.cluster import Cluster
from betimes.errors import ClusterError, InputError
from betimes.foresight.learning_run import learning_run
from betimes.foresight.nodes.predict import predicting, run_rows_predicting
from betimes.foresight.portfolio import shadow
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.foresight.sampling import drawn
from betimes.foresight.waits.playing import play_until_started, play_waits
from betimes.outcome import Result
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import run_rows
from betimes.twin.sizes import Sizes, parse_sizes
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable, unknown_curves_warning


def simulate_nodes(
    workload: Workload,
    policy: str | ChosenPolicy[NodesPolicy],
    *,
    cluster: Cluster,
    curves: SpeedupTable | None = None,
    predict: bool = False,
    predict_sample: int | None = None,
    interval: float | None = None,
    sizes: str | Sizes | None = None,
    overrun: str = "extend",
    seed: int = 0,
    restart_s: float = 0.0,
    timeline: bool = False,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Run `workload` under `policy` on the nodes of `cluster`; jobs run at full width, and are never resized.

    sizes: the scheduler's beliefs, by default the users' estimates if the trace has any, else the truth.
    overrun: jobs that outrun their estimate are believed to take twice as long (`extend`), or are ended (`kill`).
    restart_s: lost by a preempted job when it resumes. predict: promise a finish at every submission, or at
    `predict_sample` of them drawn by `seed`. interval: as of `betimes.simulate`. warn receives, in one line each,
    assumptions and refused jobs; progress the number of jobs submitted so far.
    Raises InputError (and its children) for bad input, PolicyViolation for a policy's bad answer.
    """
    chosen = policy if isinstance(policy, ChosenPolicy) else parse_nodes_policy(policy)
    told = warn or _keep_quiet
    if len(workload) == 0:
        raise InputError(f"{workload.name}: there is no job to simulate")
    if predict and chosen.policy.plans(chosen.values):
        raise InputError(
            f"--predict: policy {chosen} plans in rounds, and no end can be promised under it before they come; "
            "leave --predict out"
        )
    if seed < 0:
        raise InputError(f"--seed {seed}: a whole number of 0 or more")
    if sizes is None:
        sizes = "true" if np.isnan(workload.estimate_s).all() else "estimate"
    choice = sizes if isinstance(sizes, Sizes) else parse_sizes(sizes)
    started = time.perf_counter()
    (run_rows_predicting if predict else run_rows).load()
    run = NodesSimulation(
        workload,
        chosen,
        cluster,
        curves=curves,
        sizes=choice,
        overrun=overrun,
        seed=seed,
        restart_s=restart_s,
        timeline=timeline,
    )
    if run.rules.plays:
        play_until_started.load()
        play_waits(run)
    compile_s = time.perf_counter() - started
    for reason in run.tasks.reasons:
        told(f"{workload.name}: {reason}")
    if not len(run.jobs):
        raise ClusterError(f"{workload.name}: no job fits the cluster {cluster.name}; {run.tasks.reasons[0]}")
    if run.unknown_curves:
        told(unknown_curves_warning(run.unknown_curves, curves))
    if run.without_estimate:
        jobs = "1 job" if run.without_estimate == 1 else f"{run.without_estimate} jobs"
        told(f"{jobs} without an estimate: {run.assumed_s:g} s was assumed")
    portfolio = _selecting(run, told)
    learning = learning_run(run, run.jobs, run.run_s, interval)
    wanted = drawn(len(run.jobs), predict_sample, seed) if predict else None
    step = run.submit_rows if wanted is None else predicting(run, wanted, learning)
    run.run(step if learning is None else learning.step(step), progress)
    decided, abstained = int(run.state.cluster[0].predicted), int(run.state.cluster[0].abstained)
    if abstained:
        told(
            f"of {decided:,} jobs whose waits were to be predicted {abstained:,} were unlike all that was learned"
        )
    if portfolio is not None:
        run.selections = portfolio.reflection.columns()
    for rounds in run.rounds_in_turn:
        if refused := rounds.warning():
            told(refused)
    result = run.result(compile_s=compile_s)
    if learning is not None and interval is not None:
        result = learning.with_intervals(result, run.kept)
    if portfolio is not None and portfolio.is_shadow:
        decided = simulate_nodes(
            workload,
            shadow.in_force(chosen),
            cluster=cluster,
            curves=curves,
            sizes=choice,
            overrun=overrun,
            seed=seed,
            restart_s=restart_s,
        )
        told(shadow.saved(result, decided))
    return result


def _selecting(run: NodesSimulation, warn: Callable[[str], object]) -> Portfolio | None:
    """The portfolio that selects among policies for the run; None: the policy is a single one."""
    chosen = run.policy
    if chosen.policy.members is None:
        return None
    members = list(chosen.policy.members(chosen.values))
    portfolio = Portfolio(run, members, Settings.of(chosen), warn)
    portfolio.start()
    return portfolio


def _keep_quiet(_: str) -> None:
    """The default of `warn`: drop the text."""
