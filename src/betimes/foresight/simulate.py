"""`betimes.simulate`: a workload, a policy and a pool or a cluster in; schedules and promises out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from betimes.core.pool.columns import room_to_play
from betimes.errors import InputError
from betimes.foresight.engines import POOL, AnyChosen, engine_for
from betimes.foresight.learned_promises import LearnedPromises
from betimes.foresight.learning_run import LearningRun, learning_run, playouts_of
from betimes.foresight.predict import run_rows_predicting
from betimes.foresight.sampling import drawn
from betimes.kernels import Floats, FloatTable, Ints, as_array
from betimes.outcome import IntervalColumns, JobState, Result
from betimes.policies import ChosenPolicy, Policy, parse_policy
from betimes.policies.hooks import ASK
from betimes.policies.nodes.heterogeneous_wfq import where_alike
from betimes.policies.pool.renting import RENTS_NOTHING, renting_rule
from betimes.twin.noted_cluster import noted_cluster
from betimes.twin.options import SimulationOptions
from betimes.twin.pool import entries
from betimes.twin.pool.simulation import Simulation, fit
from betimes.twin.pool.trace_loop import run_rows
from betimes.twin.pool.trials import TrialSimulation
from betimes.workload import Workload
from betimes.workload.speedup import unknown_curves_warning


def simulate(
    workload: Workload,
    policy: str | AnyChosen,
    options: SimulationOptions | None = None,
    *,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
    **fields: Any,
) -> Result:
    """Run `workload` under `policy` on a pool of identical units, or on the nodes of a cluster.

    fields: those of `SimulationOptions`, as in `simulate(workload, "srsf", units=64, predict=True)`; they replace those
    of `options`. Cluster and curves may be given by the names of their files, sizes as text (`estimate`, `noise:0.2`).

    engine: fifo, which is for both, runs on nodes where a cluster is given or the workload was generated for one
    (`pool:fifo`, `nodes:fifo` say which). Where no cluster is given it is the one that the workload was generated for,
    or one pool of `units` without walls. warn receives, in one line each, what was assumed or left out; progress the
    number of jobs submitted so far.

    Raises InputError (and its children) for bad input, PolicyViolation for a policy's bad decision.
    """
    return simulate_learning(workload, policy, SimulationOptions.of(options, **fields), None, warn, progress)


def simulate_learning(
    workload: Workload,
    policy: str | AnyChosen,
    options: SimulationOptions,
    learned: LearnedPromises | None,
    warn: Callable[[str], object] | None,
    progress: Callable[[int], object] | None,
) -> Result:
    """As `simulate`; learned: what promises with intervals rest on from the begin, and what the run adds to."""
    noted = options.cluster is None and noted_cluster(workload) is not None
    because = f"{workload.name} was generated for nodes" if noted else ""
    families = () if options.cluster is None else options.cluster.families
    policy = where_alike(policy, families) if isinstance(policy, str) else policy
    if engine_for(policy, options.engine, because, prefers_nodes=options.cluster is not None) == POOL:
        chosen = parse_policy(policy) if isinstance(policy, str) else policy
        return _simulate_pool(workload, chosen, options, warn or _keep_quiet, progress, learned)  # pyright: ignore[reportArgumentType]  # the engine is the policy's
    from betimes.foresight.nodes.simulate import simulate_nodes  # a pool starts without the modules of nodes

    return simulate_nodes(workload, policy, options, warn=warn, progress=progress, learned=learned)  # pyright: ignore[reportArgumentType]


def _simulate_pool(
    workload: Workload,
    chosen: ChosenPolicy[Policy],
    options: SimulationOptions,
    warn: Callable[[str], object],
    progress: Callable[[int], object] | None,
    learned: LearnedPromises | None = None,
) -> Result:
    options.check(POOL)
    if len(workload) == 0:
        raise InputError(f"{workload.name}: there is no job to simulate")
    units, cluster, seed = options.pool_units(workload), options.cluster, options.seed
    rule = renting_rule(str(chosen), chosen.values)
    fitted = fit(workload, units, options.on_wide or "refuse", cluster, rule)
    rents = ", rented machines included" if rule is not None else ""
    there = f"{units} units" if cluster is None else f"fits into {cluster.name}{rents}"
    if fitted.clipped:
        warn(f"{_jobs(fitted.clipped)} with a minimum of more than {there}: clipped to that")
    if fitted.dropped.any():
        warn(f"{_jobs(int(fitted.dropped.sum()))} with a minimum of more than {there}: left out (refused)")
    if fitted.narrowed:
        warn(
            f"{_jobs(fitted.narrowed)} that could use more units than the nodes hold{rents}: narrowed to those"
        )
    if options.state is not None:
        options = replace(options, state=options.state.without(workload.job_id[fitted.dropped]))
    started = time.perf_counter()
    (run_rows_predicting if options.predict else run_rows).load()
    run = (TrialSimulation if options.as_trials else Simulation)(fitted.workload, chosen, options)
    compile_s = time.perf_counter() - started
    if cluster is not None and cluster.offers and run.machines is None:
        warn(f"{chosen} {RENTS_NOTHING}")
    if run.unknown_curves:
        warn(unknown_curves_warning(run.unknown_curves, options.curves))
    if run.without_estimate:
        warn(f"{_jobs(run.without_estimate)} without an estimate: {run.assumed_s:g} s was assumed")
    promised = drawn(len(run.workload), options.predict_sample, seed) if options.predict else None
    learning = None
    if isinstance(run, TrialSimulation):
        run.promised = promised
        run.run(progress=progress)
    else:
        learning = learning_run(run, options.interval, learned)
        step = run.step if promised is None else predicting(run, promised, learning=learning)
        run.run(step if learning is None else learning.step(step), progress)
        if learning is not None and learned is not None and options.state is None:
            learning.end()
    result = run.result(compile_s=compile_s)
    if learning is not None and options.interval is not None:
        result = learning.with_intervals(result, np.arange(len(run.workload)))
    if options.fair:
        shares = _simulate_pool(
            fitted.workload, parse_policy("max-min"), options.max_min(), _keep_quiet, None
        )
        result = replace(result, fair_finish_s=shares.jobs.finish_s)
    return _with_refused(result, workload, fitted.dropped) if fitted.dropped.any() else result


def predicting(
    run: Simulation, wanted: Ints, shortcuts: bool = True, learning: LearningRun | None = None
) -> Callable[[int], int]:
    """A step for `Simulation.run` that also promises a finish to the rows with wanted[row] > 0.

    With `learning`, jobs of a play-out end when they are expected to. Without `shortcuts` the policy decides at every
    event of a play-out, whatever it declares.
    """
    believing = run.sizes.kind != "true"
    policy = run.policy.policy
    way = policy.playout_fractional if run.options.fractional else policy.playout_whole
    if not shortcuts or run.options.users is not None:
        way = ASK
    copy = room_to_play(run.state)
    source = run.state
    starts, believed, expected = playouts_of(learning, len(run.workload), believing)
    if run.machines is not None:
        return lambda stop: run.step_renting(stop, lambda row: _promise_renting(run, row, wanted, believing))

    taken_over = run.options.state is not None

    def step(stop: int) -> int:
        nonlocal copy, source, taken_over
        if taken_over:
            _promise_taken_over(run, wanted, learning)
            taken_over = False
        if source is not run.state:  # the columns have grown
            copy, source = room_to_play(run.state), run.state
        return run_rows_predicting(
            *(run.state, run.rules, run.trace, run.row, stop, copy, believing, wanted, run.predicted),
            *(starts, believed, expected, way),
        )

    return step


def _promise_renting(run: Simulation, row: int, wanted: Ints, believing: bool) -> None:
    """Promise a finish to the job that has just been submitted: machines come and go in the play-out, too."""
    if wanted[row] == 0:
        return
    copy = run.driver.copy(len(run.workload), believing=believing)
    copy.rules = copy.rules.replaced(learns=False)
    copy.advance(math.inf)
    run.predicted[row] = copy.trace.outcome[row].finish_s
    run.driver.spare = copy.state


def _promise_taken_over(run: Simulation, wanted: Ints, learning: LearningRun | None) -> None:
    """Promise a finish to the jobs of the state from which the run begins: one play-out tells it of all."""
    rows = np.arange(int(run.row[0]))
    run.driver.advance(float(run.state.pool[0].now))  # the policy decides first

    def played(expected: FloatTable | None) -> Floats:
        copy = run.driver.copy(len(run.workload))
        copy.rules = copy.rules.replaced(learns=False)
        if expected is not None:
            entries.expect_ends(copy.state, expected)
        copy.advance(math.inf)
        if learning is not None:
            learning.starts[rows] = as_array(copy.trace.outcome)["start_s"][rows]
        return as_array(copy.trace.outcome)["finish_s"][rows]

    expects = learning is not None and run.sizes.kind != "true"
    finish_s = played(None)
    if learning is not None and expects:
        learning.believed[rows] = finish_s
        finish_s = played(learning.expected)
    run.predicted[rows] = np.where(wanted[rows] > 0, finish_s, np.nan)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _keep_quiet(_: str) -> None:
    """The default of `warn`: drop the text."""


def _with_refused(result: Result, workload: Workload, dropped: np.ndarray[Any, Any]) -> Result:
    """Put jobs that were left out of the pool back into their rows, as refused."""
    kept = np.flatnonzero(~dropped)
    columns: dict[str, Any] = {}
    for name, values in result.jobs.columns().items():
        if hasattr(workload, name):
            columns[name] = getattr(workload, name)
        else:
            blank: Any = math.nan if values.dtype.kind == "f" else 0
            columns[name] = np.full(len(workload), blank, dtype=values.dtype)
            columns[name][kept] = values
    columns["units_s"][dropped] = 0.0
    columns["restart_s"][dropped] = 0.0
    columns["state"][dropped] = JobState.REFUSED
    segments = result.segments
    if segments is not None:
        segments = replace(segments, row=kept[segments.row])
    fair: Floats | None = None
    if result.fair_finish_s is not None:
        fair = np.full(len(workload), np.nan)
        fair[kept] = result.fair_finish_s
    intervals = result.intervals
    if intervals is not None:
        whole = np.full((len(intervals.columns()), len(workload)), np.nan)
        whole[:, kept] = list(intervals.columns().values())
        intervals = IntervalColumns(*whole)
    return replace(
        result,
        intervals=intervals,
        jobs=replace(result.jobs, **columns),
        segments=segments,
        fair_finish_s=fair,
        fingerprint=workload.fingerprint(),
    )
