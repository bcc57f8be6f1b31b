"""Real and virtual nodes in one service: a virtual one executes no command, so that they mix only where asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from betimes.errors import Conflict
from betimes.service.machines.machine import REAL, Kind, Machine
from betimes.service.scheduling.node import LOST, Node


def kind_to_add(asked: Kind | None, nodes: Iterable[Node]) -> Kind:
    """The kind of nodes that are added; where none was named it is virtual.

    Raises Conflict where none was named and the service runs commands.
    """
    nodes = list(nodes)
    real = [name for kind in REAL for name in _names(nodes, kind)]
    if asked is None and real:
        raise Conflict(
            f"this service runs commands on node {real[0]}; on a virtual node a job only takes time, and its "
            "command is not executed. `--kind virtual` adds one all the same"
        )
    return asked or "virtual"


def check_start(machines: Sequence[Machine], nodes: Iterable[Node]) -> None:
    """Raise Conflict where a service would start with the other kind of machines than it had."""
    nodes = list(nodes)
    real, virtual = _names(nodes, "local"), _names(nodes, "virtual")
    starts_real = any(machine.kind == "local" for machine in machines)
    _check_cluster(machines, real + virtual, _names(nodes, "ray"))
    if machines and real and not starts_real:
        raise Conflict(
            f"this service runs commands on node {real[0]}; start it without --nodes, or take another state "
            "directory for virtual nodes (--state)"
        )
    if starts_real and virtual and not real:
        raise Conflict(
            f"this service runs no commands: its nodes are virtual ({virtual[0]} is one); start it with --nodes, "
            "as last time, or take another state directory to run jobs on this machine (--state)"
        )


def _check_cluster(machines: Sequence[Machine], others: Sequence[str], of_ray: Sequence[str]) -> None:
    starts_ray = any(machine.kind == "ray" for machine in machines)
    if machines and of_ray and not starts_ray:
        raise Conflict(
            f"this service runs commands on a Ray cluster ({of_ray[0]} is a node of it); start it with --ray, as last "
            "time, or take another state directory (--state)"
        )
    if starts_ray and others and not of_ray:
        raise Conflict(
            f"this service has had node {others[0]}, which is not of a Ray cluster; start it without --ray, as last "
            "time, or take another state directory for the cluster (--state)"
        )


def _names(nodes: Iterable[Node], kind: Kind) -> list[str]:
    """The operator's own nodes of a kind."""
    return [
        node.machine.name
        for node in nodes
        if node.machine.kind == kind and node.rented_at is None and node.status != LOST
    ]
