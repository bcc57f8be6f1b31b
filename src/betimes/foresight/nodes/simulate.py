"""One workload under one policy on nodes, with promises where they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from betimes.cluster import Cluster
from betimes.errors import ClusterError, InputError
from betimes.foresight.learned_promises import LearnedPromises
from betimes.foresight.learning_run import learning_run
from betimes.foresight.nodes.predict import predicting, run_rows_predicting
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.foresight.sampling import drawn
from betimes.foresight.waits.playing import play_until_started, play_waits
from betimes.outcome import Result, job_metric, metrics
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.portfolio import SHADOW
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.tasks import tasks_of
from betimes.twin.nodes.trace_loop import run_rows
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload
from betimes.workload.speedup import unknown_curves_warning


def simulate_nodes(
    workload: Workload,
    policy: str | ChosenPolicy[NodesPolicy],
    options: SimulationOptions | None = None,
    *,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
    learned: LearnedPromises | None = None,
    **fields: Any,
) -> Result:
    """Run `workload` under `policy` on nodes; jobs run at full width, and are never resized. Arguments of `simulate`.

    Raises InputError (and its children) for bad input, PolicyViolation for a policy's bad answer.
    """
    chosen = policy if isinstance(policy, ChosenPolicy) else parse_nodes_policy(policy)
    warn = warn or _keep_quiet
    options = SimulationOptions.of(options, **fields)
    options.check("nodes")
    cluster = options.nodes_for(workload)
    check_wide(workload, cluster, options.on_wide, rents=chosen.policy.rents(chosen.values))
    if len(workload) == 0:
        raise InputError(f"{workload.name}: there is no job to simulate")
    if options.sizes is None:
        known = not np.isnan(workload.estimate_s).all()
        options = replace(options, sizes=Sizes("estimate" if known else "true"))
    options = replace(options, cluster=cluster, units=None)
    started = time.perf_counter()
    plans = chosen.policy.plans(chosen.values)
    (run_rows_predicting if options.predict and not plans else run_rows).load()
    run = NodesSimulation(workload, chosen, options)
    if run.rules.plays:
        play_until_started.load()
        play_waits(run)
    compile_s = time.perf_counter() - started
    for reason in run.tasks.reasons:
        warn(f"{workload.name}: {reason}")
    if not len(run.jobs):
        raise ClusterError(f"{workload.name}: no job fits the cluster {cluster.name}; {run.tasks.reasons[0]}")
    if run.unknown_curves:
        warn(unknown_curves_warning(run.unknown_curves, options.curves))
    if run.without_estimate:
        jobs = "1 job" if run.without_estimate == 1 else f"{run.without_estimate} jobs"
        warn(f"{jobs} without an estimate: {run.assumed_s:g} s was assumed")
    portfolio = _selecting(run, warn)
    learning = learning_run(run, options.interval, learned)
    wanted = drawn(len(run.jobs), options.predict_sample, options.seed) if options.predict else None
    step = run.driver.step if wanted is None else predicting(run, wanted, learning)
    run.run(step if learning is None else learning.step(step), progress)
    if learning is not None and learned is not None and options.state is None:
        learning.end()
    decided, abstained = int(run.state.cluster[0].predicted), int(run.state.cluster[0].abstained)
    if abstained:
        warn(
            f"of {decided:,} jobs whose waits were to be predicted {abstained:,} were unlike all that was learned"
        )
    if portfolio is not None:
        run.selections = portfolio.reflection.columns()
    if run.refused:
        warn(_about_refused(run))
    result = run.result(compile_s=compile_s)
    if learning is not None and options.interval is not None:
        result = learning.with_intervals(result, run.kept)
    if portfolio is not None and portfolio.is_shadow:
        plain = replace(options, predict=portfolio.predicts, timeline=False)
        decided = simulate_nodes(workload, in_force(chosen), plain)
        warn(saved_in_force(result, decided))
    return result


def check_wide(workload: Workload, cluster: Cluster, on_wide: str | None, *, rents: bool) -> None:
    """Raise ClusterError for jobs that the empty cluster cannot run, where `on_wide` is `refuse`.

    rents: machines on offer count as nodes.
    """
    reasons = tasks_of(workload, cluster, rents=rents).reasons if on_wide == "refuse" else ()
    if reasons:
        raise ClusterError(f"{workload.name}: {reasons[0]}; give it more room, or leave --on-wide refuse out")


def _selecting(run: NodesSimulation, warn: Callable[[str], object]) -> Portfolio | None:
    """The portfolio that selects among policies for the run; None: the policy is a single one."""
    chosen = run.policy
    if chosen.policy.members is None:
        return None
    members = list(chosen.policy.members(chosen.values))
    portfolio = Portfolio(run, members, Settings.of(chosen), warn)
    portfolio.start()
    return portfolio


def _about_refused(run: NodesSimulation) -> str:
    """A note to the user about a planner's refused decisions."""
    first, count = run.refused[0], len(run.refused)
    decisions = "1 decision" if count == 1 else f"{count} decisions"
    named = f"job {run.jobs.job_id[first.row]}, " if first.row >= 0 else ""
    return f"policy {run.policy}: {decisions} could not be carried out and changed nothing; the first {named}{first}"


def in_force(policy: ChosenPolicy[NodesPolicy]) -> ChosenPolicy[NodesPolicy]:
    """The same portfolio with its choices in force."""
    given = tuple(name for name in policy.given if name != SHADOW.name)
    return replace(policy, values={**policy.values, SHADOW.name: "false"}, given=given)


def saved_in_force(shadow: Result, decided: Result) -> str:
    """One line: mean completion time, slowdown and cost of the shadow's run and of the run its choices decided."""
    parts = [
        f"{name} {_mean_of(decided, metric):.4g}{unit} instead of {_mean_of(shadow, metric):.4g}{unit}"
        for name, metric, unit in (
            ("mean JCT", "jct_s", " s"),
            ("mean bounded slowdown", "bounded_slowdown", ""),
        )
    ]
    if shadow.leases is not None and decided.leases is not None:
        paid, would_be = (metrics.total(each.cost_usd) for each in (shadow.leases, decided.leases))
        parts.append(f"{would_be:,.2f} USD instead of {paid:,.2f} USD")
    return f"portfolio: with its choices in force, {', '.join(parts)}"


def _mean_of(result: Result, metric: str) -> float:
    return metrics.mean(job_metric(result, metric)[result.jobs.finished])


def _keep_quiet(_: str) -> None:
    """The default of `warn`: drop the text."""
