"""Promises from a forecast, and the cost of waiting against renting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from betimes.cluster import Offer
from betimes.errors import Refused
from betimes.service.engines.messages import Foreseen, Play
from betimes.service.runtime.to_views import quote_view
from betimes.service.scheduling.admission import rented_usd
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import ENDS, Forecast, cost_usd
from betimes.service.scheduling.reasons import WaitReasons
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Quote, QuoteOption


def promise(
    scheduler: Scheduler, waiting: WaitReasons, numbers: Sequence[int], options: Sequence[QuoteOption] = ()
) -> list[Quote]:
    """Promise jobs an end by the forecast of `waiting`; jobs that it does not know get theirs later."""
    jobs = scheduler.ledger.jobs
    if waiting.forecast is not None:
        _note_broken(scheduler, waiting.forecast)
    known = waiting.forecast.knows if waiting.forecast is not None else lambda _: False
    live = [jobs[n] for n in numbers if n in jobs and (jobs[n].account is not None or known(n))]
    return [_promise(scheduler, waiting, job, options) for job in live]


def _note_broken(scheduler: Scheduler, forecast: Forecast) -> None:
    errors, queue = scheduler.ledger.promise_errors, scheduler.queue
    scheduler.promises.note_never(forecast, rents=scheduler.rents)
    for job, finish_at in list(scheduler.promises.overtaken(forecast)):
        start_at, _ = forecast.times(job.job_id)
        earliest_at = scheduler.earliest_at(job, scheduler.now_at)
        found = errors.around(job, scheduler.now_at, start_at, finish_at, queue, earliest_at).fields
        if found:
            scheduler.promises.note_foreseen(job, finish_at, found["finish_low_at"])


def _promise(scheduler: Scheduler, waiting: WaitReasons, job: Job, options: Sequence[QuoteOption]) -> Quote:
    start_at, finish_at = (None, None) if waiting.forecast is None else waiting.forecast.times(job.job_id)
    reason = waiting.why(job) if job.status is Status.QUEUED else job.reason
    if reason is not None and options:  # the evidence for its wait, or for renting a machine
        shown = [
            option.model_dump(mode="json")
            for option in with_intervals(scheduler, job, options, scheduler.now_at)
        ]
        reason = {**reason, "evidence": {**reason["evidence"], "options": shown}}
    taken = next((option for option in options if option.is_taken), None)
    queue, earliest_at = scheduler.queue, scheduler.earliest_at(job, scheduler.now_at)
    around = scheduler.ledger.promise_errors.around(
        job, scheduler.now_at, start_at, finish_at, queue, earliest_at
    )
    run_s, basis = scheduler.ledger.promise_errors.takes(job, scheduler.now_at)
    row: dict[str, Any] = {
        "job_id": job.job_id,
        "made_at": scheduler.now_at,
        "policy": scheduler.ledger.policy,
        "start_at": start_at,
        "finish_at": finish_at,
        **around.fields,
        "cost_usd": scheduler.cost_usd(job.spec, run_s) if taken is None else taken.cost_usd,
        "run_s": run_s,
        "basis": basis,
        "reason": reason,
    }
    number = scheduler.quoted(row, queue, around.learned, earliest_at)
    return quote_view({**row, "quote_id": number})


def with_intervals(
    scheduler: Scheduler, job: Job, options: Sequence[QuoteOption], made_at: float
) -> list[QuoteOption]:
    """A job's options with the intervals around their ends, as far as these are known."""
    errors, queue = scheduler.ledger.promise_errors, scheduler.queue
    earliest_at = scheduler.earliest_at(job, made_at)
    around = [
        errors.around(job, made_at, one.start_at, one.finish_at, queue, earliest_at).fields for one in options
    ]
    return [
        option.model_copy(update={name: ends[name] for name in ENDS if ends})
        for option, ends in zip(options, around, strict=True)
    ]


AT_ONCE_S = 1.0  # a start that is no further away is shown as "now"

What = Literal["wait", "rent now"]
CHOICES: dict[What, Literal["never", "now"]] = {"wait": "never", "rent now": "now"}


def find_options(
    scheduler: Scheduler, made_at: float, spec: JobSpec, user: str
) -> Callable[[], list[QuoteOption]]:
    """The search for the options of a job submitted now: a slow function for any thread.

    It finds none where the policy rents nothing, or where the job does not queue at once, or starts at once on an owned
    machine. Raises Refused and Unknown for the job.
    """
    offers = scheduler.offers_for_jobs
    believed = scheduler.ledger.runtime_estimates.believed(user, spec)
    new = Job(0, spec, user, made_at, *believed)
    if not offers or spec.as_one or scheduler.keeps_from_queueing(new, made_at) is not None:
        return list
    epoch_at, policy = scheduler.ledger.epoch_at, scheduler.ledger.policy
    taken, _ = scheduler.foresee(made_at, spec, user)
    plays: list[tuple[What, Play]] = []
    for what, choice in CHOICES.items():
        try:
            plays.append(
                (what, scheduler.foresee(made_at, spec.model_copy(update={"rent": choice}), user)[0])
            )
        except Refused:  # no owned or offered machine holds it
            continue
    owned_usd = cost_usd(
        spec, believed.seconds, [node for node in scheduler.ledger.nodes.values() if node.is_shared]
    )
    foresees = scheduler.engine.foresees
    why = (
        f"as the policy decides ({policy})"
        if spec.rent == "auto"
        else f"as the job asks (rent = {spec.rent})"
    )

    def find() -> list[QuoteOption]:
        chosen = taken()
        start_s, chosen_finish_s = chosen.of(0)
        rents = chosen.offer_of(0) >= 0
        if not rents and start_s + epoch_at - made_at < AT_ONCE_S:
            return []
        outcomes: dict[What, Foreseen] = {what: play() for what, play in plays}
        at_once = "rent now" in outcomes and chosen_finish_s - outcomes["rent now"].of(0)[1] < AT_ONCE_S
        rents_now = rents and (foresees or at_once)
        if rents and not rents_now:  # it waits as long as the policy sets, and a machine is rented then
            outcomes["wait"] = chosen
        found: list[QuoteOption] = []
        for what, foreseen in outcomes.items():
            start_s, finish_s = foreseen.of(0)
            number = foreseen.offer_of(0)
            if not math.isfinite(finish_s) or (what == "rent now" and number < 0):
                continue
            is_taken = rents_now == (what == "rent now")
            found.append(
                QuoteOption(
                    what=what,
                    start_at=start_s + epoch_at,
                    finish_at=finish_s + epoch_at,
                    cost_usd=_rented_usd(spec, offers[number], foreseen) if number >= 0 else owned_usd,
                    instance_type=offers[number].type if number >= 0 else None,
                    is_taken=is_taken,
                    why=why if is_taken else None,
                )
            )
        return found

    return find


def _rented_usd(spec: JobSpec, offer: Offer, foreseen: Foreseen) -> float:
    start_s, finish_s = foreseen.of(0)
    return rented_usd(spec, offer, finish_s - start_s)
