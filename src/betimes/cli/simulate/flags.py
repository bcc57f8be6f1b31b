"""The flags of a simulation on the command line, each once, with its default."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

from betimes.cli import options

if TYPE_CHECKING:
    from betimes.twin.options import SimulationOptions


@dataclass(frozen=True, kw_only=True)
class SimulationFlags:
    """Flags as given: `spread_flags` makes them those of a verb, `options` what the engines take."""

    file: options.File = ""
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
    resize_interval_s: options.ResizeInterval = 0.0
    resize_gain: options.ResizeGain = False
    as_trials: options.AsTrials = False
    on_wide: options.OnWide = None
    overrun: options.Overrun = None
    predict: options.Predict = False
    predict_sample: options.PredictSample = None
    interval: options.PredictInterval = None
    sizes: options.Sizes = None
    users: options.Users = None
    seed: options.Seed = 0
    seeds: options.Seeds = None
    status: options.Status = "all"
    measure: options.Measure = "0%..100%"
    fair: options.Fair = None
    form: options.Format = "auto"
    on_bad_rows: options.OnBadRows = "fail"

    def options(self, *, timeline: bool) -> SimulationOptions:
        """The options of the same names, with files read and texts parsed; raises InputError.

        timeline: what jobs hold over time is to be recorded. A max-min run to compare with is a separate run.
        """
        from betimes.twin.options import SimulationOptions

        named = {each.name for each in fields(self)} & {each.name for each in fields(SimulationOptions)}
        given = {name: getattr(self, name) for name in named}
        predict = self.predict or self.predict_sample is not None or self.interval is not None
        return SimulationOptions.of(
            None, **{**given, "predict": predict, "timeline": timeline, "fair": False}
        )


@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The places in which runs are made, and the files that are kept of them."""

    out: options.Out = None
    report: options.Report = False
    open_report: options.OpenReport = False
    plots: options.Plots = None
    processes: options.Processes = None
    ray: options.OnRay = False


def spread_flags(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with each dataclass parameter replaced by its fields as separate options."""
    hints = get_type_hints(verb, include_extras=True)
    records = {name: hints[name] for name in inspect.signature(verb).parameters if is_dataclass(hints[name])}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name not in records:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            )
            continue
        record = records[parameter.name]
        of_fields = get_type_hints(record, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=of_fields[field.name],
            )
            for field in fields(record)
        ]

    @wraps(verb)
    def command(**given: Any) -> None:
        for name, record in records.items():
            given[name] = record(
                **{each.name: given.pop(each.name) for each in fields(record) if each.name in given}
            )
        verb(**given)

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
