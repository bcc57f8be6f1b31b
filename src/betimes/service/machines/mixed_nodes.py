"""Real and virtual nodes in one service: a virtual one executes no command, so that they mix only where asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from betimes.errors import Conflict
from betimes.service.machines.machine import Kind, Machine
from betimes.service.scheduling.node import LOST, Node


def kind_to_add(asked: Kind | None, nodes: Iterable[Node]) -> Kind:
    """The kind of nodes that are added; where none was named it is virtual.

    Raises Conflict where none was named and the service runs commands.
    """
    real = _names(nodes, "local")
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


def _names(nodes: Iterable[Node], kind: Kind) -> list[str]:
    """The operator's own nodes of a kind."""
    return [
        node.machine.name
        for node in nodes
        if node.machine.kind == kind and node.rented_at is None and node.status != LOST
    ]
