"""Turns the instructions of the policy's engine into events and effects; those about jobs that left are dropped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from betimes.service.engines.messages import (
    Bind,
    Decisions,
    Grant,
    Instruction,
    Migrate,
    Outrun,
    Preempt,
    ReleaseMachine,
    Rent,
    RentMachine,
    Reserve,
    StopSpeculating,
)
from betimes.service.scheduling.fleet_limits import LimitsOfFleet
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.planner_answers import move_data
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.renting import JobRentals, MachineRentals
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.wait_reasons import WaitReasons


class DecisionApplier:
    """From the engine's instructions to events and effects.

    idle: why the last decision did nothing; null: it did something.
    """

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        rentals: JobRentals,
        machines: MachineRentals,
        limits: LimitsOfFleet,
    ) -> None:
        self._state, self._engine, self._runs = state, engine, runs
        self._rentals, self._machines, self._limits = rentals, machines, limits
        self.idle: dict[str, Any] | None = None

    def apply(self, rounds: Iterable[Decisions]) -> None:
        """Log the policy's decisions, and preempt runs."""
        for one in rounds:
            by = takers(one.instructions)
            for instruction in one.instructions:
                self._carry_out(instruction, by)

    def explain_idle(self, rounds: Sequence[Decisions]) -> None:
        """Log the reason of a decision that moved nothing, if it differs from the last one."""
        if not rounds:
            return  # the policy was not asked
        if any(not isinstance(each, Outrun) for one in rounds for each in one.instructions):
            self.idle = None
            return
        self.idle = WaitReasons(self._state, self._engine, self._limits, None).idle()
        if _answer(self.idle) != _answer(self._state.ledger.idle):
            self._state.log("idle", "policy", reason=self.idle)

    def _carry_out(self, one: Instruction, by: Mapping[int, Sequence[int]]) -> None:
        """Log the event that an instruction is; by: for each job, those that take its units."""
        log, jobs, engine = self._state.log, self._state.ledger.jobs, self._engine
        match one:
            case RentMachine():
                self._machines.order(one)
            case ReleaseMachine():
                self._machines.give_back(one)
            case _ if one.job in engine.withdrawn:
                pass
            case Outrun(number, size_s):
                account = engine.account_row(number)
                basis = "limit" if account["size_s"] < size_s else "doubled"
                log("estimate-changed", "timer", number, account=account, basis=basis, outran=True)
            case Preempt(number, leave_by_s, room_for):
                grace_s, by_at = leave_by_s - self._state.now_s, leave_by_s + self._state.ledger.epoch_at
                makes_room = {} if room_for is None else {"makes_room_for": room_for}
                self._runs.preempt_until(jobs[number], grace_s, by_at, list(makes_room.values()), makes_room)
            case Migrate(number, held, keep, expected):
                more: dict[str, Any] = (
                    {} if expected is None else {"move": move_data(expected, self._state.now_at)}
                )
                before, places = jobs[number].places, engine.places_of(held)
                log("migrating", "policy", number, before=before, places=places, keeps_running=keep, **more)
            case Rent(number):
                self._rentals.rent(jobs[number], one)
            case StopSpeculating(number):
                self._rentals.stop_speculating(jobs[number])
            case Bind(number, held, owed):
                log("nominated", "policy", number, places=engine.places_of(held), owed=[*map(list, owed)])
            case Reserve(number, start_s, held) if start_s < math.inf:
                log("reserved", "policy", number, places=engine.places_of(held), start_s=start_s)
            case Reserve(number):
                if jobs[number].binding is not None:
                    log("unbound", "policy", number)
            case Grant(number):
                self._grant(jobs[number], one, by.get(number, ()))

    def _grant(self, job: Job, move: Grant, by: Sequence[int]) -> None:
        places, account = self._engine.places_of(move.places), self._engine.account_row(move.job)
        tasks: dict[str, Any] = {"units_per_task": move.units_per_task} if move.units_per_task > 1 else {}
        self._state.log(
            "granted", "policy", move.job, units=move.units, places=places, **tasks, account=account
        )
        if job.trials is not None:
            self._state.trial_index.to_share[move.job] = tuple(by)
            return
        run = job.run
        if run is None or not run.launched or run.stopping is not None:
            return
        if move.units == 0 or move.moves:
            self._runs.preempt(job, by, moves=move.moves)


def _answer(reason: dict[str, Any] | None) -> tuple[str, int | None] | None:
    """The key by which reasons for doing nothing differ: code and job."""
    return (reason["code"], reason["evidence"].get("job")) if reason is not None else None


def takers(instructions: Iterable[Instruction]) -> dict[int, list[int]]:
    """For each job that gives up units of a pool, the jobs that take them.

    Units are alike: units given up and units taken in a round are matched in order.
    """
    changes = [(each.job, each.units - each.before) for each in instructions if isinstance(each, Grant)]
    taking = [[job, units] for job, units in changes if units > 0]
    found: dict[int, list[int]] = {}
    for job, change in changes:
        given = -change
        while given > 0 and taking:
            taker = taking[0]
            found.setdefault(job, []).append(taker[0])
            units = min(given, taker[1])
            given -= units
            taker[1] -= units
            if taker[1] == 0:
                taking.pop(0)
    return found
