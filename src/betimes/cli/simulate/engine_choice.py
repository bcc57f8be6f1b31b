"""The options that depend on the engine: which one it is, its policies, and what means nothing there."""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from betimes.errors import InputError, PolicyError

if TYPE_CHECKING:
    from betimes.cli.simulate.simulation_options import SimulationOptions
    from betimes.foresight.engines import AnyChosen, Engine


def chosen_policies(
    text: str, *, several: bool, engine: str, cluster: str | None, file: str
) -> tuple[dict[str, AnyChosen], dict[str, Engine]]:
    """The policies that an option names, and the engine that each is for, by what they are called.

    Raises PolicyError for unknown ones, one named twice, or one that is for the other engine.
    """
    from betimes.cli.simulate.sources import is_for_nodes
    from betimes.foresight.engines import NODES, engine_for, named_engine
    from betimes.policies import parse_nodes_policy, parse_policy, split_policies

    for_nodes = engine == "auto" and cluster is None and is_for_nodes(file)
    because = f"{file.partition(':')[0]} makes jobs for nodes" if for_nodes else ""
    texts = split_policies(text)
    if not several and len(texts) > 1:
        raise PolicyError(
            f"--policy {text}: this names {len(texts)} policies; `betimes compare` takes several"
        )
    chosen: dict[str, AnyChosen] = {}
    engines: dict[str, Engine] = {}
    with redirect_stdout(sys.stderr):  # a user's file may print
        for one in texts:
            found = engine_for(one, engine, because, cluster=cluster is not None)
            policy = parse_nodes_policy(one) if found == NODES else parse_policy(one)
            name = f"{found}:{policy}" if named_engine(one)[0] else str(policy)
            for other, known in chosen.items():
                if str(known) == str(policy) and engines[other] == found:
                    raise PolicyError(f"--policies: {policy} is named 2 times; name it once")
            chosen[name], engines[name] = policy, found
    return chosen, engines


def check_engine(engine: Engine, options: SimulationOptions) -> None:
    """Raise InputError for options that mean nothing on this engine."""
    held_back = bool(options.resize_interval or options.resize_gain)
    if engine == "nodes":
        if options.fractional:
            raise InputError("--fractional: jobs on nodes are never resized; leave it out")
        if options.fair is not None:
            raise InputError(
                f"--{'' if options.fair else 'no-'}fair: there is no max-min run on nodes; leave it out"
            )
        if held_back:
            option = "gain" if options.resize_gain else "interval"
            raise InputError(f"--resize-{option}: jobs on nodes are never resized; leave it out")
        if options.as_trials:
            raise InputError("--as-trials: sets of trials share the units of a pool; leave it out")
        if options.on_wide == "clip":
            raise InputError("--on-wide clip: jobs on nodes are never narrowed; choose drop or refuse")
        return
    if options.fractional and (options.cluster is not None or held_back):
        what = "resizes are held back in" if options.cluster is None else "units on nodes are"
        raise InputError(f"--fractional: {what} whole units; leave it out")
    if options.as_trials and (options.cluster is not None or options.fractional):
        what = "--cluster" if options.cluster is not None else "--fractional"
        raise InputError(f"--as-trials: trials take whole units of a pool without nodes; leave {what} out")
    for name, value, what in (
        ("overrun", options.overrun, "estimates do not end jobs"),
        ("grace", options.grace, "jobs leave at once"),
    ):
        if value is not None:
            raise InputError(f"--{name} {value}: on a pool {what}; leave it out, or give --engine nodes")


def parse_grace(text: str) -> tuple[float, float | None]:
    """Read `MEAN` or `MEAN:MAX`, in seconds; raises InputError."""
    mean, colon, most = text.partition(":")
    try:
        mean_s, most_s = float(mean), float(most) if colon else None
    except ValueError:
        mean_s, most_s = math.nan, None
    if not (0.0 <= mean_s < math.inf and (most_s is None or mean_s <= most_s < math.inf)):
        raise InputError(
            f"--grace {text}: expected a mean of 0 s or more, and a maximum not below it, as in 180:1200"
        )
    return mean_s, most_s
