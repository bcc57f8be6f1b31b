"""Machines of one's own that come and go while the cluster is at work; rented ones do in `machines`."""

from __future__ import annotations

from betimes.core.nodes.columns import OWNED, NodesState
from betimes.core.nodes.machines.rented import UNUSED, note_vacated, unused_number
from betimes.core.status import NEED_NODES
from betimes.kernels import kernel


@kernel
def add_owned(state: NodesState, gpu: int, cpu: int, memory: int, kind: int, family: int, labels: int) -> int:
    """A machine that is up, and has this much and these labels (`Node.labels`); its number, or NEED_NODES.

    kind, family: as in `Machine`.
    """
    number, cluster = unused_number(state), state.cluster[0]
    if number == NEED_NODES:
        return NEED_NODES
    machine, node = state.machines[number], state.nodes[number]
    machine.state = OWNED
    machine.kind = kind
    machine.family = family
    machine.residents = -1
    machine.claims = 0
    node.gpu = node.free_gpu = gpu
    node.cpu = node.free_cpu = cpu
    node.memory = node.free_memory = memory
    node.labels = labels
    node.up = 1
    cluster.owned_cpu += cpu
    cluster.owned_memory += memory
    note_vacated(state, number)
    cluster.changed += 1
    cluster.must_replan = 1
    return number


@kernel
def remove_owned(state: NodesState, number: int) -> bool:
    """A machine is no more, and its number is free; False: there are jobs on it, or bound to it, and it stays."""
    machine, node, cluster = state.machines[number], state.nodes[number], state.cluster[0]
    if machine.residents >= 0:
        return False
    cluster.owned_cpu -= node.cpu
    cluster.owned_memory -= node.memory
    node.up = 0
    node.gpu = node.cpu = node.memory = 0
    node.free_gpu = node.free_cpu = node.free_memory = 0
    machine.state = UNUSED
    machine.generation += 1
    cluster.changed += 1
    cluster.must_replan = 1
    return True
