"""What the policy has decided is logged, and executors are asked for what follows from it at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from betimes.service.engines.messages import (
    Bind,
    Decisions,
    Grant,
    Migrate,
    Move,
    Outrun,
    Preempt,
    Rent,
    Reserve,
    StopSpeculating,
)
from betimes.service.engines.move_savings import ExpectedSaving
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.jobs.wait_reasons import WaitReasons
from betimes.service.scheduling.nodes.job_rentals import JobRentals
from betimes.service.scheduling.nodes.machine_rentals import MachineRentals
from betimes.service.scheduling.runs.move_record import MoveRecord
from betimes.service.scheduling.runs.runs import Runs
from betimes.service.scheduling.state import SchedulerState


class DecisionApplier:
    """From moves of the engine to events and effects.

    idle: why the last decision did nothing; null: it did something.
    """

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        rentals: JobRentals,
        machines: MachineRentals,
    ) -> None:
        self._state, self._engine, self._runs = state, engine, runs
        self._rentals, self._machines = rentals, machines
        self.idle: dict[str, Any] | None = None

    def apply(self, rounds: Iterable[Decisions]) -> None:
        """Log what the policy has decided, and preempt runs."""
        for one in rounds:
            by = takers(one.moves)
            for move in one.moves:
                if move.job not in self._engine.withdrawn:
                    self._apply(move, by.get(move.job, ()))
            for move in one.machines:
                self._machines.apply(move)

    def explain_idle(self, rounds: Sequence[Decisions]) -> None:
        """A decision that moved nothing has a reason; it is logged when the answer is another than the last time."""
        if not rounds:
            return  # the policy was not asked
        if any(one.machines or any(not isinstance(move, Outrun) for move in one.moves) for one in rounds):
            self.idle = None
            return
        self.idle = WaitReasons(self._state, self._engine, None).idle()
        if _answer(self.idle) != _answer(self._state.ledger.idle):
            self._state.log("idle", "policy", reason=self.idle)

    def _apply(self, move: Move, by: Sequence[int]) -> None:
        log, number = self._state.log, move.job
        job = self._state.ledger.jobs[number]
        if isinstance(move, Outrun):
            account = self._engine.account_row(number)
            basis = "limit" if account["size_s"] < move.size_s else "doubled"
            log("estimate-changed", "timer", number, account=account, basis=basis, outran=True)
        elif isinstance(move, Preempt):
            room_for = move.makes_room_for
            makes_room = {} if room_for is None else {"makes_room_for": room_for}
            grace_s = move.leave_by_s - self._state.now_s
            by_at = move.leave_by_s + self._state.ledger.epoch_at
            self._runs.preempt_until(job, grace_s, by_at, [] if room_for is None else [room_for], makes_room)
        elif isinstance(move, Migrate):
            places = self._engine.places_of(move.places)
            more: dict[str, Any] = (
                {} if move.expected is None else {"move": _record(move.expected, self._state.now_at)}
            )
            log(
                "migrating",
                "policy",
                number,
                before=job.places,
                places=places,
                keeps_running=move.keep,
                **more,
            )
        elif isinstance(move, Rent):
            self._rentals.rent(job, move)
        elif isinstance(move, StopSpeculating):
            self._rentals.stop_speculating(job)
        elif isinstance(move, Bind):
            places = self._engine.places_of(move.places)
            log("nominated", "policy", number, places=places, owed=[list(one) for one in move.owed])
        elif isinstance(move, Reserve):
            if move.start_s < math.inf:
                places = self._engine.places_of(move.places)
                log("reserved", "policy", number, places=places, start_s=move.start_s)
            elif job.binding is not None:
                log("unbound", "policy", number)
        else:
            self._grant(job, move, by)

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
        if move.units == 0:
            self._runs.preempt(job, by)


def _record(expected: ExpectedSaving, now_at: float) -> dict[str, Any]:
    """What a move that has just been decided is to save."""
    return MoveRecord(
        now_at, expected.before_usd_per_h, expected.after_usd_per_h, expected.cost_usd
    ).to_json()


def _answer(reason: dict[str, Any] | None) -> tuple[str, int | None] | None:
    """What makes one reason for doing nothing another than the last: its code, and its job."""
    return (reason["code"], reason["evidence"].get("job")) if reason is not None else None


def takers(moves: Iterable[Move]) -> dict[int, list[int]]:
    """Of each job that gives up units of a pool, the jobs that take them.

    Units are alike: what is given up and what is taken in a round is counted off against each other, in order.
    """
    changes = [(move.job, move.units - move.before) for move in moves if isinstance(move, Grant)]
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
