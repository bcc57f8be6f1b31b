"""`betimes.simulate`: a workload, a policy and a pool or a cluster in; schedules and promises out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from betimes.cluster import Cluster, read_cluster
from betimes.core.pool.columns import room_to_play
from betimes.errors import ClusterError, InputError
from betimes.foresight.engines import POOL, AnyChosen, engine_for
from betimes.foresight.learning_run import LearningRun, learning_run, playouts_of
from betimes.foresight.predict import run_rows_predicting
from betimes.foresight.sampling import drawn
from betimes.kernels import Floats, Ints
from betimes.outcome import IntervalColumns, JobState, Result
from betimes.policies import ChosenPolicy, Policy, parse_nodes_policy, parse_policy
from betimes.policies.hooks import ASK
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.twin.generate import noted_cluster
from betimes.twin.nodes.tasks import tasks_of
from betimes.twin.pool.simulation import Simulation, fit
from betimes.twin.pool.trace_loop import run_rows
from betimes.twin.pool.trials import TrialSimulation
from betimes.twin.sizes import Sizes, parse_sizes
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable, unknown_curves_warning


def simulate(
    workload: Workload,
    policy: str | AnyChosen,
    *,
    units: int | None = None,
    cluster: Cluster | str | os.PathLike[str] | None = None,
    engine: str = "auto",
    fractional: bool = False,
    curves: SpeedupTable | None = None,
    predict: bool = False,
    predict_sample: int | None = None,
    interval: float | None = None,
    sizes: str | Sizes | None = None,
    overrun: str | None = None,
    seed: int = 0,
    restart_s: float = 0.0,
    resize_interval_s: float = 0.0,
    resize_gain: bool = False,
    timeline: bool = False,
    fair: bool = False,
    on_wide: str | None = None,
    as_trials: bool = False,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Run `workload` under `policy` on a pool of `units` identical units, or on the nodes of `cluster`, or of its file.

    engine: `pool`, `nodes`, or by default what the policy is for; fifo, which is for both, runs on nodes where a
    cluster is given or the workload was generated for one (`pool:fifo`, `nodes:fifo` say which). Where no cluster is
    given it is the one that the workload was generated for, or one pool of `units` without walls; without units either,
    the trace's own machine. predict: promise a finish at
    every submission, or at `predict_sample` of them drawn by `seed`. interval: each with an interval in which this
    share of the jobs is done, and the median as its point (docs/notes/promises.md). sizes: what the scheduler believes;
    by default the truth, on nodes the users' estimates where the trace has any. warn is told, in one line each, what
    was assumed or left out; progress the number of jobs submitted so far.

    On a pool: fractional grants fractions of a unit. fair: also run max-min shares in the same pool, without
    restarts, and record their finish times. restart_s: lost whenever a running job's grant changes.
    resize_interval_s: a width stands at least so long, unless the job is preempted; resize_gain: it changes only
    where that pays. on_wide: jobs that need more than all units are an error (`refuse`, the default), narrowed
    (`clip`) or left out (`drop`). With `engine="pool"` and a cluster its GPUs, or its cores if it has none, are the
    units, and they are where the jobs' demands find room (docs/notes/pool-on-nodes.md). as_trials: a job is as many
    equal trials as it can use units, each of which takes one unit and cannot be divided (docs/notes/trials.md).

    On nodes: overrun: jobs that outrun their estimate are believed to take twice as long (`extend`, the default), or
    are ended (`kill`). restart_s: lost by a preempted job when it resumes. on_wide: jobs that the empty cluster
    cannot run are left out (`drop`, the default) or an error (`refuse`).

    Raises InputError (and its children) for bad input, PolicyViolation for a policy's bad decision.
    """
    if type(predict) not in (bool, np.bool_):  # "yes" and 40 are true, too
        raise InputError(
            f"predict {predict!r}: give True or False; predict_sample=N promises to some of the jobs"
        )
    if interval is not None and not predict:
        raise InputError(f"interval {interval:g}: an interval is part of a promise; give predict=True too")
    if isinstance(cluster, str | os.PathLike):
        cluster = read_cluster(cluster)
    common: dict[str, Any] = {
        "curves": curves,
        "predict": predict,
        "predict_sample": predict_sample,
        "interval": interval,
        "seed": seed,
        "restart_s": restart_s,
        "timeline": timeline,
        "warn": warn,
        "progress": progress,
    }
    noted = cluster is None and noted_cluster(workload) is not None
    because = f"{workload.name} was generated for nodes" if noted else ""
    if engine_for(policy, engine, because, cluster=cluster is not None) == POOL:
        if overrun is not None:
            raise InputError(
                f"overrun {overrun}: jobs outrun their estimates on nodes only; give engine nodes"
            )
        return simulate_pool(
            workload,
            policy,  # pyright: ignore[reportArgumentType]  # the engine is the policy's
            units=units,
            cluster=cluster,
            fractional=fractional,
            sizes=sizes or "true",
            resize_interval_s=resize_interval_s,
            resize_gain=resize_gain,
            fair=fair,
            on_wide=on_wide or "refuse",
            as_trials=as_trials,
            **common,
        )
    given = {
        "fractional": fractional,
        "fair": fair,
        "resize_interval_s": resize_interval_s,
        "resize_gain": resize_gain,
        "as_trials": as_trials,
    }
    for name, value in given.items():
        if value:
            raise InputError(f"{name}: means nothing on nodes, where jobs are never resized; leave it out")
    if cluster is not None and units is not None:
        raise InputError(f"units {units}: the cluster {cluster.name} is given too; give one of them")
    nodes = cluster or cluster_for(workload, units)
    chosen = parse_nodes_policy(policy) if isinstance(policy, str) else policy
    assert isinstance(chosen.policy, NodesPolicy), "the engine is the policy's"
    check_wide(workload, nodes, on_wide, rents=chosen.policy.rents(chosen.values))
    from betimes.foresight.nodes.simulate import simulate_nodes  # a pool starts without the modules of nodes

    return simulate_nodes(
        workload,
        chosen,  # pyright: ignore[reportArgumentType]
        cluster=nodes,
        sizes=sizes,
        overrun=overrun or "extend",
        **common,
    )


def cluster_for(workload: Workload, units: int | None) -> Cluster:
    """The nodes to run on if no cluster is named: a pool of `units`, else the workload's cluster or machine.

    Raises InputError if the workload has neither.
    """
    if units is not None:
        return Cluster.pool(units)
    noted = noted_cluster(workload)
    if noted is not None:
        return noted
    if workload.machine_units is None:
        raise InputError(
            f"{workload.name}: the trace does not say how large its machine is; give --cluster FILE or --units N"
        )
    return Cluster.pool(workload.machine_units)


def check_wide(workload: Workload, cluster: Cluster, on_wide: str | None, *, rents: bool) -> None:
    """Raise ClusterError for jobs that the empty cluster cannot run, where `on_wide` is `refuse`.

    rents: machines on offer count as nodes.
    """
    if on_wide not in (None, "refuse", "drop"):
        raise ClusterError(f"--on-wide {on_wide}: on nodes choose drop (the default) or refuse")
    reasons = tasks_of(workload, cluster, rents=rents).reasons if on_wide == "refuse" else ()
    if reasons:
        raise ClusterError(f"{workload.name}: {reasons[0]}; give it more room, or leave --on-wide refuse out")


def simulate_pool(
    workload: Workload,
    policy: str | ChosenPolicy[Policy],
    *,
    units: int | None = None,
    cluster: Cluster | None = None,
    fractional: bool = False,
    curves: SpeedupTable | None = None,
    predict: bool = False,
    predict_sample: int | None = None,
    interval: float | None = None,
    sizes: str | Sizes = "true",
    seed: int = 0,
    restart_s: float = 0.0,
    resize_interval_s: float = 0.0,
    resize_gain: bool = False,
    timeline: bool = False,
    fair: bool = False,
    on_wide: str = "refuse",
    as_trials: bool = False,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Run `workload` under `policy` on a pool; arguments and errors as of `simulate`."""
    chosen = policy if isinstance(policy, ChosenPolicy) else parse_policy(policy)
    told = warn or _keep_quiet
    if len(workload) == 0:
        raise InputError(f"{workload.name}: there is no job to simulate")
    if cluster is not None:
        if units is not None:
            raise InputError(f"units {units}: the cluster {cluster.name} is given too; give one of them")
        units = cluster.units
    elif units is None:
        if workload.machine_units is None:
            raise InputError(
                f"{workload.name}: the trace does not say how large its machine is; give --units N"
            )
        units = workload.machine_units
    if units != int(units):
        raise InputError(f"--units {units}: a whole number")
    fitted = fit(workload, int(units), on_wide, cluster)
    there = f"{units} units" if cluster is None else f"fits into {cluster.name}"
    if fitted.clipped:
        told(f"{_jobs(fitted.clipped)} with a minimum of more than {there}: clipped to that")
    if fitted.dropped.any():
        told(f"{_jobs(int(fitted.dropped.sum()))} with a minimum of more than {there}: left out (refused)")
    if fitted.narrowed:
        told(f"{_jobs(fitted.narrowed)} that could use more units than the nodes hold: narrowed to those")
    if seed < 0:
        raise InputError(f"--seed {seed}: a whole number of 0 or more")
    if as_trials and (cluster is not None or fractional):
        what = "a pool without nodes" if cluster is not None else "whole units"
        raise InputError(f"as trials: trials are simulated on {what} only; leave one of them out")
    if as_trials and interval is not None:
        raise InputError(
            f"interval {interval:g}: trials are promised without intervals; leave one of them out"
        )
    if as_trials and str(sizes) == "learned":
        raise InputError(
            "sizes learned: the run times of trials are not learned; choose estimate or last-two"
        )
    choice = sizes if isinstance(sizes, Sizes) else parse_sizes(sizes)
    started = time.perf_counter()
    (run_rows_predicting if predict else run_rows).load()
    run = (TrialSimulation if as_trials else Simulation)(
        fitted.workload,
        chosen,
        units=units,
        fractional=fractional,
        curves=curves,
        sizes=choice,
        seed=seed,
        restart_s=restart_s,
        resize_interval_s=resize_interval_s,
        resize_gain=resize_gain,
        cluster=cluster,
        timeline=timeline,
    )
    compile_s = time.perf_counter() - started
    if run.unknown_curves:
        told(unknown_curves_warning(run.unknown_curves, curves))
    if run.without_estimate:
        told(f"{_jobs(run.without_estimate)} without an estimate: {run.assumed_s:g} s was assumed")
    if isinstance(run, TrialSimulation):
        run.promised = drawn(len(run.workload), predict_sample, seed) if predict else None
        run.run(progress=progress)
        result = run.result(compile_s=compile_s)
    else:
        w = run.workload
        learning = learning_run(run, w, w.work_s / run.full_speed, interval)
        wanted = drawn(len(w), predict_sample, seed) if predict else None
        step = run.submit_rows if wanted is None else predicting(run, wanted, learning=learning)
        run.run(step if learning is None else learning.step(step), progress)
        result = run.result(compile_s=compile_s)
        if learning is not None and interval is not None:
            result = learning.with_intervals(result, np.arange(len(w)))
    if fair:
        shares = simulate_pool(
            fitted.workload,
            "max-min",
            units=None if cluster is not None else units,
            cluster=cluster,
            fractional=fractional,
            curves=curves,
            seed=seed,
            as_trials=as_trials,
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
    way = policy.playout_fractional if run.fractional else policy.playout_whole
    if not shortcuts:
        way = ASK
    copy = room_to_play(run.state)
    source = run.state
    starts, believed, expected = playouts_of(learning, len(run.workload), believing)

    def step(stop: int) -> int:
        nonlocal copy, source
        if source is not run.state:  # the columns have grown
            copy, source = room_to_play(run.state), run.state
        return run_rows_predicting(
            *(run.state, run.rules, run.trace, run.row, stop, copy, believing, wanted, run.predicted),
            *(starts, believed, expected, way),
        )

    return step


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
