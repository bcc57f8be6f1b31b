"""A cluster of a few nodes with GPUs, on which a test carries out one transition at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from betimes.core.job_states import JobState
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.external_events import lose, open_node, unbind, withdraw
from betimes.core.nodes.growth import new_nodes_state
from betimes.core.nodes.passes.find_nodes import find_room
from betimes.core.nodes.passes.preemption import PLANNED, preempt
from betimes.core.nodes.queue import first, remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import (
    believed_end,
    enqueue,
    finish,
    start,
    submit,
    tell_to_leave,
    vacate,
)
from betimes.kernels import as_array, entry, kernel
from betimes.policies.nodes.registry import NODES_POLICIES
from tests.core.nodes.invariants import check, state_of

FINISH, LEAVE, VACATE, LOSE, UNBIND, WITHDRAW = range(6)


@entry
@kernel
def enter(
    state: NodesState,
    gpu: int,
    tasks: int,
    level: int,
    run_s: float,
    runtime_estimate_s: float,
    grace_s: float,
) -> int:
    slot = submit(
        state, state.pool[0].submitted, tasks, run_s, runtime_estimate_s, runtime_estimate_s / run_s
    )
    need = state.needs[slot]
    need.gpu = gpu
    need.cpu = need.memory = 0
    need.tasks = tasks
    need.level = level
    need.trial = level & 1
    need.grace_s = grace_s
    enqueue(state, slot)
    return slot


@entry
@kernel
def place(state: NodesState, rules: NodesRules, slot: int) -> int:
    return find_room(state, rules, state.nodes, slot, -1)


@entry
@kernel
def start_planned(state: NodesState, slot: int, count: int) -> None:
    remove(state, slot)
    start(state, slot, count)


@entry
@kernel
def make_room(state: NodesState, rules: NodesRules, slot: int) -> int:
    verdict = preempt(state, rules, slot)
    if verdict == PLANNED:
        remove(state, slot)
    return verdict


@entry
@kernel
def change(state: NodesState, what: int, slot: int) -> None:
    if what == FINISH:
        finish(state, slot)
    elif what == LEAVE:
        tell_to_leave(state, slot, -1)
    elif what == WITHDRAW:
        withdraw(state, slot)
    else:
        if what == VACATE:
            vacate(state, slot)
        elif what == LOSE:
            lose(state, slot)
        else:
            unbind(state, slot)
        enqueue(state, slot)


@entry
@kernel
def set_up(state: NodesState, number: int, up: int) -> None:
    open_node(state, number, up)


@entry
@kernel
def head(state: NodesState) -> int:
    return first(state)


@entry
@kernel
def ends_at(state: NodesState, slot: int) -> float:
    return believed_end(state, slot)


class SmallCluster:
    """Nodes with so many GPUs each; jobs take whole GPUs, and nothing else. Each change is checked by `invariants`."""

    def __init__(self, *gpus: int, restart_s: float = 0.0, by_priority: bool = False) -> None:
        self.state = new_nodes_state(
            np.array([[1000 * count, 0, 0] for count in gpus]),
            np.zeros(len(gpus), dtype=np.int64),
            units=float(sum(gpus)),
            restart_s=restart_s,
            seed=0,
            by_priority=by_priority,
            params=np.zeros(0),
            slots=8,
            placements=16,
        )

    def at(self, now_s: float) -> None:
        """It is so late."""
        self.state.pool[0].now = now_s

    def submit(
        self,
        gpu: int = 1,
        tasks: int = 1,
        *,
        level: int = 0,
        run_s: float = 100.0,
        runtime_estimate_s: float | None = None,
        grace_s: float = 0.0,
    ) -> int:
        """A job enters the queue; its slot. level: 1 for a trial job."""
        believed = run_s if runtime_estimate_s is None else runtime_estimate_s
        slot = enter(self.state, 1000 * gpu, tasks, level, run_s, believed, grace_s)
        self._check()
        return slot

    def find(self, slot: int, placement: str = "first") -> dict[int, int]:
        """Where its tasks would go, by node; empty: there is no room for all of them."""
        count = place(self.state, NODES_POLICIES["fifo"].rules({"placement": placement}), slot)
        return {int(choice["node"]): int(choice["tasks"]) for choice in as_array(self.state.plan)[:count]}

    def start(self, slot: int, places: dict[int, int]) -> None:
        """It starts with so many tasks on each of these nodes."""
        for at, (node, tasks) in enumerate(places.items()):
            self.state.plan[at].node, self.state.plan[at].tasks = node, tasks
        start_planned(self.state, slot, len(places))
        self._check()

    def running(self, *places: int, gpu: int = 1, level: int = 0, grace_s: float = 0.0) -> int:
        """A job that has just started, with one task on each of these nodes; its slot."""
        slot = self.submit(gpu, len(places), level=level, grace_s=grace_s)
        self.start(slot, dict.fromkeys(places, 1))
        return slot

    def preempt_for(self, slot: int, most: int = 1, *, policy: str = "youngest", trim: str = "true") -> bool:
        """Let others make room for it; whether some do. most: preemptions after which a job is let alone."""
        rules = NODES_POLICIES[policy].rules({"P": float(most), "trim": trim, "placement": "first"})
        verdict = make_room(self.state, rules, slot)
        self._check()
        return verdict == PLANNED

    def change(self, what: int, slot: int) -> None:
        """One of `FINISH`, `LEAVE`, `VACATE`, `LOSE`, `UNBIND`, `WITHDRAW`."""
        change(self.state, what, slot)
        self._check()

    def open(self, node: int, up: bool) -> None:
        """Whether the node takes new tasks."""
        set_up(self.state, node, int(up))
        self._check()

    def status(self, slot: int) -> JobState:
        """Where a live job is in its life."""
        return state_of(self.state, slot)

    @property
    def free(self) -> list[int]:
        """GPUs free on each node."""
        return (as_array(self.state.nodes)["free_gpu"] // 1000).tolist()

    @property
    def first_waiting(self) -> int:
        """The head of the queue, -1: nothing waits."""
        return head(self.state)

    def told_to_leave(self, *slots: int) -> Sequence[int]:
        """Those that are vacating, of these."""
        return [slot for slot in slots if self.state.evictions[slot].vacate_at < np.inf]

    def _check(self) -> None:
        check(self.state)
