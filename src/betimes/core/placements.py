"""Nodes, and the placements of jobs on them: records that both engines share, and the smallest steps on them.

Resources are whole numbers - thousandths of a GPU, thousandths of a core, MiB - so that what is taken and given
back a million times never drifts.
"""

from __future__ import annotations

from typing import Protocol

from betimes.kernels import Each, kernel

CLOSED_SOON = 2
"""`Node.up` of a node that closes now; each further one is a millisecond until it does (`core.closings`)."""


class Node:
    """A machine. Eight numbers are one line of the cache: nodes are copied often, and with a ninth EASY takes 1.5x."""

    free_gpu: int
    free_cpu: int
    free_memory: int
    gpu: int  # capacity
    cpu: int
    memory: int
    up: int  # 0: takes no new tasks, 1: takes them, more: until it closes (`core.closings`)
    labels: int  # a bit for each label that jobs require and it has (`cluster.labels`)


class Placement:
    """Tasks of one job on one node; in a pool a unit is a task."""

    node: int
    tasks: int
    follows: int  # the next placement of the same job, -1: none; on the free list likewise
    owed_gpu: int  # what victims must still give up before the tasks can start
    owed_cpu: int
    owed_memory: int


class Footprint:
    """The demand of a unit of a job, and the nodes of the job's units (pool engine)."""

    gpu: int  # thousandths
    cpu: int  # thousandths of a core
    memory: int  # MiB
    placed: int  # the first placement, on the node that the job came to last; -1: none
    before: int  # once `touched`, a copy of `placed` from the begin of the present instant
    touched: int  # 1: its placements have changed at this instant
    follows: int  # the slot touched before it, -1: none
    limit_s: float  # the longest that a run may take; 0: no such limit
    lasts_s: float  # at most, if it gets units now (where nodes close)
    exempt: int  # the bits of the closings that do not concern it (`core.closings`)


class Free(Protocol):
    """Free resources: of a node, or of a step of a plan."""

    free_gpu: int
    free_cpu: int
    free_memory: int


class Amounts(Protocol):
    """The demand of one task."""

    gpu: int
    cpu: int
    memory: int


class Lasting(Protocol):
    """How long a job takes."""

    lasts_s: float  # at most, if it starts now, where nodes close


class Demand(Amounts, Lasting, Protocol):
    """A job's demand on a node: room for its tasks, and labels."""

    labels: int  # the bits of those that it requires


class Spare(Protocol):
    """The owner of the list of unused placements."""

    unused_head: int
    unused: int


@kernel
def take(node: Free, need: Amounts, tasks: int) -> None:
    """Take the demand of `tasks` tasks from the free resources."""
    node.free_gpu -= tasks * need.gpu
    node.free_cpu -= tasks * need.cpu
    node.free_memory -= tasks * need.memory


@kernel
def give(node: Node, need: Amounts, tasks: int) -> None:
    """Add the demand of `tasks` tasks to the node's free resources."""
    node.free_gpu += tasks * need.gpu
    node.free_cpu += tasks * need.cpu
    node.free_memory += tasks * need.memory


@kernel
def suits(node: Node, need: Demand) -> bool:
    """Whether the node takes tasks of the job at some time: it is up, and has every label that the job requires."""
    return node.up > 0 and need.labels & ~node.labels == 0


@kernel
def takes(node: Node, need: Demand) -> bool:
    """Whether the node takes tasks of the job now, room aside: it suits, and does not close before the job is done."""
    return need.labels & ~node.labels == 0 and stays_open(node, need)


@kernel
def stays_open(node: Node, need: Lasting) -> bool:
    """Whether the node is up, and does not close before the job is done."""
    return node.up == 1 or node.up - CLOSED_SOON >= 1000.0 * need.lasts_s


@kernel
def fits(node: Node, need: Demand) -> bool:
    """Whether the node takes a task of the job, and has room for one."""
    return (
        need.cpu <= node.free_cpu
        and need.gpu <= node.free_gpu
        and need.memory <= node.free_memory
        and takes(node, need)
    )


@kernel
def how_many_fit(node: Node, need: Footprint, most: int) -> int:
    """The number of units, at most `most`, that the node takes now and that fit into its free resources."""
    return how_many_within(node, need, most) if stays_open(node, need) else 0


@kernel
def how_many_within(free: Free, need: Amounts, most: int) -> int:
    """The number of tasks, at most `most`, that fit into the free resources, if the node takes any."""
    count = most
    if need.gpu > 0:
        count = min(count, free.free_gpu // need.gpu)
    if need.cpu > 0:
        count = min(count, free.free_cpu // need.cpu)
    if need.memory > 0:
        count = min(count, free.free_memory // need.memory)
    return max(0, count)


@kernel
def new_placement(placements: Each[Placement], lists: Spare, node: int, tasks: int, follows: int) -> int:
    """Take a placement from the list of unused ones; returns its number."""
    number = lists.unused_head
    placement = placements[number]
    lists.unused_head = placement.follows
    lists.unused -= 1
    placement.node = node
    placement.tasks = tasks
    placement.owed_gpu = 0
    placement.owed_cpu = 0
    placement.owed_memory = 0
    placement.follows = follows
    return number


@kernel
def free_placement(placements: Each[Placement], lists: Spare, number: int) -> int:
    """Put a placement on the list of unused ones; returns the one that followed it."""
    placement = placements[number]
    following = placement.follows
    placement.follows = lists.unused_head
    lists.unused_head = number
    lists.unused += 1
    return following
