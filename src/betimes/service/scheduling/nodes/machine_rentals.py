"""Machines that the policy rents for whatever it places on them: ordered, named by the cloud, and given back."""

from __future__ import annotations

from betimes.service.engines.messages import MachineMove, RentMachine
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.decisions.engine_factory import ordered_name
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.effects import OrderMachine
from betimes.service.scheduling.nodes.node import BOOTING, DRAINING, UP
from betimes.service.scheduling.nodes.node_lifecycle import NodeLifecycle
from betimes.service.scheduling.state import SchedulerState


class MachineRentals:
    """Carries out what a policy decides about machines. The engine expects a machine from its order on."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine, nodes: NodeLifecycle) -> None:
        self._state, self._engine, self._nodes = state, engine, nodes
        self._unwanted: set[tuple[int, int]] = set()  # to be given back as soon as they are given out
        self._refused: dict[str, str] = {}  # why, by type, until one is given out again

    def apply(self, move: MachineMove) -> None:
        """The policy has decided to rent a machine, or to give one back."""
        if isinstance(move, RentMachine):
            type_ = self._engine.offer(move.offer).type
            self._state.log("ordered", "policy", type=type_)
            self._state.effects.append(OrderMachine(type_, move))
            return
        name = self._engine.machine_name(move)
        if name is None:
            self._unwanted.add((move.machine, move.generation))
        else:
            self._nodes.set_status(name, DRAINING, "policy")

    def given_out(self, move: RentMachine, machine: Machine) -> None:
        """The cloud has given out a machine that was ordered, which boots."""
        self._refused.pop(machine.type, None)
        expected = self._engine.name_machine(move, machine.name)
        self._nodes.rent(machine, "policy", by_policy=True)
        self._rebind(move, machine.name)
        if (move.machine, move.generation) in self._unwanted:
            self._unwanted.discard((move.machine, move.generation))
            self._nodes.give_up(machine.name)
        elif not expected and self._engine.shared_offers:  # another engine has taken over since
            self._engine.take_machine(self._nodes.node(machine.name))

    def refused(self, move: RentMachine, type: str, text: str) -> None:  # noqa: A002
        """The cloud has no such machine: the policy decides anew at its next tick."""
        self._engine.refuse_machine(move)
        self._rebind(move, None)
        if self._refused.get(type) != text:
            self._refused[type] = text
            self._nodes.not_rented(type, text)

    def _rebind(self, move: RentMachine, name: str | None) -> None:
        """Jobs that are bound to a machine that was ordered know its name; null: they are to have it no more."""
        before = ordered_name(move.machine)
        for job in self._state.ledger.jobs.values():
            binding = job.binding or {}
            places = binding.get("places", ())
            if not any(where == before for where, _ in places):
                continue
            if name is None:
                self._state.log("unbound", "policy", job.job_id)
            else:
                named = [(name if where == before else where, units) for where, units in places]
                self._state.log("nominated", "policy", job.job_id, **{**binding, "places": named})

    def give_back_unmanaged(self) -> None:
        """Machines that a policy has rented are given back under one that does not, as soon as nothing runs there."""
        if self._engine.shared_offers:
            return
        for name, node in list(self._state.ledger.nodes.items()):
            if node.by_policy and node.status in (UP, BOOTING):
                self._nodes.set_status(name, DRAINING, "policy")
