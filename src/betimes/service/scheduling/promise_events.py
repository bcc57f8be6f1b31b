"""The kinds of events about promises: made, void, broken."""

from __future__ import annotations

import math
from typing import Annotated, Any

from betimes.foresight.promise_model import Queue
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.kind import Data, Kind
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.promises import INTERVAL, PromiseErrors, judged
from betimes.units import instant, within


def void_promise(ledger: Ledger, job: Job) -> None:
    """A job's promise counts no more: something that it rested on has changed."""
    job.promised_finish_at = job.promised_within = job.judged = job.broken_until_at = job.quoted = None
    job.slurm_start_at = None
    ledger.promise_errors.void(job)


def _quoted(ledger: Ledger, event: Event, job: Job) -> None:
    quote = event.data["quote"]
    if job.promised_finish_at is None:
        job.promised_finish_at = event.data["finish_at"]
        if quote.get("level") is not None:
            job.promised_within = {name: quote[name] for name in INTERVAL}
    if job.judged is None:
        job.judged = judged(job, quote)
    job.quoted = {name: quote[name] for name in ("quote_id", "made_at", "start_at", "finish_at")}
    queue = Queue(*event.data.get("queue", (0, 0, 0.0)))  # earlier versions did not note it
    learned = event.data.get("learned")
    learned = None if learned is None else tuple(learned)
    earliest_at = event.data.get("earliest_at", quote["made_at"])
    believed_at = event.data.get("believed_at", math.nan)
    ledger.promise_errors.promised(job, quote, queue, learned, earliest_at, believed_at)


def _history_learned(ledger: Ledger, event: Event, _: Job | None) -> None:
    level = ledger.promise_errors.model.intervals.level
    ledger.promise_errors = PromiseErrors.from_json(event.data["model"])
    ledger.promise_errors.model.intervals.at_level(level)


def _promise_broken(_: Ledger, event: Event, job: Job) -> None:
    job.judged, job.broken_until_at = None, event.data["promise"]["until_at"]


def _slurm_planned(_: Ledger, event: Event, job: Job) -> None:
    job.slurm_start_at = event.data["start_at"]


def _quoted_words(data: Data) -> str:
    finish_at, quote = data["finish_at"], data["quote"]
    if finish_at is None:
        done = "never, unless the load or the nodes change"
    else:
        done = f"done {instant(finish_at) if quote.get('level') is None else _ends(quote)}"
    return done + (f"; {quote['reason']['text']}" if quote["reason"] else "")


def _ends(promise: Data) -> str:
    """The end of a promise that has an interval: its median, and that."""
    ends = promise["finish_low_at"], promise["finish_high_at"]
    return f"{instant(promise['finish_median_at'])}{within(*ends, promise['made_at'], promise['level'])}"


def _broken_words(data: Data) -> str:
    promise = data["promise"]
    if promise["finish_high_at"] is None:
        text = f"promised {instant(promise['finish_at'])}"
    else:
        text = f"promised {_ends(promise)}"
    why = f"; {data['because']}" if "because" in data else ""
    if data["finish_at"] is None:
        is_never = data["why"] == "never"
        return f"{text}; it is {'never done as things stand' if is_never else 'not done yet'}{why}"
    was = "was" if data["why"] == "ended" else "is expected to be"
    return f"{text}; it {was} done {instant(data['finish_at'])}{why}"


KINDS: dict[str, Kind[Ledger]] = {
    "history-learned": Kind(
        "what the finished jobs of another scheduler's accounting teach of run times and promises",
        _history_learned,
        lambda data: f"{data['jobs']:,} finished jobs",
        data={"model": str, "jobs": int},
    ),
    "slurm-planned": Kind(
        "Slurm, which is watched, was first seen to plan a start for a job that waits",
        _slurm_planned,
        lambda data: f"start {instant(data['start_at'])}",
        data={"start_at": float},
    ),
    "quoted": Kind(
        "a job was promised a start and an end",
        _quoted,
        _quoted_words,
        data={
            "quote": Annotated[dict[str, Any], "all of it, as the table of quotes has it"],
            "finish_at": float | None,
        },
        more={
            "queue": Annotated[
                tuple[int, int, float], "jobs that wait and run, and the part of the nodes in use"
            ],
            "learned": Annotated[list[Any], "what its interval was made of"],
            "earliest_at": float,
            "believed_at": Annotated[float, "its end if all jobs take as long as another scheduler plans"],
        },
    ),
    "promise-broken": Kind(
        "a job's end came after what was promised, or is sure to, as a node is away; a new one follows",
        _promise_broken,
        _broken_words,
        data={
            "why": str,
            "promise": Annotated[dict[str, Any], "the quote that was broken"],
            "finish_at": float | None,
        },
        more={"because": Annotated[str, "the node at fault"]},
    ),
}
