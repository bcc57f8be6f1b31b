"""Sets of trials as the ledger has them, and the kind of event about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job, TrialSet
from betimes.service.scheduling.job_states import Status, Transition, next_status
from betimes.service.scheduling.kind import Kind, units_text
from betimes.service.scheduling.reasons import reason


class Whole(NamedTuple):
    """A set and the state of its trials."""

    job: Job
    trials: TrialSet


def set_of(jobs: Mapping[int, Job], job: Job) -> Whole | None:
    """The set that a trial belongs to; null: the job is none."""
    whole = jobs.get(job.set_id) if job.set_id is not None else None
    return Whole(whole, whole.trials) if whole is not None and whole.trials is not None else None


def rest(jobs: Mapping[int, Job], job: Job) -> None:
    """Let a set wait once none of its remaining trials runs."""
    whole = set_of(jobs, job)
    if whole is None or whole.trials.running or not whole.trials.left:
        return
    if whole.job.status is Status.RUNNING:
        whole.job.status = next_status(whole.job.status, Transition.WAIT)


def not_all_finished(of: TrialSet) -> dict[str, Any]:
    """The reason of a set of which some trials failed or were cancelled."""
    ends = [f"{count} {how}" for count, how in ((of.failed, "failed"), (of.cancelled, "cancelled")) if count]
    text = f"of {of.count} trials: {', '.join(ends)}"
    return reason("trials", text, failed=of.failed, cancelled=of.cancelled)


def _width(_: object, event: Event, job: Job) -> None:
    """A set of trials can use so many units from now on."""
    if job.trials is not None:
        job.trials.width = event.data["units"]


KINDS: dict[str, Kind[object]] = {
    "parallelism-changed": Kind(
        "how many units a set of trials can use from now on: no more than it has trials left",
        _width,
        lambda data: f"at most {units_text(data['units'])}",
        data={"units": int},
    ),
}
