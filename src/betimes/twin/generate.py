"""`betimes.generate`: a workload by name, with simulated submission times where its generator needs them."""

from __future__ import annotations

from dataclasses import replace

from betimes.cluster import Cluster
from betimes.errors import InputError
from betimes.twin.noted_cluster import PREFIX, described_cluster, noted_keys
from betimes.workload import Workload
from betimes.workload.generators import generate as generated
from betimes.workload.generators import parse_spec


def generate(
    spec: str, *, units: int | None = None, cluster: Cluster | None = None, seed: int = 0
) -> Workload:
    """The workload of a specification, for a pool of `units` or for `cluster`; the same for the same arguments.

    A generator that keeps a load (`fitgpp`) keeps it on `cluster`, or else on the nodes that its parameters
    describe, and needs no `units`; neither does one whose jobs are the same for any (`eva`). Raises InputError
    naming generator, parameter and what was expected.
    """
    described = described_cluster(spec)
    home = cluster or described
    if units is None and not parse_spec(spec)[0].needs_units:
        units = 1
    if units is None:
        if home is None:
            raise InputError(f"generator {spec}: say for how many units, as in units=64")
        units = home.units
    workload = generated(spec, units=units, seed=seed)
    if described is None or home is None:
        return workload
    from betimes.twin.nodes.closed_loop import keep_loaded

    header = workload.notes.header
    loaded = keep_loaded(workload, home, float(header[f"{PREFIX}load"]))
    if home is described:
        return loaded
    kept = {name: text for name, text in header.items() if name not in noted_keys()}
    kept[f"{PREFIX}cluster"] = home.name
    return replace(loaded, notes=replace(loaded.notes, header=kept))
