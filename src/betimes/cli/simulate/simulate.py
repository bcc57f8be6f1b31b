"""`betimes simulate`: one workload under one policy."""

from __future__ import annotations

from betimes.cli import options
from betimes.cli.simulate.flags import RunFlags, SimulationFlags, spread_flags
from betimes.cli.verbs import Json


@spread_flags
def simulate(
    policy: options.Policy,
    simulation: SimulationFlags,
    runs: RunFlags,
    stream: options.Stream = False,
    as_json: Json = False,
) -> None:
    """Run a workload under a policy, on a pool of identical units or on the nodes of a cluster.

    Says how long jobs took and waited, how busy the machines were, how fair it was to them, and with --predict how
    well the promises made at submission held.
    """
    from betimes.cli.simulate.running import run, study

    wanted, chosen, engines = study(policy, simulation, several=False, timeline=bool(runs.out or runs.plots))
    if stream:
        from betimes.cli.simulate.streaming import run_in_chunks

        (only,) = chosen.values()
        run_in_chunks(wanted, only, runs, as_json=as_json)
        return
    run(wanted, chosen, engines, runs, as_json=as_json, compared=False)
