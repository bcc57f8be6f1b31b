"""A live job as the service keeps it in memory: what was asked, where it stands, and the account of its work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from betimes.service.engines.accounts import Account
from betimes.service.scheduling.jobs.job_states import Status
from betimes.service.scheduling.runs.move_record import MoveRecord
from betimes.service.scheduling.runs.preemption_record import Preemption
from betimes.service.scheduling.trials.trial_set import TrialSet
from betimes.service.spec.job_spec import JobSpec

Places = list[tuple[str, int]]  # units on a node, by the node's name

SPECULATED = "speculated"
"""Why a run is told to stop that has been on rented machines for as long as a short job may."""


@dataclass
class Run:
    """One time that a job's command is started."""

    number: int
    units: int
    places: Places
    decided_at: float
    launched: bool = False  # the executor has been told to start it
    started_at: float | None = None
    stopping: str | None = None  # why it has been told to stop: preempted, resized, cancelled
    stop_by_at: float | None = None


@dataclass
class Rental:
    """Machines that are rented for one job alone."""

    type: str
    units: list[int]  # on each of them
    units_per_task: int
    asked_at: float
    speculates_until_s: float | None = None  # null: it runs to its end there
    expected_usd: float = 0.0  # what they will cost, if the job takes as long as is believed
    nodes: list[str] = field(default_factory=list[str])  # those that the cloud has given out
    is_up: bool = False

    @property
    def count(self) -> int:
        """How many machines."""
        return len(self.units)


@dataclass(slots=True)  # a dictionary of so many attributes takes four times the room
class Job:
    """A job that is not over, or has just ended."""

    job_id: int
    spec: JobSpec
    user: str
    submitted_at: float
    believed_s: float  # run time on max_units
    basis: str
    array_id: int | None = None
    array_index: int | None = None
    set_id: int | None = None  # of a trial: the set that it belongs to, which alone the policy knows
    trials: TrialSet | None = None  # of a set
    ran_s: float = 0.0  # by its earlier runs, together
    array_most: int = 0  # elements of the array that may be queued or running at once; 0: any number
    status: Status = Status.BLOCKED
    units: int = 0  # granted by the policy
    places: Places = field(default_factory=list[tuple[str, int]])
    units_per_task: int = (
        1  # at most, of the tasks in which it holds its places; in a pool units are held one by one
    )
    attempt: int = 0
    preemptions: int = 0
    resizes: int = 0
    failures: int = 0
    losses: int = 0  # runs that vanished, one after the other
    not_before_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    left_at: float | None = (
        None  # its last run has ended, before the service knew; null: when the service knew
    )
    restarting_since_at: float | None = (
        None  # told to stop, to go on at once at another width; null: it gets on
    )
    progress_frac: float | None = None
    alone_per_s: float | None = None  # steps that it does with its machines to itself, as it reported them
    promised_finish_at: float | None = None
    reason: dict[str, Any] | None = None
    account: Account | None = None  # while an engine has it
    run: Run | None = None
    makes_room_for: int | None = None
    cancelled_by: str | None = None  # the cause of the event that asked for its end
    preemption: Preemption | None = None  # the last one
    next_move: MoveRecord | None = None  # that is decided, and not yet made
    move: MoveRecord | None = None  # after which it runs now
    binding: dict[str, Any] | None = (
        None  # nodes that it will have: when its victims have left, or from start_s on
    )
    rental: Rental | None = None  # machines that are rented for it alone

    def settle(self, account: dict[str, Any]) -> None:
        """Take over what its engine says of its work."""
        before = self.account or Account(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        self.account = Account(**account)
        self.preemptions += self.account.preemptions - before.preemptions
        self.resizes += self.account.resizes - before.resizes

    def has_run_s(self, now_at: float) -> float:
        """Seconds that its runs have taken in all."""
        if self.run is None or self.run.started_at is None:
            return self.ran_s
        return self.ran_s + (now_at - self.run.started_at)

    def row(self) -> dict[str, Any]:
        """The row of table `jobs`."""
        return {
            "job_id": self.job_id,
            "array_id": self.array_id,
            "array_index": self.array_index,
            "name": self.spec.title,
            "user": self.user,
            "status": self.status.value,
            "qos": self.spec.qos,
            "units": self.units if self.trials else self.run.units if self.run else 0,
            "min_units": self.spec.min_units,
            "max_units": self.spec.max_units,
            "submitted_at": self.submitted_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "attempt": self.attempt,
            "preemptions": self.preemptions,
            "resizes": self.resizes,
            "progress_frac": self.progress_frac,
            "reason": self.reason,
            "promised_finish_at": self.promised_finish_at,
            "labels": self.spec.labels,
            "spec": self.spec.model_dump(mode="json", exclude_defaults=True),
        }

    def to_json(self) -> dict[str, Any]:
        """All of it, for a snapshot."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        found["spec"] = self.spec.model_dump(mode="json", exclude_defaults=True)
        found["status"] = self.status.value
        found["account"] = self.account.row() if self.account else None
        found["run"] = asdict(self.run) if self.run else None
        found["trials"] = asdict(self.trials) if self.trials else None
        found["preemption"] = self.preemption.to_json() if self.preemption else None
        found["rental"] = asdict(self.rental) if self.rental else None
        for name, move in (("next_move", self.next_move), ("move", self.move)):
            if move is not None:
                found[name] = move.to_json()
            else:
                del found[name]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Job:
        """A job of a snapshot."""
        run, account, preemption = found["run"], found["account"], found.get("preemption")
        trials, rental = found.get("trials"), found.get("rental")
        return cls(
            **{
                **found,
                "spec": JobSpec(**found["spec"]),
                "status": Status(found["status"]),
                "places": _places(found["places"]),
                "account": Account(**account) if account else None,
                "run": Run(**{**run, "places": _places(run["places"])}) if run else None,
                "trials": TrialSet(**trials) if trials else None,
                "preemption": Preemption.from_json(preemption) if preemption else None,
                "rental": Rental(**rental) if rental else None,
                **{name: MoveRecord(**found[name]) for name in ("next_move", "move") if name in found},
            }
        )


def _places(found: list[Any]) -> Places:
    return [(str(node), int(units)) for node, units in found]
