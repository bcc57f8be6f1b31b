"""`--by`: the instant by which a job is to be done, how probable that is, and the cheapest plan that makes it so."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from betimes.service.views.models import Quote, QuoteOption

FORMS = "write 18:00, tomorrow 9:00, +3h, or a date and time as in 2026-11-27T18:00+01:00"
PROBABILITY = 0.9  # to be reached by a plan
SLACK_S = 1.0  # added to times whose logarithms are compared
RENT = {"wait": "never", "rent now": "now"}  # the field that makes a plan so
_CLOCK = re.compile(r"(?:(today|tomorrow)\s+)?(\d{1,2}):(\d\d)(?::(\d\d))?")


class Deadline(NamedTuple):
    """An instant, s since 1970, or a time from the promise on, s; and the probability that a plan must reach."""

    text: str
    at: float | None
    in_s: float | None
    wanted: float = PROBABILITY

    def as_of(self, made_at: float) -> float:
        """The instant for a promise made at `made_at`. Raises InputError if that is not after it."""
        from betimes.cli.render.times import is_replayed

        if self.at is None:
            return made_at + (self.in_s or 0.0)
        if is_replayed(made_at):
            raise InputError(
                f"--by {self.text}: the service replays a trace, which has no dates; write --by +3h"
            )
        if self.at <= made_at:
            raise InputError(f"--by {self.text}: that has passed; give a later time")
        return self.at


class Chance(NamedTuple):
    """The probability that a job is done in time; null: few jobs like it are known yet."""

    probability: float | None
    finish_at: float | None
    cost_usd: float | None
    what: str | None  # of an option; null: as it stands


class Outlook(NamedTuple):
    """The answer to a deadline."""

    by_at: float
    earliest_at: float  # before that it certainly does not begin
    stands: Chance  # the job as asked for
    options: list[Chance]  # where a machine may be rented
    wanted: float  # probability
    plan: Chance | None  # the cheapest option that reaches it
    is_of_part: bool = False  # the promise is not that of all elements of the array

    def as_json(self) -> dict[str, Any]:
        """The field `by` of an answer."""
        return {
            "by_at": self.by_at,
            "probability": self.stands.probability,
            "wanted_probability": self.wanted if self.options else None,  # of a plan, where there is a choice
            "options": [one._asdict() for one in self.options],
            "plan": self.plan.what if self.plan is not None else None,
        }


def _parsed(text: str, now_at: float) -> Deadline:
    """An instant; wall-clock times are of this machine's zone. Raises InputError."""
    from betimes.units import parse_duration

    text = text.strip()
    clock = _CLOCK.fullmatch(text)
    try:
        if text.startswith("+"):
            in_s = parse_duration(text[1:])
            if in_s <= 0.0:
                raise InputError(f"--by {text}: that is now; give a later time")
            return Deadline(text, None, in_s)
        if clock is not None:
            at = _next(clock, text, now_at)
        else:
            when = datetime.fromisoformat(text)
            if len(text) <= len("2026-11-27"):
                raise ValueError("no time of day")
            at = when.timestamp() if when.tzinfo is not None else _local(when, text)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"--by {text[:40]!r}: {FORMS}") from None
    if at <= now_at:
        raise InputError(f"--by {text}: that has passed; give a later time")
    return Deadline(text, at, None)


def _next(clock: re.Match[str], text: str, now_at: float) -> float:
    """The next such time of day, or that of the day named."""
    day, *parts = clock.groups()
    today = datetime.fromtimestamp(now_at).replace(microsecond=0)
    when = today.replace(hour=int(parts[0]), minute=int(parts[1]), second=int(parts[2] or 0))
    if day == "tomorrow" or (day is None and _latest(when) <= now_at):
        when += timedelta(days=1)
    return _local(when, text)


def _latest(when: datetime) -> float:
    return max(when.replace(fold=fold).timestamp() for fold in (0, 1))


def _local(when: datetime, text: str) -> float:
    """The instant of a wall-clock time here. Raises InputError where there are two of it, or none."""
    early, late = (when.replace(fold=fold).timestamp() for fold in (0, 1))
    if early == late:
        return early
    one, other = (datetime.fromtimestamp(at).astimezone().isoformat() for at in sorted((early, late)))
    why = (
        "comes twice that day, as clocks go back"
        if early < late
        else "is left out that day, as clocks go forward"
    )
    raise InputError(f"--by {text}: this time {why}; name the zone, as in {one} or {other}")


def deadline_of(by: str | None, probability: float | None) -> Deadline | None:
    """Read `--by` and `--probability`; null: neither is given. Raises InputError."""
    from betimes.cli.render.times import now

    if by is None and probability is None:
        return None
    if by is None:
        raise InputError("--probability: it goes with --by; say by when the job is to be done (--by 18:00)")
    wanted = PROBABILITY if probability is None else probability
    if not 0.0 < wanted < 1.0:
        raise InputError(f"--probability {wanted:g}: give one above 0 and below 1, such as 0.9")
    return _parsed(by, now())._replace(wanted=wanted)


def outlook(quote: Quote, deadline: Deadline) -> Outlook:
    """The probability that a job with this promise is done in time, as it stands and by its options.

    Raises InputError for a deadline that is not after the promise.
    """
    by_at = deadline.as_of(quote.made_at)
    earliest_at = quote.made_at if quote.earliest_at is None else quote.earliest_at
    options = [_chance(one, quote, by_at, earliest_at, one.what) for one in quote.options]
    reaching = [one for one in options if one.probability is not None and one.probability >= deadline.wanted]
    # Owned machines may have no price.
    plan = min(reaching, key=lambda one: one.cost_usd or 0.0, default=None)
    stands = _chance(quote, quote, by_at, earliest_at, None)
    return Outlook(by_at, earliest_at, stands, options, deadline.wanted, plan, quote.elements is not None)


def _chance(
    of: Quote | QuoteOption, quote: Quote, by_at: float, earliest_at: float, what: str | None
) -> Chance:
    ends = (of.finish_low_at, of.finish_median_at, of.finish_high_at)
    known = [at for at in ends if at is not None]
    found = None
    if by_at <= earliest_at:
        found = 0.0
    elif len(known) == len(ends) and quote.level is not None and quote.elements is None:
        from_at = max(quote.made_at, earliest_at)
        found = probability([at - from_at for at in known], quote.level, by_at - from_at)
    return Chance(found, of.finish_at, of.cost_usd, what)


def probability(ends_s: Sequence[float], level: float, by_s: float) -> float:
    """The probability of an end within `by_s`, given low, median and high: between low and high it is with `level`.

    Times count from the instant at which it may begin. Their logarithms are halves of two normal distributions around
    the median. Beyond the ends, where little has been seen, the rest falls off more slowly: as a power of the time.
    """
    from statistics import NormalDist

    low, median, high, at = (math.log(max(0.0, time_s) + SLACK_S) for time_s in (*ends_s, by_s))
    if at == median:
        return 0.5
    normal, tail = NormalDist(), (1.0 - level) / 2.0
    edge = normal.inv_cdf(1.0 - tail)
    width = high - median if at > median else median - low
    score = edge * abs(at - median) / width if width > 0.0 else math.inf
    beyond = 1.0 - normal.cdf(score)
    if score > edge:
        beyond = tail * math.exp(-normal.pdf(edge) / tail * (score - edge))
    return 1.0 - beyond if at > median else beyond


def pairs(found: Outlook, at_now: float, *, takes_plan: bool) -> list[tuple[str, str]]:
    """The outlook, line by line; takes_plan: the job is submitted as planned."""
    from betimes.cli.render.times import clock
    from betimes.units import usd

    label = f"by {clock(found.by_at, at_now)}"
    lines = [(label, f"done with a probability of {percent(found.stands.probability)}")]
    if found.stands.probability is None:
        lines = [(label, _without_interval(found))]
    if found.stands.probability is None or not found.options:
        return lines
    each = (
        ", ".join(filter(None, (f"{one.what}: {percent(one.probability)}", usd(one.cost_usd))))
        for one in found.options
    )
    lines.append(("plans", "; ".join(each)))
    if found.plan is None:
        lines.append(("plan", f"none reaches {found.wanted:.0%}"))
    else:
        which = f"{found.plan.what}, the cheapest that reaches {found.wanted:.0%}"
        lines.append(("plan", which if takes_plan else f"{which}; `betimes submit --rent auto` takes it"))
    return lines


def percent(frac: float | None) -> str:
    """`84%`; nothing is sure."""
    if frac is None:
        return "not known"
    return "more than 99%" if frac > 0.99 else "less than 1%" if frac < 0.01 else f"{frac:.0%}"


def _without_interval(found: Outlook) -> str:
    finish_at = found.stands.finish_at
    if finish_at is None:
        return "not known: it has no promise yet"
    if found.is_of_part:
        return "not known: the promise is not for all elements of the array"
    when = "before" if finish_at <= found.by_at else "after"
    return f"expected {when} that; how probably is not known: few jobs like this one yet"


def as_planned(fields: Mapping[str, Any], found: Outlook) -> dict[str, Any]:
    """The job with its machine rented, or not, as the plan has it; as it is where no plan reaches the probability."""
    return dict(fields) if found.plan is None else {**fields, "rent": RENT[found.plan.what or ""]}


def as_promised(found: Outlook, quote: Quote | None) -> Outlook:
    """The outlook of the job once it is submitted, by what it is promised then."""
    if quote is None:
        return found
    stands = _chance(quote, quote, found.by_at, found.earliest_at, None)
    return found._replace(stands=stands, is_of_part=quote.elements is not None)
