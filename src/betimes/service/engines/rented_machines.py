"""Machines that the policy of live nodes rents for several jobs, as the cloud reports them."""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.machines.rented import BOOTING, DRAINING, GOING, SETTING_UP
from betimes.core.nodes.machines.reported import (
    report_gone,
    report_refused,
    report_up,
    resume_machine,
)
from betimes.core.nodes.machines.wait_or_rent import ASK_AGAIN_S
from betimes.core.status import NEED_NODES
from betimes.kernels import entry
from betimes.service.engines.jobs_on_nodes import JobsOnNodes
from betimes.service.engines.messages import RentMachine

_resume = entry(resume_machine, NodesState, int, float, float)
_report_up = entry(report_up, NodesState, int)
_report_gone = entry(report_gone, NodesState, int, int)
_report_refused = entry(report_refused, NodesState, int, float)
ENTRIES = (_resume, _report_up, _report_gone, _report_refused)


class RentedMachines:
    """The rented machines of an engine, by number. A number is used again, under the next generation."""

    def __init__(self, jobs: JobsOnNodes) -> None:
        self._jobs = jobs

    def resume(self, offer: int, now_s: float, requested_s: float, up_s: float | None) -> int:
        """Take over a machine rented before; up_s: since when it is up, null: it boots. Returns its number."""
        driver = self._jobs.driver
        driver.state.pool[0].now = now_s
        since_s = math.inf if up_s is None else up_s
        while (number := int(_resume(driver.state, offer, requested_s, since_s))) == NEED_NODES:
            driver.heed(NEED_NODES)
        self._jobs.changed = True
        return number

    def booting(self) -> list[RentMachine]:
        """The machines that are not up yet, as the policy ordered them."""
        machines = self._jobs.driver.state.machines
        return [
            RentMachine(number, int(machines[number].generation), int(machines[number].offer))
            for number in range(len(machines))
            if machines[number].offer >= 0 and machines[number].state in (BOOTING, SETTING_UP)
        ]

    def report_up(self, number: int, now_s: float) -> None:
        """A machine is up; `happen` lets the policy look."""
        self._jobs.driver.state.pool[0].now = now_s
        _report_up(self._jobs.driver.state, number)
        self._jobs.changed = True

    def generation(self, number: int) -> int:
        """The generation of the machine that a number stands for now."""
        return int(self._jobs.driver.state.machines[number].generation)

    def report_gone(self, number: int, generation: int, now_s: float, cause: int) -> None:
        """An empty machine is gone: it has failed to boot, or was taken away.

        One that the policy is already giving back goes as planned by its offer.
        """
        state = self._jobs.driver.state
        if not self.is_there(number, generation):
            return
        state.pool[0].now = now_s
        self._unbind_all(number)
        if state.machines[number].residents >= 0:  # departures are not known here yet: it goes when they are
            state.machines[number].state = DRAINING
        else:
            _report_gone(state, number, cause)
        self._jobs.changed = True

    def report_refused(self, number: int, generation: int, now_s: float) -> None:
        """An ordered machine is not available; the policy decides anew at a later tick."""
        state = self._jobs.driver.state
        if not self.is_there(number, generation):
            return
        state.pool[0].now = now_s
        self._unbind_all(number)
        if self._jobs.rounds is not None:
            self._jobs.rounds.know_refused(int(state.machines[number].offer), now_s)
        _report_refused(state, number, now_s + ASK_AGAIN_S)
        state.pool[0].events += 1  # a planner is asked again

    def _unbind_all(self, number: int) -> None:
        """Let jobs bound to this machine wait for another, or stay where they are."""
        state = self._jobs.driver.state
        at, bound = int(state.machines[number].residents), set[int]()
        while at >= 0:
            slot = int(state.placements[at].slot)
            if at in self._bound_places(slot):
                bound.add(slot)
            at = int(state.placements[at].after)
        for slot in sorted(bound, key=lambda slot: int(state.jobs[slot].seq)):
            self._jobs.driver.unbind(slot)
            self._jobs.changed = True

    def _bound_places(self, slot: int) -> set[int]:
        """The placements that a job is bound to but does not hold."""
        state, found = self._jobs.driver.state, set[int]()
        at = int(state.needs[slot].bound)
        while at >= 0:
            found.add(at)
            at = int(state.placements[at].follows)
        return found

    def is_there(self, number: int, generation: int) -> bool:
        """Whether a number still stands for the machine rented under it."""
        machines = self._jobs.driver.state.machines
        if not 0 <= number < len(machines):
            return False
        machine = machines[number]
        return bool(machine.offer >= 0 and machine.generation == generation and machine.state != GOING)
