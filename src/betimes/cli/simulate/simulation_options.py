"""What can be said of a simulation on the command line: each option once, with its default."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.cli import options


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """As they were given: `spread_options` makes options of a verb of them, `Study` has what was read from them."""

    file: options.File
    units: options.Units = None
    cluster: options.Cluster = None
    engine: options.Engine = "auto"
    fractional: options.Fractional = False
    jobs: options.Jobs = None
    load: options.Load = None
    curves: options.Curves = None
    trial: options.Trial = None
    grace: options.Grace = None
    restart_s: options.RestartS = 0.0
    resize_interval: options.ResizeInterval = 0.0
    resize_gain: options.ResizeGain = False
    as_trials: options.AsTrials = False
    on_wide: options.OnWide = None
    overrun: options.Overrun = None
    predict: options.Predict = False
    predict_sample: options.PredictSample = None
    sizes: options.Sizes = None
    seed: options.Seed = 0
    seeds: options.Seeds = None
    status: options.Status = "all"
    measure: options.Measure = "0%..100%"
    fair: options.Fair = None
    form: options.Format = "auto"
    on_bad_rows: options.OnBadRows = "fail"
