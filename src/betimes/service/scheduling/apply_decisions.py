"""What the policy has decided is written down, and carried out as far as there is room for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from betimes.service.engines.moves import (
    Grant,
    Move,
    Nominate,
    Outrun,
    Reserve,
    Round,
    Tell,
)
from betimes.service.engines.nodes import LiveNodes
from betimes.service.job import Job, Places
from betimes.service.node import UP
from betimes.service.scheduling.effects import ResizeRun, StartRun
from betimes.service.scheduling.learning import Learning
from betimes.service.scheduling.run_reports import RunId
from betimes.service.scheduling.wait_reasons import WaitReasons


class DecisionApplier(Learning):
    """From moves to events and effects."""

    def _note(self, rounds: Iterable[Round]) -> None:
        """Log what the policy has decided."""
        for one in rounds:
            by = takers(one.moves)
            for move in one.moves:
                if move.job not in self.pending.done:  # it has left, and the engine is not told yet
                    self._moved(move, by.get(move.job, ()))

    def _say_if_idle(self, rounds: Sequence[Round]) -> None:
        """A decision that moved nobody says why; it is logged when the answer is another than the last time."""
        if not rounds:
            return  # nobody was asked
        if any(not isinstance(move, Outrun) for one in rounds for move in one.moves):
            self.idle = None
            return
        self.idle = WaitReasons(self, None).idle()
        if _answer(self.idle) != _answer(self.ledger.idle):
            self._log("idle", "policy", reason=self.idle)

    def _moved(self, move: Move, by: Sequence[int]) -> None:
        job = self.ledger.jobs[move.job]
        if isinstance(move, Outrun):
            self._log(
                "believed", "timer", move.job, account=self._account(move.job), basis="doubled", outran=True
            )
        elif isinstance(move, Tell):
            room_for = move.makes_room_for
            more = {} if room_for is None else {"makes_room_for": room_for}
            grace_s, by_at = move.leave_by_s - self.now_s, move.leave_by_s + self.ledger.epoch_at
            self._preempt(job, grace_s, by_at, [] if room_for is None else [room_for], more)
        elif isinstance(move, Nominate):
            places = self._named(move.places)
            self._log("nominated", "policy", move.job, places=places, owed=[list(one) for one in move.owed])
        elif isinstance(move, Reserve):
            if move.start_s < math.inf:
                self._log(
                    "reserved", "policy", move.job, places=self._named(move.places), start_s=move.start_s
                )
            elif job.binding is not None:
                self._log("unbound", "policy", move.job)
        else:
            self._granted(job, move, by)

    def _granted(self, job: Job, move: Grant, by: Sequence[int]) -> None:
        places = self._named(move.places)
        self._log(
            "granted", "policy", move.job, units=move.units, places=places, account=self._account(move.job)
        )
        if job.trials is not None:
            self.to_share[move.job] = tuple(by)
            return
        run = job.run
        if run is None or not run.launched or run.stopping is not None:
            return
        if move.units == 0:
            self._preempt(job, job.spec.grace_s, self.now_at + job.spec.grace_s, by, {})

    def _launch(self) -> None:
        """Carry out what there is room for: those that are told to leave have theirs until they have left."""
        granted = [self.ledger.jobs[number] for number in sorted(self.agenda.unsettled)]
        for job in granted:
            run = job.run
            if run is not None and run.launched and run.stopping is None and run.units > job.units:
                self._resize(job, RunId(job.job_id, run.number))
        for job in granted:
            run = job.run
            if run is not None and run.launched and run.stopping is None and run.units < job.units:
                self._resize(job, RunId(job.job_id, run.number))
            if run is None or run.launched:
                continue
            places = self.rooms.enter(RunId(job.job_id, run.number), job)
            if places is None:
                continue
            cost = self._cost_of_resuming(job, places)
            self._log(
                "launched", "policy", job.job_id, number=run.number, units=job.units, places=places, **cost
            )
            self._run_row(job)
            self.effects.append(StartRun(RunId(job.job_id, run.number)))

    def _resize(self, job: Job, run: RunId) -> None:
        """Let a run have the width that its job has been granted, if there is room for it."""
        if self.resizing.get(run) == job.units:
            return
        kinds = {self.ledger.nodes[name].machine.kind for name, _ in job.places}
        places = self.rooms.resize(run, job, at_once="local" not in kinds)
        if places is not None:
            self.resizing[run] = job.units
            self.effects.append(ResizeRun(run, job.units, places))

    def resized(self, run: RunId, units: int, places: Places, done: bool) -> None:
        """The executor has told a run its new width, or says that it must be restarted for it."""
        job = self._running(run)
        if self.resizing.get(run) == units:
            del self.resizing[run]
            if done and job is not None:
                self.rooms.settle(run, places)
        if job is None or job.run is None or job.run.stopping is not None:
            return
        if not done:
            self._stop(job, "resized", "policy")
            return
        self._log("resized", "executor", job.job_id, number=run.number, units=units, places=places)
        if (pace := self.paces.get(job.job_id)) is not None:
            pace.resize(self.now_at, self._speed(job))
        self._run_row(job)

    def _nodes_changed(self) -> None:
        """Nodes have come or gone: the engine is made anew, and everybody is looked at."""
        if self.built is None:
            return
        if isinstance(self.engine, LiveNodes) and list(self.ledger.nodes) == self.built.nodes:
            for number, node in enumerate(self.ledger.nodes.values()):
                self.engine.open_node(number, node.status == UP)
        else:
            self._shed()
            self._settle_up()
            self._rebuild(self.ledger.policy)
        self.pending.look = True

    def _restarted(self, job: Job) -> None:
        """A job that was stopped to go on at another width gets on: the engine counts with what that has taken."""
        if job.restarting_since_at is None or job.run is None or job.run.stopping is not None:
            return
        before_s = self.restart_s
        self._log("restarted", "executor", job.job_id, took_s=self.now_at - job.restarting_since_at)
        if self.restart_s != before_s:
            self._settle_up()
            self._rebuild(self.ledger.policy)
            self.pending.look = True

    def _settle_up(self) -> None:
        """Before there is another engine: what has happened to this one, without its deciding anything any more."""
        pending = self.pending
        for number in pending.gone:
            self.engine.lose(number, self.now_s)
            self._log_waits(self.ledger.jobs[number])
        pending.widths = []  # the new engine is told them with the jobs
        pending.gone, pending.done, pending.believed = [], [], []  # who reports progress will do so again

    def _hand_over(self, kind: str) -> None:
        """Before an engine of another kind takes over: what is granted is what is held, as nodes know no difference."""
        for job in list(self.ledger.jobs.values()):
            run, units, places = job.run, job.units, job.places
            if job.binding is not None:
                self._log("unbound", "policy", job.job_id)
            if job.account is None or (run is None and units == 0):
                continue
            if kind == "pool" and run is not None and run.stopping is not None:
                units, places = 0, []
            elif kind == "nodes" and run is not None:
                units, places = (run.units, run.places) if run.launched else (0, [])
            if units != job.units or places != job.places:
                account = self._account(job.job_id)
                self._log("granted", "policy", job.job_id, units=units, places=places, account=account)


def _answer(reason: dict[str, Any] | None) -> tuple[str, int | None] | None:
    """What makes one reason for doing nothing another than the last: what it is, and whose."""
    return (reason["code"], reason["evidence"].get("job")) if reason is not None else None


def takers(moves: Iterable[Move]) -> dict[int, list[int]]:
    """Of each job that gives up units of a pool, who takes them.

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
