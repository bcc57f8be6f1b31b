"""Promises from a forecast, and the cost of waiting against renting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from betimes.cluster import Offer
from betimes.cluster.billing import Prices, lease_usd
from betimes.errors import Refused
from betimes.service.engines.messages import Foreseen, LeaseAhead, Play
from betimes.service.runtime.to_views import quote_view
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import ENDS, Forecast, cost_usd
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.wait_reasons import WaitReasons
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
        believed_at = forecast.believed_end_at(job.job_id)
        found = errors.around(
            job, scheduler.now_at, start_at, finish_at, queue, earliest_at, believed_at
        ).fields
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
    believed_at = math.nan if waiting.forecast is None else waiting.forecast.believed_end_at(job.job_id)
    around = scheduler.ledger.promise_errors.around(
        job, scheduler.now_at, start_at, finish_at, queue, earliest_at, believed_at
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
    number = scheduler.quoted(row, queue, around.learned, earliest_at, believed_at)
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
    if not offers:
        return list
    new = scheduler.admission.unsubmitted(spec, user, made_at)
    if new.trials is not None or scheduler.keeps_from_queueing(new, made_at) is not None:
        return list
    epoch_at, policy = scheduler.ledger.epoch_at, scheduler.ledger.policy
    taken = scheduler.foresee(made_at, new)
    plays: list[tuple[What, Play]] = []
    for what, choice in CHOICES.items():
        try:
            chosen = scheduler.admission.unsubmitted(spec.model_copy(update={"rent": choice}), user, made_at)
            plays.append((what, scheduler.foresee(made_at, chosen)))
        except Refused:  # no owned or offered machine holds it
            continue
    owned_usd = cost_usd(
        spec, new.runtime_estimate_s, [node for node in scheduler.ledger.nodes.values() if node.is_shared]
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
        rents = len(chosen.leases) > 0
        if not rents and start_s + epoch_at - made_at < AT_ONCE_S:
            return []
        outcomes: dict[What, Foreseen] = {what: play() for what, play in plays}
        at_once = "rent now" in outcomes and chosen_finish_s - outcomes["rent now"].of(0)[1] < AT_ONCE_S
        rents_now = rents and (foresees or at_once)
        if rents:  # now, or after it has waited as long as the policy sets
            outcomes["rent now" if rents_now else "wait"] = chosen
        found: list[QuoteOption] = []
        for what, foreseen in outcomes.items():
            start_s, finish_s = foreseen.of(0)
            leases = foreseen.leases
            if not math.isfinite(finish_s) or (what == "rent now" and not leases):
                continue
            is_taken = rents_now == (what == "rent now")
            found.append(
                QuoteOption(
                    what=what,
                    start_at=start_s + epoch_at,
                    finish_at=finish_s + epoch_at,
                    cost_usd=_cost_usd(leases, offers, owned_usd),
                    instance_type=offers[leases[-1].offer].type if leases else None,
                    is_taken=is_taken,
                    why=why if is_taken else None,
                )
            )
        return found

    return find


def _cost_usd(leases: Sequence[LeaseAhead], offers: Sequence[Offer], owned_usd: float | None) -> float | None:
    """Cost of all runs of a job, speculative ones included; null: no price is known. owned_usd: of a last run there."""
    if not leases:
        return owned_usd
    found = 0.0 if leases[-1].is_last else owned_usd or 0.0
    for lease in leases:
        offer = offers[lease.offer]
        since_s = offer.billing.since_s(lease.requested_s, lease.booted_s)
        prices = Prices(offer.charged_usd_per_h)
        found += float(lease.count * lease_usd(offer.billing, prices, since_s, lease.ended_s))
    return found
