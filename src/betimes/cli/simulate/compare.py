"""`betimes compare`: one workload under several policies, side by side."""

from __future__ import annotations

from betimes.cli import options
from betimes.cli.simulate.simulation_options import SimulationOptions, spread_options
from betimes.cli.verbs import Json


@spread_options
def compare(
    policies: options.Policies,
    simulation: SimulationOptions,
    out: options.Out = None,
    plots: options.Plots = None,
    processes: options.Processes = None,
    ray: options.OnRay = False,
    as_json: Json = False,
) -> None:
    """Run a workload under several policies, in parallel, and show them in one table, a row each.

    The figures are those of `betimes simulate`, which takes the same options. Each policy runs on the
    engine that it is for, with the same jobs: those for a pool resize them (elastic), those for nodes run them at their
    full width (rigid).
    """
    from betimes.cli.simulate.running import run, study

    wanted, chosen, engines = study(policies, simulation, several=True, timeline=bool(out or plots))
    run(
        wanted,
        chosen,
        engines,
        out=out,
        plots=plots,
        processes=processes,
        ray=ray,
        as_json=as_json,
        compared=True,
    )
