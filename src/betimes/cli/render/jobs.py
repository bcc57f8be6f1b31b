"""Promises and jobs in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from betimes.cli.render.times import both, clock, sentence
from betimes.service.spec.spelling import job_number
from betimes.units import length, usd, within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from betimes.service.views.ends import HasEnd
    from betimes.service.views.models import Estimate, JobView, Quote, QuoteOption, Submitted

BASES = {
    "estimate": "as you estimated",
    "progress": "by the progress that it reports",
    "last-two": "the mean of its last two runs",
    "planned": "its time limit, with which Slurm plans",
    "default": "the default, as it has no estimate; give one with --estimate 2h",
    "alike": "as long as jobs like it took",
    "limit": "its time limit",
    "doubled": "twice its estimate, which it outran",
    "grace": "its grace period, as it is cancelled",
}
_STANDING = {
    "running": "running",
    "stopping": "running",
    "queued": "waiting",
    "blocked": "waiting",
    "held": "held",
}
SAME_S = 1e-3  # instants that are no further apart are one
FEW = "few jobs like this one yet"
NO_QUOTE = "no promise yet: it is held, or depends on another job"


def units(least: int, most: int) -> str:
    """`1 unit`, `4 units`."""
    return f"{least}-{most} units" if least != most else f"{most} unit{'' if most == 1 else 's'}"


def node_seconds(number: float) -> str:
    """A cost to the cluster: `12.5 node-s`; whole from a hundred on."""
    return f"{number:,.3g} node-s" if number < 100 else f"{number:,.0f} node-s"


def promise_pairs(submitted: Submitted, widest: int, at_now: float) -> list[tuple[str, str]]:
    """A job's promise at submission, line by line, or the reason why there is none yet."""
    if submitted.quote is None:
        return [("starts", no_promise(submitted, at_now)), *note_pairs(submitted)]
    return [*quote_pairs(submitted.quote, widest, at_now), *note_pairs(submitted)]


def note_pairs(answer: Submitted | Quote) -> list[tuple[str, str]]:
    """Notes for the user about the answer, and whether the command is executed."""
    return [("note", text) for text in (answer.note, answer.not_run) if text is not None]


def no_promise(submitted: Submitted, at_now: float) -> str:
    """The reason why an accepted job has no promise yet."""
    if submitted.reason is None:
        return NO_QUOTE
    is_in_vain = submitted.reason.code == "dependency-failed"
    begin = "never, it is cancelled" if is_in_vain else "no promise yet"
    return f"{begin}: {sentence(submitted.reason.text, at_now)}"


def quote_pairs(quote: Quote, widest: int, at_now: float) -> list[tuple[str, str]]:
    """A promise, line by line: start, reason for a wait, end, source of the run time, cost."""
    pairs = [("starts", starts(quote, at_now))]
    if quote.reason is not None:
        pairs.append(("why", sentence(quote.reason.text, at_now)))
    pairs.append(("done", done(quote, quote.made_at, at_now) + _of_elements(quote)))
    pairs += option_pairs(quote, at_now)
    basis = BASES.get(quote.basis, quote.basis)
    pairs.append(("run time", f"{length(quote.run_s)} on {units(widest, widest)}: {basis}"))
    if quote.cost_usd is not None:
        pairs.append(("cost", usd(quote.cost_usd)))
    return pairs


def done(end: HasEnd, made_at: float, at_now: float) -> str:
    """A promised end and its interval: `14:05, in 2 h (13:50 to 14:40)`, `14:05, in 2 h; by 18:00 (90 % sure)`."""
    if end.finish_at is None:
        return "not known"
    if end.level is None:
        return f"{both(end.finish_at, at_now)} ({FEW})"
    ends = between(end.finish_low_at, end.finish_high_at, made_at, end.level, at_now)
    return f"{both(end.finish_median_at, at_now)}{ends}"


def between(
    low_at: float | None,
    high_at: float | None,
    from_at: float,
    level: float | None,
    at_now: float,
    *,
    alone: bool = False,
) -> str:
    """The ends of an interval in local time, as `units.within` says them; empty where there is none."""
    if low_at is None or high_at is None or level is None:
        return ""
    return within(low_at, high_at, from_at, level, lambda at: clock(at, at_now), alone=alone)


def expected_within(estimate: Estimate, at_now: float, *, alone: bool = False) -> str:
    """The interval of a job's end as of now, as `between`."""
    ends = estimate.finish_low_at, estimate.finish_high_at
    return between(*ends, estimate.as_of_at, estimate.level, at_now, alone=alone)


def expected_start_within(estimate: Estimate, at_now: float) -> str:
    """Likewise of its start; empty where that is at once."""
    low_at, high_at = estimate.start_low_at, estimate.start_high_at
    return "" if low_at == high_at else between(low_at, high_at, estimate.as_of_at, estimate.level, at_now)


def first_promised(job: JobView, at_now: float, *, alone: bool = False) -> str:
    """The interval of a job's first promise, as `between`."""
    ends = job.promised_low_at, job.promised_high_at
    return between(*ends, job.submitted_at, job.promised_level, at_now, alone=alone)


def promised(job: JobView, at_now: float) -> str:
    """A job's first promise, and whether it was kept: `14:05 (13:50 to 14:40); was done 14:12: kept`."""
    if job.promised_finish_at is None:
        return ""
    finished_at = job.finished_at if job.status == "finished" else None
    if job.promised_median_at is None or job.promised_low_at is None or job.promised_high_at is None:
        text = clock(job.promised_finish_at, at_now)
        late_s = None if finished_at is None else finished_at - job.promised_finish_at
        return text if late_s is None else f"{text}; it was done {off_by(late_s)}"
    text = f"{clock(job.promised_median_at, at_now)}{first_promised(job, at_now)}"
    if finished_at is None:
        return text
    was = "kept"
    if finished_at < job.promised_low_at - SAME_S:
        was = "earlier than that"
    elif finished_at > job.promised_high_at + SAME_S:
        was = "later than that"
    return f"{text}; was done {clock(finished_at, at_now)}: {was}"


def option_pairs(quote: Quote, at_now: float) -> list[tuple[str, str]]:
    """The options of a job under a policy that rents, the one chosen, and the reason."""
    if not quote.options:
        return []
    pairs = [("options", "; ".join(_option(option, at_now) for option in quote.options))]
    for taken in quote.options:
        if taken.is_taken:
            machine = f", a machine of type {taken.instance_type}" if taken.instance_type else ""
            pairs.append(("taken", f"{taken.what}{machine}: {taken.why}"))
    return pairs


def _option(option: QuoteOption, at_now: float) -> str:
    """`rent now: 13:05, $1.92`."""
    cost = f", {usd(option.cost_usd)}" if option.cost_usd is not None else ""
    return f"{option.what}: {clock(option.finish_at, at_now)}{cost}"


def _of_elements(quote: Quote) -> str:
    """The part of an array that a promise is for, if not all."""
    if quote.elements is None:
        return ""
    if quote.job_id is None:
        return ", for one element of the array"
    return f", for {quote.elements} of the elements; the others get a promise once they are queued"


def starts(quote: Quote, at_now: float) -> str:
    """The promised start, and its interval where it is not at once: `12:05, in 12 min (11:55 to 12:40)`."""
    if quote.start_at is None and quote.reason is not None and quote.reason.code == "observed":
        return "not known"
    if quote.start_at is None:
        return f"never under {quote.policy}, unless the load or the nodes change"
    if quote.start_at - at_now >= 1.0:
        at = quote.start_at if quote.start_median_at is None else quote.start_median_at
        ends = between(quote.start_low_at, quote.start_high_at, quote.made_at, quote.level, at_now)
        return f"{both(at, at_now)}{ends}"
    return "now" if quote.reason is None else f"{clock(quote.start_at, at_now)}, any moment"


def title(job_ids: list[int], name: str) -> str:
    """`Job 41, train`, `Jobs 41 to 140, sweep`."""
    if len(job_ids) == 1:
        return f"Job {job_ids[0]}, {name}"
    is_run = job_ids[-1] - job_ids[0] + 1 == len(job_ids)
    which = f"{job_ids[0]} to {job_ids[-1]}" if is_run else f"{job_ids[0]}, ... {job_ids[-1]}"
    return f"Jobs {which}, {name}"


def job_name(job: JobView) -> str:
    """A job's name, with its place in an array."""
    return job.name if job.array_index is None else f"{job.name}[{job.array_index}]"


def standing(statuses: Iterable[str]) -> str:
    """Counts of jobs that are not over, by status: `jobs: 3 running, 12 waiting, 93 held`."""
    kinds = Counter(_STANDING[status] for status in statuses)
    counts = [f"{kinds[kind]:,} {kind}" for kind in ("running", "waiting", "held") if kinds[kind]]
    return f"jobs: {', '.join(counts) or 'none'}"


def against_promise(job: JobView, at_now: float) -> str:
    """The end of a job, and its difference from the first promise: one line."""
    text = f"Job {job_number(job.job_id)}, {job_name(job)}: {job.status}"
    if job.finished_at is not None:
        text += f" at {clock(job.finished_at, at_now)}"
        at = job.promised_finish_at if job.promised_median_at is None else job.promised_median_at
        if at is not None and job.status == "finished":
            text += f", {off_by(job.finished_at - at)}"
    if job.status != "finished" and job.reason is not None and job.reason.text != job.status:
        text += f": {sentence(job.reason.text, at_now)}"
    return text


def off_by(seconds: float) -> str:
    """`2 min later than promised`, `as promised`."""
    if abs(seconds) < 1.0:
        return "as promised"
    return f"{length(abs(seconds))} {'later' if seconds > 0 else 'earlier'} than promised"
