"""The kinds of events about what users ask of jobs, and how jobs end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from betimes.cluster.interference import workload_of
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job, Run, TrialSet, shared_spec
from betimes.service.scheduling.job_states import Status, Transition, next_status
from betimes.service.scheduling.kind import (
    ACCOUNT,
    ACCOUNTS,
    REASON,
    REASON_OR_NONE,
    SPEC,
    Data,
    Kind,
    reason_text,
)
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.promise_events import void_promise
from betimes.service.scheduling.sets import rest, set_of
from betimes.service.spec.job_spec import JobSpec
from betimes.units import length


def _submitted(ledger: Ledger, event: Event, _: Job | None) -> Job:
    data = event.data
    job = Job(
        job_id=int(event.job or 0),
        spec=shared_spec(JobSpec(**data["spec"]), ledger.jobs.get(int(event.job or 0) - 1)),
        user=data["user"],
        submitted_at=data.get("submitted_at", event.at_s),
        runtime_estimate_s=data["believed_s"],
        basis=data["basis"],
        array_id=data.get("array_id"),
        array_index=data.get("array_index"),
        array_most=data.get("array_most", 0),
        set_id=data.get("set_id"),
        trials=TrialSet(**data["trials"]) if "trials" in data else None,
    )
    job.attempt = data.get("runs", 0)
    job.not_before_at = job.spec.begin_at or 0.0
    job.status = next_status(None, Transition.SUBMIT)
    job.reason = data.get("reason")
    ledger.jobs[job.job_id] = job
    ledger.over.pop(job.job_id, None)
    if ledger.shares.half_life_s is not None or ledger.users:
        ledger.shares.open([job.user], (), event.at_s - ledger.epoch_at)
    ledger.next_job = max(ledger.next_job, job.job_id + 1)
    ledger.promise_errors.submitted(job)
    ledger.arrays.submitted(job)
    return job


def _moved(step: Transition) -> Callable[[Ledger, Event, Job], None]:
    def change(_: Ledger, event: Event, job: Job) -> None:
        job.status = next_status(job.status, step)
        job.reason = event.data.get("reason")

    return change


def _queued(_: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.QUEUE)
    job.reason = None
    if "account" in event.data:  # trials have none
        job.settle(event.data["account"])
    job.runtime_estimate_s, job.basis = event.data["believed_s"], event.data["basis"]


def _held(ledger: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.HOLD)
    job.reason, job.account, job.binding, job.rental = event.data["reason"], None, None, None
    job.units, job.places, job.run = 0, [], None
    void_promise(ledger, job)  # it is promised anew when it queues


def _edited(ledger: Ledger, event: Event, job: Job) -> None:
    data = event.data
    job.spec = JobSpec(**data["spec"])
    job.runtime_estimate_s, job.basis = data["believed_s"], data["basis"]
    if "begin_at" in data["changes"]:
        job.not_before_at = max(job.spec.begin_at or 0.0, job.not_before_at if job.failures else 0.0)
    if data["leaves"]:  # the queue: it waits for something else now
        job.status = next_status(job.status, Transition.BLOCK)
        job.account, job.binding = None, None
    if data["voids"]:
        void_promise(ledger, job)
    ledger.promise_errors.edited(job)


def _blocked(ledger: Ledger, event: Event, job: Job) -> None:
    job.reason = event.data["reason"]
    if job.status is Status.QUEUED:  # it waits for something else now
        job.status = next_status(job.status, Transition.BLOCK)
        job.account, job.binding = None, None
        job.units, job.places, job.run = 0, [], None
        void_promise(ledger, job)  # it is promised anew when it queues


def _waits(ledger: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.WAIT)
    again = (event.data.get("reason") or {}).get("code") in ("lost", "prolog-failed")
    job.losses = job.losses + 1 if again else 0
    if "account" in event.data:
        job.settle(event.data["account"])
    if not event.data.get("keeps_units"):
        job.units, job.places, job.run, job.restarting_since_at = 0, [], None, None
    elif job.units:
        job.run = Run(job.attempt + 1, job.units, job.places, event.at_s)
    job.reason, job.left_at = event.data.get("reason"), None
    rest(ledger.jobs, job)


def _retries(ledger: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.BLOCK)
    job.units, job.places, job.account, job.rental = 0, [], None, None
    job.failures += 1
    job.ran_s = job.lost_s = job.leaving_s = 0.0
    job.not_before_at = event.data["not_before_at"]
    job.reason, job.left_at = event.data["reason"], None
    rest(ledger.jobs, job)


def _over(step: Transition) -> Callable[[Ledger, Event, Job], None]:
    def change(ledger: Ledger, event: Event, job: Job) -> None:
        job.status = next_status(job.status, step)
        job.finished_at = event.at_s if job.left_at is None else job.left_at
        if job.trials is not None and job.started_at is not None:
            job.last_ran_s = job.finished_at - job.started_at
        if step is Transition.FINISH and job.units > 0 and job.trials is None:
            since_at = event.at_s if job.started_at is None else job.started_at
            # Only preempted jobs have `waited_s`; in older logs none has, and each waited until its first start.
            waited_s = event.data.get("waited_s", since_at - job.submitted_at)
            tasks = max(1, job.units // max(1, job.units_per_task))
            ledger.record.finished(waited_s, event.data["run_s"], tasks)
        job.units, job.places, job.account, job.run, job.binding = 0, [], None, None, None
        job.rental = None
        job.reason = event.data.get("reason")
        if step is Transition.FINISH:
            job.progress_frac = 1.0
        if step is Transition.FINISH and job.trials is None:  # in a set, each trial has reported
            key, run_s = job.spec.history_key, event.data["run_s"]
            ledger.runtime_estimates.finished(job.user, key, job.spec.title, run_s)
        if step is Transition.FINISH:
            run_s = event.data["run_s"] if job.trials is None else None
            ledger.promise_errors.finished(job, job.finished_at, run_s)
        else:
            ledger.promise_errors.dropped(job)
        if (whole := set_of(ledger.jobs, job)) is not None:
            whole.trials.finished += step is Transition.FINISH
            whole.trials.failed += step is Transition.FAIL
            whole.trials.cancelled += step is Transition.CANCEL
            whole.trials.taken_s += job.ran_s if step is Transition.FINISH else 0.0
            rest(ledger.jobs, job)

    return change


def _cancel_asked(_: Ledger, event: Event, job: Job) -> None:
    job.cancelled_by = event.cause


def _believed(_: Ledger, event: Event, job: Job) -> None:
    job.settle(event.data["account"])
    job.basis = event.data["basis"]
    if "progress_frac" in event.data:
        job.progress_frac = event.data["progress_frac"]


def apply_learnt(jobs: Mapping[int, Job], data: Mapping[str, Any]) -> None:
    """Give the jobs of an event `learnt` its believed run time."""
    for group in data["groups"]:
        for first, last in group["jobs"]:
            for number in range(first, last + 1):
                job = jobs[number]
                job.runtime_estimate_s, job.basis = data["believed_s"], data["basis"]
                if job.account is not None:
                    job.account.left_s, job.account.size_s = group["left_s"], group["size_s"]
    for number, account in data["accounts"].items():
        job = jobs[int(number)]
        job.runtime_estimate_s, job.basis = data["believed_s"], data["basis"]
        job.settle(account)


def _waits_until(_: Ledger, event: Event, job: Job) -> None:
    if job.account is not None:
        job.account.waits_until_s = event.data["waits_until_s"]


def _measured(ledger: Ledger, event: Event, job: Job) -> None:
    per_s, on, spec, run = event.data["alone_per_s"], tuple(event.data.get("on", ())), job.spec, job.run
    job.alone_per_s, job.alone_on = per_s, on
    if spec.workload is not None and not spec.unit.speeds and len(on) == 1 and run is not None:
        ledger.measured_rates.took(workload_of(spec.workload), run.units, on[0], job.job_id, per_s)


def _submitted_words(data: Data) -> str:
    place = f"element {data['array_index']} of array {data['array_id']}, " if "array_index" in data else ""
    place += f"{data['trials']['count']} trials, " if "trials" in data else ""
    return place + _estimate_words(data)


def _estimate_words(data: Data) -> str:
    return f"estimated at {length(data['believed_s'])} ({data['basis']})"


_SECRET = ("env", "notify")
"""Fields of a job whose values are for its user."""


def _edited_words(data: Data) -> str:
    changes = data["changes"].items()
    named = ", ".join(
        f"{name} changed" if name in _SECRET else f"{name}={_stated(to)}" for name, to in changes
    )
    return named + ("; its promise is void" if data["voids"] else "")


def _stated(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return (",".join(value) or "none") if isinstance(value, list) else f"{value}"


def _believed_words(data: Data) -> str:
    left = f"{length(data['account']['left_s'])} of work left"
    if data.get("slept"):
        return f"its machine slept, in which time it did not run; {left}, the sleep counted"
    if data["basis"] == "progress":
        return f"{left}, by its progress"
    if data["basis"] == "grace":
        return f"it is cancelled and ends within its grace period; {left}"
    if "suspended" in data:
        return f"it is suspended{', for a day as is assumed' if data['suspended'] else ' no more'}; {left}"
    if not data.get("outran"):
        return f"a user has changed its estimate or limit; {left}"
    return f"it outran its estimate; {left}"


def _finished_words(data: Data) -> str:
    lost_s = data.get("lost_s")
    runs = "all runs together" if lost_s is None else f"besides {length(lost_s)} whose work was lost"
    return f"{length(data['run_s'])} of run time, {runs}"


def _measured_words(data: Data) -> str:
    on = f" on {' and '.join(data['on'])}" if data.get("on") else ""
    return f"{data['alone_per_s']:.4g} steps a second with its machines to itself{on}"


KINDS: dict[str, Kind[Ledger]] = {
    "submitted": Kind(
        "a job was accepted",
        _submitted,
        _submitted_words,
        data={"user": str, "spec": SPEC, "believed_s": float, "basis": str},
        more={
            "array_id": int,
            "submitted_at": float,
            "runs": Annotated[int, "that it had before it was over, of one that Slurm has requeued since"],
            "array_index": int,
            "array_most": int,
            "set_id": int,
            "trials": Annotated[dict[str, Any], "of a set: `count`, and what became of them"],
            "reason": REASON,
        },
    ),
    "queued": Kind(
        "a job is ready: it waits for the policy only",
        _queued,
        _estimate_words,
        data={"believed_s": float, "basis": str},
        more={"account": ACCOUNT},
    ),
    "blocked": Kind(
        "a job waits for something other than the policy: a dependency, a limit, a delay",
        _blocked,
        reason_text,
        data={"reason": REASON},
    ),
    "held": Kind("a user holds a job", _held, reason_text, data={"reason": REASON}),
    "released": Kind("a user releases a held job", _moved(Transition.RELEASE)),
    "edited": Kind(
        "a user has changed what a job asks for; what it was promised is void, unless only names were changed",
        _edited,
        _edited_words,
        data={
            "changes": Annotated[dict[str, Any], "the fields that the user gave"],
            "spec": SPEC,
            "believed_s": float,
            "basis": str,
            "leaves": Annotated[bool, "the queue"],
            "voids": Annotated[bool, "its promise"],
        },
    ),
    "learnt": Kind(
        "the run-time estimates of live jobs follow the last finished jobs of the same user and name",
        lambda ledger, event, _: apply_learnt(ledger.jobs, event.data),
        data={
            "believed_s": float,
            "basis": str,
            "groups": Annotated[
                list[dict[str, Any]],
                "`jobs` from one number to another that have not begun, and what these have left",
            ],
            "accounts": ACCOUNTS,
        },
    ),
    "measured": Kind(
        "a job's throughput on machines that it has to itself, in steps a second of its reports; their types",
        _measured,
        _measured_words,
        data={"alone_per_s": float},
        more={"on": list[str]},
    ),
    "estimate-changed": Kind(
        "the work believed to be left of a job changed: by progress, an outrun estimate, a cancel",
        _believed,
        _believed_words,
        data={"account": ACCOUNT, "basis": str},
        more={"outran": bool, "slept": bool, "suspended": bool, "progress_frac": float},
    ),
    "requeued": Kind(
        "a job whose run was preempted, resized or lost is requeued",
        _waits,
        reason_text,
        data={"reason": REASON_OR_NONE},
        more={"account": ACCOUNT, "keeps_units": bool},
    ),
    "waits": Kind(
        "how long a job that has lost its nodes waits at most until a machine is rented for it, as the policy decided",
        _waits_until,
        data={"waits_until_s": float | None},
    ),
    "retries": Kind(
        "a job failed, and will be retried",
        _retries,
        reason_text,
        data={"not_before_at": float, "reason": REASON},
    ),
    "cancel-requested": Kind("a user asks for a job to be cancelled", _cancel_asked),
    "finished": Kind(
        "a job's command exited with 0",
        _over(Transition.FINISH),
        _finished_words,
        data={"run_s": float},
        more={
            "lost_s": float,
            "waited_s": Annotated[float, "of a preempted job: its time since submission, less `run_s`"],
        },
    ),
    "failed": Kind(
        "a job has failed for good", _over(Transition.FAIL), reason_text, data={"reason": REASON_OR_NONE}
    ),
    "cancelled": Kind(
        "a job was cancelled by a user, or because a job that it depends on did not succeed",
        _over(Transition.CANCEL),
        reason_text,
        data={"reason": REASON_OR_NONE},
    ),
}
