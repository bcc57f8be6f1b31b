"""`betimes.generate`: a workload by name, with simulated submission times where its generator needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from betimes.cluster import Cluster
from betimes.errors import InputError
from betimes.workload import Workload
from betimes.workload.generators import generate as generated
from betimes.workload.generators import parse_spec

_PREFIX = "closed_loop_"
_NODE = {"gpu": "node_gpu", "cpu": "node_cpu", "memory_gib": "node_memory_gib"}


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
    loaded = keep_loaded(workload, home, float(header[f"{_PREFIX}load"]))
    if home is described:
        return loaded
    kept = {name: text for name, text in header.items() if name not in _keys()}
    kept[f"{_PREFIX}cluster"] = home.name
    return replace(loaded, notes=replace(loaded.notes, header=kept))


def described_cluster(spec: str) -> Cluster | None:
    """The nodes on which a generator keeps a load; None for one that makes jobs for a pool. Raises InputError."""
    return _described(parse_spec(spec)[1])


def noted_cluster(workload: Workload) -> Cluster | None:
    """The nodes that a workload was generated for, if any, also after it was written and read."""
    header = workload.notes.header
    return _described({key.removeprefix(_PREFIX): header[key] for key in _keys() if key in header})


def _described(values: Mapping[str, Any]) -> Cluster | None:
    if not {"nodes", *_NODE.values()} <= set(values):
        return None
    amounts = {name: float(values[key]) for name, key in _NODE.items()}
    return Cluster.uniform(int(values["nodes"]), name="generated", **amounts)


def _keys() -> list[str]:
    return [f"{_PREFIX}{name}" for name in ("nodes", *_NODE.values())]
