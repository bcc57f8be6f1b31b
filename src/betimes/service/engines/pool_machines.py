"""Machines that a live pool rents by its policy's rule (`twin.pool.rented`), as the cloud reports them."""

from __future__ import annotations

import math

from betimes.core.nodes.machines.rented import FAILED
from betimes.core.nodes.machines.wait_or_rent import ASK_AGAIN_S
from betimes.service.engines.messages import Instruction, ReleaseMachine, RentMachine
from betimes.twin.pool.driver import Driver
from betimes.twin.pool.rented import Machine, RentedMachines


class PoolMachines:
    """The rented machines of a live pool, by number, as `rented_machines.RentedMachines` are those of live nodes.

    The number of a machine that was given back stands for it until it is gone; then it is used again, under the next
    generation.
    """

    def __init__(self, driver: Driver, rented: RentedMachines) -> None:
        self._driver, self._rented = driver, rented
        driver.machines = rented
        self._first_new = 0  # generation of the first order that `take` has not returned yet
        self._leaving: dict[int, int] = {}  # generations of machines that were given back, by number
        self._lost: list[int] = []  # slots of jobs whose machines are gone
        self._looks = True  # machines are ordered at the next instant, though nothing is submitted

    def resume(self, offer: int, now_s: float, requested_s: float, up_s: float | None) -> int:
        """Take over a machine rented before; up_s: since when it is up, null: it boots. Returns its number."""
        driver, rented = self._driver, self._rented
        driver.state.pool[0].now = now_s
        machine = rented.request(driver, offer, requested_s, math.inf if up_s is None else up_s)
        self._first_new, self._looks = rented.requested, True
        if up_s is not None:
            rented.open(driver, machine)
            rented.resize(driver)
        return machine.node

    def booting(self) -> list[RentMachine]:
        """The machines that are not up yet, as the rule ordered them."""
        return [_order(each) for each in self._rented.there if not each.is_up]

    def generation(self, number: int) -> int:
        """The generation of the machine that a number stands for now."""
        return next(each.serial for each in self._rented.there if each.node == number)

    def is_there(self, number: int, generation: int) -> bool:
        """Whether a number still stands for the machine rented under it."""
        return self._found(number, generation) is not None

    def report_up(self, number: int, now_s: float) -> None:
        """A machine is up; `happen` lets the policy look."""
        for each in self._rented.there:
            if each.node == number and not each.is_up:
                each.up_s = now_s

    def open_node(self, number: int, is_open: bool) -> bool:
        """A machine takes new units from now on, or none; false: the number stands for another node."""
        found = next((each for each in self._rented.there if each.node == number), None)
        if found is not None and found.is_open != is_open:
            self._rented.let_in(self._driver, found, is_open)
            self._looks = True
        return found is not None or number in self._leaving

    def report_gone(self, number: int, generation: int, now_s: float, cause: int) -> None:
        """A machine on which nothing runs is gone: given back, failed to boot, or taken away."""
        if self._leaving.get(number) == generation:
            del self._leaving[number]
            self._driver.unused_nodes.append(number)
        elif (found := self._found(number, generation)) is not None:
            self._go(found, now_s)
            if cause == FAILED:
                self._ask_again(found.offer, now_s)

    def report_refused(self, number: int, generation: int, now_s: float) -> None:
        """An ordered machine is not available: its offer is asked again after a while, others at once."""
        found = self._found(number, generation)
        if found is not None:
            self._go(found, now_s)
            self._ask_again(found.offer, now_s)

    def own(self, units: int) -> bool:
        """Of all nodes but these machines there are so many units from now on; false: as of `Driver.resize`."""
        self._looks = self._looks or units != self._rented.owned
        self._rented.owned = units
        return self._driver.resize(self._rented.units, self._rented.prepare)

    def begin(self, now_s: float) -> None:
        """Before an instant: machines are ordered then, if something but submissions has changed what is needed."""
        if self._looks:
            self._rented.order_s, self._looks = now_s, False

    def take(self) -> tuple[list[int], list[Instruction]]:
        """The slots of jobs that have lost units with machines since the last call, and orders and returns."""
        rented = self._rented
        lost = [*self._lost, *(slot for each in rented.gone for slot in each.left_by)]
        orders = [_order(each) for each in rented.there if each.serial >= self._first_new]
        returns = [ReleaseMachine(each.node, each.serial) for each in rented.gone]
        self._leaving |= {each.node: each.serial for each in rented.gone}
        self._lost, self._first_new = [], rented.requested
        rented.gone.clear()
        return lost, [*orders, *returns]

    def _go(self, machine: Machine, now_s: float) -> None:
        self._driver.state.pool[0].now = now_s
        self._rented.remove(self._driver, machine, now_s)
        self._rented.gone.remove(machine)
        self._lost += machine.left_by
        self._driver.unused_nodes.append(machine.node)
        self._rented.resize(self._driver)
        self._looks = True

    def _ask_again(self, offer: int, now_s: float) -> None:
        self._rented.refused_until_s[offer] = now_s + ASK_AGAIN_S

    def _found(self, number: int, generation: int) -> Machine | None:
        there = self._rented.there
        return next((each for each in there if (each.node, each.serial) == (number, generation)), None)


def _order(machine: Machine) -> RentMachine:
    return RentMachine(machine.node, machine.serial, machine.offer)
