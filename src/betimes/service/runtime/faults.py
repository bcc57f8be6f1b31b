"""Faults: inputs, steps and effects that failed for an unknown reason are set aside, so that the service goes on."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from betimes.errors import InputError, ServiceError
from betimes.service.scheduling.admission import ARRAY
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.nodes import LOSE
from betimes.service.scheduling.runs import LAUNCH
from betimes.service.scheduling.scheduler import DUE, FOLLOWS, POLICY, Scheduler
from betimes.service.scheduling.state import Step

if TYPE_CHECKING:
    from betimes.service.runtime.inbox import Input
    from betimes.service.scheduling.effects import Effect

MOST_TRACE = 8_000  # characters; of more, the last ones
_STEPS = {
    "admit": "whether job {} may queue",
    "promise": "whether the promise of job {} is broken",
    "stop": "the stop of job {} before its node goes",
    LOSE: "the loss of the run of job {} with its node",
    "trials": "the state of the set of trials {}",
    LAUNCH: "the start of the run of job {}",
    DUE: "what is due by itself: {}",
    FOLLOWS: "what follows a decision: {}",
    ARRAY: "the next elements of array {}",
    POLICY: "a decision of policy {}",
}
_OF_JOBS = ("admit", "promise", "stop", LOSE, "trials", ARRAY, LAUNCH)


def _run_of(what: object) -> tuple[str, int | None]:
    """Words for the run that something concerns, and its job; empty and null where it concerns none."""
    run: RunId | None = getattr(what, "run", None)
    return ("", None) if run is None else (f" of run {run.job}.{run.number}", run.job)


@dataclass(frozen=True)
class Fault:
    """An input, a step of a turn, or an effect, and the error that it raised. job: that it concerns; null: none."""

    what: str
    error: Exception
    job: int | None = None
    one: Input | None = None
    step: Step | None = None

    @classmethod
    def of_input(cls, one: Input, error: Exception) -> Fault:
        """An input that raised an error, or that a turn with nothing else in it did."""
        return cls(one.what, error, None if one.run is None else one.run.job, one)

    @classmethod
    def of_step(cls, step: Step, error: Exception) -> Fault:
        """A step of a turn that raised an error."""
        what, of = step
        job = of if what in _OF_JOBS and isinstance(of, int) else None
        return cls(_STEPS[what].format(of), error, job, step=step)

    @classmethod
    def of_effect(cls, effect: Effect, error: Exception) -> Fault:
        """An effect that could not be carried out."""
        of, job = _run_of(effect)
        return cls(f"effect {type(effect).__name__}{of}", error, job)

    def lost_run(self, scheduler: Scheduler) -> RunId | None:
        """The run that vanished with its node, where that could not be handled."""
        job = None if self.job is None else scheduler.ledger.jobs.get(self.job)
        is_loss = self.step is not None and self.step[0] == LOSE
        return RunId(job.job_id, job.run.number) if is_loss and job is not None and job.run else None

    @property
    def text(self) -> str:
        """One line for the service's log."""
        if self.step is not None and self.step[0] == POLICY:
            return f"{self.what} failed ({type(self.error).__name__}: {self.error}); fifo takes over"
        return f"{self.what} could not be carried out ({type(self.error).__name__}); the service goes on without it"

    @property
    def answer(self) -> Exception:
        """To the request that waits for it."""
        if isinstance(self.error, InputError):
            return self.error
        return ServiceError(f"{self.text}; its log shows how")

    def note(self, scheduler: Scheduler) -> None:
        """Log it; a refusal is the user's to know."""
        if isinstance(self.error, InputError):
            return
        trace = "".join(traceback.format_exception(self.error))[-MOST_TRACE:]
        kept = trace.encode(errors="backslashreplace").decode().replace("\0", "\\0")
        scheduler.note_set_aside(self.what, self.job, type(self.error).__name__, kept)


@dataclass
class SetAside:
    """The faults that are not tried again before the next start: by then the program may have been mended."""

    reports: set[Any] = field(default_factory=set[Any])
    """`Input.key_of_report`: executors repeat what they report."""
    steps: set[Step] = field(default_factory=set[Step])
    policies: set[str] = field(default_factory=set[str])
    new: list[Fault] = field(default_factory=list[Fault])  # to be logged by the next turn

    def add(self, fault: Fault) -> None:
        """Take it no more. An input is noted by its controller, once a turn without it has worked."""
        if fault.one is None:
            self.new.append(fault)
        if fault.one is not None and fault.one.key_of_report is not None:
            self.reports.add(fault.one.key_of_report)
        elif fault.step is not None and fault.step[0] == POLICY:
            self.policies.add(str(fault.step[1]))
        elif fault.step is not None:
            self.steps.add(fault.step)
