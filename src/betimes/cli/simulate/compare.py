"""`betimes compare`: one workload under several policies, side by side."""

from __future__ import annotations

from betimes.cli import options
from betimes.cli.simulate.flags import RunFlags, SimulationFlags, spread_flags
from betimes.cli.verbs import Json, Output


@spread_flags
def compare(
    policies: options.Policies,
    simulation: SimulationFlags,
    runs: RunFlags,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Run a workload under several policies, in parallel, and show them in one table, a row each.

    The figures are those of `betimes simulate`, which takes the same options. Each policy runs on the
    engine that it is for, with the same jobs: those for a pool resize them (elastic), those for nodes run them at their
    full width (rigid). Where there are both, each row names its engine: compare those of one engine with each other.
    """
    from betimes.cli.simulate.running import run, study

    wanted, chosen, engines = study(policies, simulation, several=True, timeline=bool(runs.out or runs.plots))
    run(wanted, chosen, engines, runs, as_json=as_json, compared=True, wide=output is not None)
