"""What jobs are promised, out of a forecast: each promise is logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from betimes.service.runtime.views.to_views import quote_view
from betimes.service.scheduling.forecasts import cost_usd
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.reasons import WaitReasons
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.views.models import Quote, QuoteOption


def promise(
    scheduler: Scheduler, waiting: WaitReasons, numbers: Sequence[int], options: Sequence[QuoteOption] = ()
) -> list[Quote]:
    """Promise jobs when they will be done, by the forecast of `waiting`; those that may not queue yet have to wait."""
    jobs = scheduler.ledger.jobs
    live = [jobs[n] for n in numbers if n in jobs and jobs[n].account is not None]
    return [_promise(scheduler, waiting, job, options) for job in live]


def _promise(scheduler: Scheduler, waiting: WaitReasons, job: Job, options: Sequence[QuoteOption]) -> Quote:
    start_at, finish_at = (None, None) if waiting.forecast is None else waiting.forecast.times(job.job_id)
    reason = waiting.why(job) if job.status is Status.QUEUED else job.reason
    if reason is not None and options:  # which are the evidence for its waiting, or being rented a machine
        shown = [option.model_dump(mode="json") for option in options]
        reason = {**reason, "evidence": {**reason["evidence"], "options": shown}}
    taken = next((option for option in options if option.is_taken), None)
    row: dict[str, Any] = {
        "job_id": job.job_id,
        "made_at": scheduler.now_at,
        "policy": scheduler.ledger.policy,
        "start_at": start_at,
        "finish_at": finish_at,
        "cost_usd": cost_usd(job.spec, job.believed_s, scheduler.ledger.nodes.values())
        if taken is None
        else taken.cost_usd,
        "run_s": job.believed_s,
        "basis": job.basis,
        "reason": reason,
    }
    number = scheduler.quoted(row)
    return quote_view({**row, "quote_id": number})
