"""`betimes simulate`: one workload under one policy."""

from __future__ import annotations

from betimes.cli import options
from betimes.cli.simulate.simulation_options import SimulationOptions, spread_options
from betimes.cli.verbs import Json


@spread_options
def simulate(
    policy: options.Policy,
    simulation: SimulationOptions,
    out: options.Out = None,
    plots: options.Plots = None,
    processes: options.Processes = None,
    ray: options.OnRay = False,
    stream: options.Stream = False,
    as_json: Json = False,
) -> None:
    """Run a workload under a policy, on a pool of identical units or on the nodes of a cluster.

    Says how long jobs took and waited, how busy the machines were, how fair it was to them, and with --predict how
    well the promises made at submission held.
    """
    from betimes.cli.simulate.running import run, study

    wanted, chosen, engines = study(policy, simulation, several=False, timeline=bool(out or plots))
    if stream:
        from betimes.cli.simulate.streaming import run_in_chunks

        (only,) = chosen.values()
        run_in_chunks(wanted, only, out=out, plots=plots, processes=processes, ray=ray, as_json=as_json)
        return
    run(
        wanted,
        chosen,
        engines,
        out=out,
        plots=plots,
        processes=processes,
        ray=ray,
        as_json=as_json,
        compared=False,
    )
