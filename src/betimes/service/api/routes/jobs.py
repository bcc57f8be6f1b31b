"""Submitting, quoting, listing and steering jobs, and their reports of progress."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query

from betimes.service.access.auth import attempt_of
from betimes.service.api import examples
from betimes.service.api.bodies import Sent, SentJobs
from betimes.service.api.context import Here, RunToken, Submitter, Viewer
from betimes.service.api.document import PREFIX, JobId, failing
from betimes.service.api.failures import Rejected, Unauthenticated
from betimes.service.api.limits import MOST_KEY_CHARACTERS
from betimes.service.api.models import (
    AccuracyQuery,
    HelpsQuery,
    JobEdits,
    JobList,
    JobNumbers,
    JobQuery,
    JobSignals,
    ProgressReport,
    RunQuery,
    SubmittedBatch,
    UsageQuery,
    WaitQuery,
)
from betimes.service.api.others import job_for, story_for
from betimes.service.api.streams import wait_until_over
from betimes.service.scheduling.jobs import Action
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import (
    AccuracyView,
    CurvesView,
    EfficiencyView,
    HelpsView,
    JobStory,
    JobView,
    Page,
    Quote,
    Submitted,
    UsageView,
    WhatIfSpec,
    WhatIfView,
)

router = APIRouter(prefix=PREFIX, tags=["jobs"])

_Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Sent again with the same body, it is answered as the first time and nothing is submitted twice; "
        f"1 to {MOST_KEY_CHARACTERS} printable characters.",
        min_length=1,
        max_length=MOST_KEY_CHARACTERS,
        pattern=r"^[\x21-\x7e]+$",
    ),
]


@router.post(
    "/jobs",
    summary="Submit a job, or several",
    operation_id="submit",
    status_code=201,
    responses={
        201: examples.shown(
            examples.SUBMITTED, "Accepted and stored; a batch is answered by a list in its order."
        ),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
)
async def submit(
    here: Here,
    user: Submitter,
    sent: Annotated[tuple[list[JobSpec], bool], Depends(SentJobs())],
    key: _Key = None,
) -> Submitted | SubmittedBatch:
    """Take a job, or all of a batch or none. The answer is the promise; the jobs are safe once it is given."""
    specs, batch = sent
    here.check_specs(user, specs)
    taken = await here.backend.submit(specs, user.user, key)
    return SubmittedBatch(jobs=taken) if batch else taken[0]


@router.post(
    "/quote",
    summary="Ask what a job would be promised",
    operation_id="quote",
    responses={
        200: examples.shown(examples.QUOTE, "The promise; nothing is submitted."),
        **failing(400, 401, 403, 413, 415, 422, 503),
    },
)
async def quote(here: Here, user: Submitter, spec: Annotated[JobSpec, Depends(Sent(JobSpec))]) -> Quote:
    """Play the present state forward with the job in it, without submitting it."""
    return await here.seen_by(user).quote(spec, user.user)


@router.post(
    "/what-if",
    summary="Ask what a change would bring",
    operation_id="what_if",
    responses={
        200: examples.shown(examples.WHAT_IF, "Who finishes when, before and after; nothing is changed."),
        **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
    },
)
async def what_if(
    here: Here, user: Submitter, asked: Annotated[WhatIfSpec, Depends(Sent(WhatIfSpec))]
) -> WhatIfView:
    """Play the present state forward twice, as it is and with these changes."""
    return await here.seen_by(user).what_if(asked, user.user)


@router.get(
    "/accuracy",
    summary="How well promises held",
    operation_id="get_accuracy",
    responses={
        200: examples.shown(examples.ACCURACY, "The figures."),
        **failing(400, 401, 403, 422, 503),
    },
)
async def get_accuracy(here: Here, caller: Viewer, asked: Annotated[AccuracyQuery, Query()]) -> AccuracyView:
    """The promises of jobs that finished in a period beside the truth, users' estimates and a simple baseline."""
    return await here.seen_by(caller).accuracy(asked.since_s, asked.until_s, asked.by, asked.promises)


@router.get(
    "/usage",
    summary="What jobs used",
    operation_id="get_usage",
    responses={
        200: examples.shown(examples.USAGE, "The figures."),
        **failing(401, 403, 422, 503),
    },
)
async def get_usage(here: Here, caller: Viewer, asked: Annotated[UsageQuery, Query()]) -> UsageView:
    """Jobs, hours of units, cores and GPUs, money and the mean wait, of what ran in a period."""
    return await here.seen_by(caller).usage(asked.since_s, asked.until_s, asked.by)


@router.get(
    "/jobs/{job_id:job}/efficiency",
    summary="What a job used of what it asked for",
    operation_id="get_efficiency",
    responses={
        200: examples.shown(examples.EFFICIENCY, "The figures, and what to ask for next time."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def get_efficiency(job_id: JobId, here: Here, caller: Viewer) -> EfficiencyView:
    """Cores, memory and time that its ended runs used of what they had; of an array, of all of it."""
    await here.permitted(caller, "read", [job_id])
    return await here.backend.efficiency(job_id)


@router.get(
    "/jobs/{job_id:job}/curves",
    summary="What a run uses over its time",
    operation_id="get_curves",
    responses={
        200: examples.shown(examples.CURVES, "Cores and memory since its start, beside what it has of them."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def get_curves(
    job_id: JobId, here: Here, caller: Viewer, asked: Annotated[RunQuery, Query()]
) -> CurvesView:
    """Cores and memory in use, measured every few seconds while a run goes on, and kept as long as its output."""
    await here.permitted(caller, "read", [job_id])
    return await here.backend.curves(job_id, asked.attempt, asked.rank)


@router.get(
    "/jobs",
    summary="List jobs",
    operation_id="list_jobs",
    responses={
        200: examples.shown(examples.JOBS, "Newest first; `following` is the next page's `after`."),
        **failing(401, 403, 422, 503),
    },
)
async def list_jobs(here: Here, caller: Viewer, asked: Annotated[JobQuery, Query()]) -> Page[JobView]:
    """Jobs of any status, newest first, filtered and in pages."""
    page = await here.seen_by(caller).jobs(asked.which())
    return page.model_copy(update={"items": [job_for(here, caller, job) for job in page.items]})


@router.get(
    "/jobs/{job_id:job}",
    summary="A job's story",
    operation_id="get_job",
    responses={
        200: examples.shown(examples.STORY, "What was asked for, promised, run, and what happened."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def get_job(job_id: JobId, here: Here, caller: Viewer) -> JobStory:
    """Everything about a job."""
    await here.permitted(caller, "read", [job_id])
    return story_for(here, caller, await here.seen_by(caller).job(job_id))


@router.get(
    "/jobs/{job_id:job}/helps",
    summary="What would help a waiting job",
    operation_id="get_helps",
    responses={
        200: examples.shown(
            examples.HELPS, "Changes with which it would be done earlier; nothing is changed."
        ),
        **failing(401, 403, 404, 422, 503),
    },
)
async def get_helps(
    job_id: JobId, here: Here, caller: Viewer, asked: Annotated[HelpsQuery, Query()]
) -> HelpsView:
    """Play the present state forward with each of the obvious changes, until the job is done."""
    await here.permitted(caller, "read", [job_id])
    return await here.backend.helps(job_id, asked.within_s)


@router.get(
    "/jobs/{job_id:job}/wait",
    summary="Wait until a job is over",
    operation_id="wait_for_job",
    responses={
        200: examples.shown(examples.JOB, "The job, over or not: look at its status."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def wait_for_job(
    job_id: JobId, here: Here, caller: Viewer, asked: Annotated[WaitQuery, Query()]
) -> JobView:
    """The job once it is over, or as it is when the time is up: then ask again."""
    await here.permitted(caller, "see", [job_id])
    job = await wait_until_over(here, job_id, asked.timeout_s)
    return job_for(here, caller, here.seen_by(caller).shown(job))


def _steering(verb: Action, summary: str, description: str) -> None:
    """The two routes of something that is done to jobs: one, and several at once."""

    async def one(job_id: JobId, here: Here, user: Submitter) -> JobView:
        return (await here.backend.steer(verb, await here.permitted(user, "steer", [job_id]), user.user))[0]

    async def several(
        here: Here, user: Submitter, asked: Annotated[JobNumbers, Depends(Sent(JobNumbers))]
    ) -> JobList:
        numbers = await here.permitted(user, "steer", list(dict.fromkeys(asked.jobs)), asked.where_possible)
        return JobList(jobs=await here.backend.steer(verb, numbers, user.user, asked.where_possible))

    router.post(
        f"/jobs/{{job_id:job}}/{verb}",
        summary=f"{summary} a job",
        description=description,
        operation_id=f"{verb}_job",
        responses={
            200: examples.shown(examples.JOB, "The job as it is now."),
            **failing(401, 403, 404, 409, 422, 503),
        },
    )(one)
    router.post(
        f"/jobs/{verb}",
        summary=f"{summary} several jobs",
        description=f"{description} All of them, or none; or, where_possible, those to which it can be done.",
        operation_id=f"{verb}_jobs",
        responses={
            200: examples.shown(examples.JOB_LIST, "The jobs as they are now."),
            **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
        },
    )(several)


_steering("cancel", "Cancel", "A queued job never starts; a running one is stopped within its grace period.")
_steering("hold", "Hold", "Keep a job that has not started from starting.")
_steering(
    "requeue", "Requeue", "A running job is stopped within its grace period, and starts again in its turn."
)
_steering("suspend", "Suspend", "A running job stands still, and keeps its units.")
_steering("resume", "Resume", "Let a suspended job go on.")
_steering("release", "Release", "Let a held job start when its turn comes.")


@router.post(
    "/jobs/{job_id:job}/edit",
    summary="Change a job",
    operation_id="edit_job",
    responses={
        200: examples.shown(examples.JOB, "The job as it is now, with its new promise."),
        **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
    },
)
async def edit_job(
    job_id: JobId, here: Here, user: Submitter, changes: Annotated[JobChanges, Depends(Sent(JobChanges))]
) -> JobView:
    """Change what a job asks for: all of it while it waits; name, labels, priority, estimate and limit as it runs."""
    return (await here.backend.edit(await here.permitted(user, "steer", [job_id]), changes, user.user))[0]


@router.post(
    "/jobs/edit",
    summary="Change several jobs",
    operation_id="edit_jobs",
    responses={
        200: examples.shown(examples.JOB_LIST, "The jobs as they are now."),
        **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
    },
)
async def edit_jobs(
    here: Here, user: Submitter, asked: Annotated[JobEdits, Depends(Sent(JobEdits))]
) -> JobList:
    """Make the same changes of several jobs: of all, or of none; or, where_possible, of those that allow it."""
    numbers = await here.permitted(user, "steer", list(dict.fromkeys(asked.jobs)), asked.where_possible)
    return JobList(jobs=await here.backend.edit(numbers, asked.changes, user.user, asked.where_possible))


@router.post(
    "/jobs/signal",
    summary="Send a signal to several jobs",
    operation_id="signal_jobs",
    responses={
        200: examples.shown(examples.JOB_LIST, "The jobs as they are now."),
        **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
    },
)
async def signal_jobs(
    here: Here, user: Submitter, asked: Annotated[JobSignals, Depends(Sent(JobSignals))]
) -> JobList:
    """Send a signal to the runs of jobs, of all or of none; or, where_possible, of those that run."""
    numbers = await here.permitted(user, "steer", list(dict.fromkeys(asked.jobs)), asked.where_possible)
    sent = await here.backend.signal(numbers, asked.signal, asked.to, user.user, asked.where_possible)
    return JobList(jobs=sent)


async def _attempt(job_id: JobId, here: Here, token: RunToken) -> int:
    """The number of the job's run to which the token belongs; raises Rejected where it belongs to none."""
    named = attempt_of(token)
    if named is None or not here.backend.check_run_token(job_id, named, token):
        if here.tokens.caller(token) is None and named is None:
            raise Unauthenticated("this is no run's token; a job finds its own in BETIMES_RUN_TOKEN")
        raise Rejected(403, "not-allowed", f"the token is not that of a run of job {job_id}")
    return named


@router.post(
    "/jobs/{job_id:job}/progress",
    summary="Report a run's progress",
    operation_id="report_progress",
    status_code=204,
    responses={
        204: {"description": "Noted; later predictions rest on it."},
        **failing(400, 401, 403, 404, 409, 413, 422, 503),
    },
)
async def report_progress(
    job_id: JobId,
    here: Here,
    named: Annotated[int, Depends(_attempt)],
    report: Annotated[ProgressReport, Depends(Sent(ProgressReport, any_type=True))],
) -> None:
    """Called by the job itself, with the token that it finds in BETIMES_RUN_TOKEN. Any Content-Type will do."""
    if report.attempt not in (None, named):
        message = f"attempt: the token is that of attempt {named}, not of {report.attempt}"
        raise Rejected(403, "not-allowed", message, "attempt")
    await here.backend.progress(job_id, named, report.done, report.total)
