"""An array that is one job to the policy: a set of trials, each of which holds one unit while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.service.spec.job_spec import JobSpec, parse_array


@dataclass
class TrialSet:
    """Where the trials of a set stand in all; each of them is a job of its own, without an account."""

    count: int
    told_s: float  # what a trial is believed to take
    most: int  # units that the set may use at once
    width: int  # and that it can use now: no more than it has trials left
    running: int = 0  # trials with a run
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    taken_s: float = 0.0  # by those that finished, together

    @property
    def left(self) -> int:
        """Trials that are not over."""
        return self.count - self.finished - self.failed - self.cancelled

    @property
    def end(self) -> str:
        """What becomes of the set once none is left: it finishes if all have."""
        if self.cancelled:
            return "cancelled"
        return "failed" if self.failed else "finished"


def set_spec(spec: JobSpec) -> JobSpec:
    """What the policy sees of an array that is one job: from one unit to as many as it has trials, or may use."""
    indices, most = parse_array(spec.array or "")
    width = min(len(indices), most or len(indices))
    return spec.model_copy(update={"array": None, "as_one": False, "max_units": width})


def trial_spec(spec: JobSpec) -> JobSpec:
    """What each of its trials runs."""
    return spec.model_copy(update={"array": None, "as_one": False, "after": [], "hold": False})


def trials_of(spec: JobSpec) -> int:
    """How many trials an array that is one job has."""
    return len(parse_array(spec.array or "")[0])


def full_run_s(trial_s: float, spec: JobSpec) -> float:
    """How long the set takes on all the units that it may use, as if its trials could be divided."""
    return trial_s * trials_of(spec) / set_spec(spec).max_units
