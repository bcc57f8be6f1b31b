"""`betimes compare`: one workload under several policies, side by side."""

from __future__ import annotations

from betimes.cli import options


def compare(
    file: options.File,
    policies: options.Policies,
    units: options.Units = None,
    cluster: options.Cluster = None,
    engine: options.Engine = "auto",
    fractional: options.Fractional = False,
    jobs: options.Jobs = None,
    load: options.Load = None,
    curves: options.Curves = None,
    trial: options.Trial = None,
    grace: options.Grace = None,
    restart_s: options.RestartS = 0.0,
    resize_interval: options.ResizeInterval = 0.0,
    resize_gain: options.ResizeGain = False,
    as_trials: options.AsTrials = False,
    on_wide: options.OnWide = None,
    overrun: options.Overrun = None,
    predict: options.Predict = False,
    predict_sample: options.PredictSample = None,
    sizes: options.Sizes = None,
    seed: options.Seed = 0,
    seeds: options.Seeds = None,
    status: options.Status = "all",
    measure: options.Measure = "0%..100%",
    fair: options.Fair = None,
    out: options.Out = None,
    plots: options.Plots = None,
    processes: options.Processes = None,
    form: options.Format = "auto",
    on_bad_rows: options.OnBadRows = "fail",
    as_json: options.Json = False,
) -> None:
    """Run a workload under several policies, in parallel, and show them in one table, a row each.

    The figures are those of `betimes simulate`, which takes the same options.
    """
    from betimes.cli.simulate.running import run, study

    wanted, chosen = study(
        policies=policies,
        several=True,
        file=file,
        form=form,
        on_bad_rows=on_bad_rows,
        units=units,
        cluster=cluster,
        engine=engine,
        fractional=fractional,
        jobs=jobs,
        load=load,
        curves=curves,
        seed=seed,
        seeds=seeds,
        trial=trial,
        grace=grace,
        restart_s=restart_s,
        resize_interval=resize_interval,
        resize_gain=resize_gain,
        as_trials=as_trials,
        on_wide=on_wide,
        overrun=overrun,
        predict=predict,
        predict_sample=predict_sample,
        sizes=sizes,
        status=status,
        measure=measure,
        fair=fair,
        timeline=bool(out or plots),
    )
    run(wanted, chosen, out=out, plots=plots, processes=processes, as_json=as_json, compared=True)
