"""What stands on each page, read from its query string."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request

from betimes.errors import InputError
from betimes.page.drawing import Axis, Bar, Stretch, bar, dots, equally_likely, lanes, usage
from betimes.page.session import Session
from betimes.page.words import told_of
from betimes.service.api.limits import MOST_JOB_NUMBER
from betimes.service.runtime.page_reads import PageReads, Span
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.sbatch import command_line
from betimes.service.store.databases.schema import LIVE, OVER
from betimes.service.store.listing import Place
from betimes.service.views.models import By, JobFilter, JobView, Quote

ROWS = 50  # of a page of jobs
MOST_NODES = 40  # rows of a page of the timeline
MOST_USERS = 12  # rows of waiting jobs there
PAST_FRAC = 0.12  # of the queue's axis
SPANS_S = {"1h": 3600.0, "6h": 21_600.0, "1d": 86_400.0, "1w": 604_800.0}
SELECTIONS = 20
ACCOUNTS: tuple[By, ...] = ("user", "name", "policy", "horizon")
LEVEL = 0.8  # of an interval whose level is not known
STATES = {
    "live": [*LIVE],
    "running": ["running", "stopping"],
    "waiting": ["queued", "blocked"],
    "held": ["held"],
}
STATES |= {status: [status] for status in OVER} | {"over": [*OVER], "all": [*OVER, *LIVE]}


def whole(text: str | None, name: str, least: int = 0) -> int:
    """A number of the query. Raises InputError."""
    if (
        text is None
        or not (text.isascii() and text.isdigit())
        or not least <= int(text[:19]) <= MOST_JOB_NUMBER
    ):
        raise InputError(f"{name}: expected a whole number from {least} on, not {(text or '')[:40]!r}")
    return int(text)


def instant(text: str, name: str) -> float:
    """An instant of the query. Raises InputError."""
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not abs(at) < 1e11:
        raise InputError(f"{name}: expected seconds since 1970, not {text[:40]!r}")
    return at


def local_path(request: Request) -> str:
    """The path and query of a page, as `back` of a form."""
    query = f"?{request.url.query}" if request.url.query else ""
    return request.scope["path"].lstrip("/") + query or "./"


def safe_target(back: str) -> str:
    """A path below the pages: `back`, unless it leads elsewhere."""
    parts = urlsplit(back)
    leads_away = (
        parts.scheme
        or parts.netloc
        or back.startswith(("/", "\\"))
        or ".." in parts.path
        or ":" in parts.path
    )
    return "" if leads_away or any(ord(one) < 32 for one in back) else back


def ends_of(job: JobView) -> tuple[float, float, float] | None:
    """The low end, the median and the high end of when a job ends: the interval that it was promised, or three times
    the point that is expected, where that is out of the interval or there is none; null: not known.
    """
    expected_at = job.estimate.finish_at if job.estimate is not None else job.promised_finish_at
    if expected_at is None:
        return None
    low_at, median_at, high_at = job.promised_low_at, job.promised_median_at, job.promised_high_at
    if low_at is None or median_at is None or high_at is None or not low_at <= expected_at <= high_at:
        return expected_at, expected_at, expected_at
    return low_at, median_at, high_at


# --- the queue


async def queue(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """Who runs and who waits, in the order of the promised ends; or jobs that are over, newest first."""
    given = {
        name: request.query_params.get(name, "")[:200] for name in ("state", "user", "name", "label", "array")
    }
    chosen = given["state"] or "live"
    if chosen not in STATES:
        raise InputError(f"state: expected one of {', '.join(STATES)}, not {chosen[:40]!r}")
    wanted = JobFilter(
        status=[Status(status) for status in STATES[chosen]],
        user=given["user"] or None,
        name=given["name"] or None,
        array_id=whole(given["array"], "array", 1) if given["array"] else None,
        label=_labels(given["label"]),
        limit=ROWS,
    )
    after = request.query_params.get("after", "")
    now_at = reads.now_at
    following: str | None = None
    if set(STATES[chosen]) <= set(LIVE):
        found = await reads.queue(wanted, _place(after))
        rows, standing = [(row.job, row.folded, row.last_at) for row in found.rows], found.standing
        if found.following is not None:
            at, number = found.following
            following = f"{'' if at is None else repr(at)},{number}"
    else:
        cursor = whole(after, "after", 1) if after else None
        jobs = await reads.over(wanted.model_copy(update={"after": cursor}))
        rows, standing = [(job, {}, None) for job in jobs], {}
        following = str(jobs[-1].job_id) if len(jobs) == ROWS else None
    axis = _queue_axis([job for job, _, _ in rows], now_at)
    return {
        "title": "Queue",
        "given": given,
        "chosen": chosen,
        "standing": standing,
        "rows": [(job, folded, _bar(axis, now_at, job), last_at) for job, folded, last_at in rows],
        "axis": axis,
        "following": following,
        "is_first": not after,
        "back": local_path(request),
    }


def _labels(text: str) -> dict[str, str]:
    if not text:
        return {}
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"label: write it as NAME=VALUE, not {text[:40]!r}")
    return {name: value}


def _place(after: str) -> Place | None:
    if not after:
        return None
    at, _, number = after.rpartition(",")
    return instant(at, "after") if at else None, whole(number, "after", 1)


def _queue_axis(jobs: Sequence[JobView], now_at: float) -> Axis:
    """From a little before now to the last end of the page."""
    last_at = max((ends[2] for job in jobs if (ends := ends_of(job)) is not None), default=now_at)
    ahead_s = max(60.0, 1.05 * (last_at - now_at))
    return Axis(now_at - PAST_FRAC * ahead_s, now_at + ahead_s)


def _bar(axis: Axis, now_at: float, job: JobView) -> Bar | None:
    if job.status.is_over:
        return None
    ends = ends_of(job)
    is_running = job.status in (Status.RUNNING, Status.STOPPING)
    expected_at = job.estimate.start_at if job.estimate is not None else None
    start_at = job.started_at if is_running else expected_at
    if ends is None and not is_running:
        return None
    return bar(axis, now_at, start_at, ends, job.promised_finish_at, is_running)


# --- a job


async def job(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The story of a job."""
    story = await reads.job(int(request.path_params["number"]))
    now_at, shown = reads.now_at, story.job
    ends = ends_of(shown) if not shown.status.is_over else None
    run = story.runs[-1].number if story.runs else None
    wanted = request.query_params.get("run")
    level = shown.promised_level or LEVEL
    return {
        "title": f"Job {shown.job_id}, {shown.name}",
        "job": shown,
        "story": story,
        "command": command_line(story.spec.command),
        "told": [(event.at, told_of(event)) for event in story.events if told_of(event)],
        "picture": _promises(story.quotes, shown, now_at),
        "dots": _dots(ends, now_at, level) if ends is not None and ends[0] < ends[2] else None,
        "run": whole(wanted, "run", 1) if wanted else run,
        "back": local_path(request),
    }


def _promises(quotes: Sequence[Quote], shown: JobView, now_at: float) -> dict[str, Any] | None:
    """Promised ends over the time at which they were made, and the truth."""
    made = [(quote.made_at, quote.finish_at) for quote in quotes if quote.finish_at is not None]
    if not made:
        return None
    estimate = shown.estimate
    if estimate is not None and estimate.finish_at is not None and not shown.status.is_over:
        made.append((estimate.as_of_at, estimate.finish_at))
    until_at = shown.finished_at or now_at
    intervals = [(quote, ends) for quote in quotes if (ends := _interval(quote)) is not None]
    ends = [at for _, at in made] + [at for _, interval in intervals for at in interval]
    ends += [shown.finished_at] if shown.finished_at is not None else []
    margin_s = max(5.0, 0.15 * (max(ends) - min(ends)))
    first_at, last_at = made[0][0], max(until_at, made[-1][0] + 1.0)
    across = Axis(first_at - 0.04 * (last_at - first_at), last_at + 0.04 * (last_at - first_at))
    up = Axis(min(ends) - margin_s, max(ends) + margin_s)
    points = [(across.x(at), _down(up, end_at), end_at) for at, end_at in made]
    whiskers = [
        (across.x(quote.made_at), *(_down(up, at) for at in interval)) for quote, interval in intervals
    ]
    truth = _down(up, shown.finished_at) if shown.finished_at is not None else None
    return {"points": points, "truth": truth, "whiskers": whiskers}


def _interval(quote: Quote) -> tuple[float, float] | None:
    low_at, high_at = quote.finish_low_at, quote.finish_high_at
    return (low_at, high_at) if low_at is not None and high_at is not None else None


def _down(axis: Axis, at: float) -> float:
    """The place of an instant on an upright axis, percent from the top."""
    return round(100.0 - axis.x(at), 2)


def _dots(ends: tuple[float, float, float], now_at: float, level: float) -> dict[str, Any]:
    likely = [max(now_at, at) for at in equally_likely(ends, (1.0 - level) / 2.0)]
    axis = Axis(min(now_at, likely[0]), likely[-1] + 0.05 * (likely[-1] - now_at))
    return {"axis": axis, "dots": dots(axis, likely), "by_at": likely[-2], "now": axis.x(now_at)}


# --- time


async def timeline(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """A window of the schedule: nodes as rows, and below them the users whose jobs wait."""
    now_at, given = reads.now_at, request.query_params
    span = given.get("span") or _span(reads.last_end_at - now_at)
    if span not in SPANS_S:
        raise InputError(f"span: expected one of {', '.join(SPANS_S)}, not {span[:40]!r}")
    span_s = SPANS_S[span]
    follows = not given.get("from")
    from_at = now_at - span_s / 3.0 if follows else instant(given["from"], "from")
    axis = Axis(from_at, from_at + span_s)
    found = await reads.timeline(axis.from_at, axis.to_at)
    nodes = sorted(
        {node for each in found for node, _ in each.places} | {n.name for n in await reads.backend.nodes()}
    )
    first = next((at for at, name in enumerate(nodes) if name >= given.get("node", "")), 0)
    shown = nodes[first : first + MOST_NODES]
    waiting: dict[str, list[Span]] = {}
    for each in found:
        if not each.places:
            waiting.setdefault(each.user, []).append(each)
    rows = [(name, "node", [s for s in found if any(node == name for node, _ in s.places)]) for name in shown]
    rows += [(user, "waits", some) for user, some in sorted(waiting.items())[:MOST_USERS]]
    return {
        "title": "Time",
        "axis": axis,
        "now_x": axis.x(now_at) if axis.from_at <= now_at <= axis.to_at else None,
        "rows": [
            (name, kind, *lanes(axis, now_at, map(_stretch, some)), len(some)) for name, kind, some in rows
        ],
        "span": span,
        "spans": [*SPANS_S],
        "given": {"span": span, "from": given.get("from"), "node": given.get("node")},
        "earlier": axis.from_at - span_s / 2,
        "later": axis.from_at + span_s / 2,
        "follows": follows,
        "next_node": nodes[first + MOST_NODES] if len(nodes) > first + MOST_NODES else None,
        "more_users": max(0, len(waiting) - MOST_USERS),
    }


def _span(ahead_s: float) -> str:
    """The smallest window that shows so many seconds to come."""
    return next((name for name, span_s in SPANS_S.items() if ahead_s <= span_s * 2 / 3), "1w")


def _stretch(span: Span) -> Stretch:
    outcomes = {"exited": span.status if span.status in OVER else "finished", None: span.status}
    status = outcomes.get(span.outcome, span.outcome or span.status)
    return Stretch(span.from_at, span.to_at, span.job_id, status, f"{span.job_id} {span.name}, {span.user}")


# --- machines


async def machines(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """Nodes with what they hold, how much was held over the last day, and the rented fleet."""
    nodes, now_at = await reads.backend.nodes(), reads.now_at
    axis = Axis(now_at - 86_400.0, now_at)
    found = await reads.timeline(axis.from_at, axis.to_at)
    cores = sum(node.cpu for node in nodes if node.status in ("up", "draining"))
    jobs = reads.backend.scheduler.ledger.jobs
    held = [(s.from_at, min(s.to_at, now_at), sum(units for _, units in s.places)) for s in found if s.places]
    most = max(cores, 1.0) if not any(node.gpu for node in nodes) else sum(node.gpu for node in nodes)
    return {
        "title": "Machines",
        "nodes": nodes,
        "axis": axis,
        "usage": usage(axis, held, most, 48),
        "of_what": "GPUs" if any(node.gpu for node in nodes) else "cores",
        "live": len(jobs),
        "fleet": await reads.backend.fleet(),
    }


# --- the account of promises


async def promises(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """How well promises held. Raises InputError."""
    by = request.query_params.get("by", "user")
    if by not in ACCOUNTS:
        raise InputError(f"by: expected one of {', '.join(ACCOUNTS)}, not {by[:40]!r}")
    account = await reads.accuracy(by)
    figures = [("Promises at submission", account.first), ("The last of each job", account.latest)]
    figures += [("Users' own estimates", account.estimate), ("As played out, times one ratio", account.ratio)]
    groups = [(group.name, group.figures) for group in account.groups]
    return {
        "title": "Promises",
        "account": account,
        "figures": figures,
        "groups": groups,
        "by": by,
        "ways": ACCOUNTS,
    }


# --- the policy


async def policy(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The policy in force, the front of the last search, and what a portfolio chose."""
    in_force, tuning = await reads.backend.policy(), await reads.backend.tuning()
    chosen = request.query_params.get("point")
    number = whole(chosen, "point") if chosen else None
    front = tuning.front
    points = list(front.points) if front is not None else []
    picked = next((point for point in points if point.number == number), None)
    if number is not None and picked is None:
        raise InputError(f"point: the front has no point {number}; it may be a newer front")
    return {
        "title": "Policy",
        "policy": in_force,
        "tuning": tuning,
        "front": front,
        "picture": _front(front, tuning.in_force)
        if front is not None and len(front.objectives) > 1
        else None,
        "picked": picked,
        "portfolio": await reads.backend.portfolio(SELECTIONS)
        if in_force.policy.startswith("portfolio")
        else None,
        "may_set": session.role == "operator",
    }


def _front(front: Any, in_force: Any) -> dict[str, Any]:
    """The points by the first two objectives, on the part that they are reported on."""
    across, up = front.objectives[:2]
    others = [*front.baselines, *([in_force] if in_force is not None else [])]
    measured = [(each, each.test or each.train) for each in [*front.points, *others]]
    known = [(each, found) for each, found in measured if found and across in found and up in found]
    scales = [_scale([found[name] for _, found in known]) for name in (across, up)]
    points = [
        {
            "x": scales[0](found[across]),
            "y": 100.0 - scales[1](found[up]),
            "number": getattr(each, "number", None),
            "label": ", ".join(getattr(each, "names", ())) or each.policy,
            "found": found,
        }
        for each, found in known
    ]
    dots = [point for point in points if point["number"] is not None]
    return {
        "across": across,
        "up": up,
        "points": [*dots, *_apart([p for p in points if p["number"] is None])],
    }


def _apart(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Policies to compare with; those whose names would overlap share one."""
    found: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: point["x"]):
        near = next(
            (one for one in found if abs(one["x"] - point["x"]) < 10 and abs(one["y"] - point["y"]) < 6), None
        )
        if near is None:
            found.append(point)
        elif point["label"] not in near["label"].split(", "):
            near["label"] += f", {point['label']}"
    return found


def _scale(values: Sequence[float]) -> Any:
    """Values to percent; by their logarithms where the largest is more than ten times the smallest."""
    is_log = bool(values) and min(values) > 0.0 and max(values) > 10.0 * min(values)
    way = math.log if is_log else float
    least, most = way(min(values, default=0.0)), way(max(values, default=1.0))
    return lambda value: round(6.0 + 88.0 * (way(value) - least) / ((most - least) or 1.0), 2)


async def submission(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The form in which a job is submitted."""
    return {"title": "Submit", "quote": None, "problem": None, "jobs": 0}
