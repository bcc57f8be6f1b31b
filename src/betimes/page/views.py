"""Contents of each page, by its query string."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request

from betimes.errors import InputError
from betimes.foresight.advice import Advice, Candidate
from betimes.foresight.advice.shown import cells, command, explained, titles, traded, verdict
from betimes.foresight.tuning import Baseline, Front
from betimes.page.drawing import (
    MOST_LANES,
    OPEN_LANES,
    Axis,
    Bar,
    Row,
    Stretch,
    bar,
    dots,
    equally_likely,
    lanes,
    usage,
)
from betimes.page.query import instant, local_path, whole
from betimes.page.session import Session
from betimes.service.engines.named_policies import kind_of
from betimes.service.runtime.page_reads import Ends, PageReads, Span
from betimes.service.runtime.page_reads import Row as QueueRow
from betimes.service.runtime.queue_order import FOLDS, SORTS, Place
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.sbatch import command_line, of_slurm
from betimes.service.spec.spelling import job_number
from betimes.service.store.databases.schema import LIVE, OVER
from betimes.service.views.models import (
    By,
    EventView,
    JobFilter,
    JobStory,
    JobView,
    NodeView,
    PolicyView,
    Quote,
)
from betimes.units import amount, gib

ROWS = 50  # of a page of jobs
LOG_LINES = (300, 3000, 30_000)  # of a run's output, from which it is followed
NEXT = 6  # rows of each list of the first page
QUEUE_FIELDS = ("state", "user", "name", "label", "array", "pipeline", "search", "group", "sort")
HELPS_S = 2.0  # processor time for what would help a job
NODES = 100  # of a page of machines
ON_A_NODE = 8  # jobs that are named there
MOST_NODES = 40  # rows of a page of the timeline
MOST_USERS = 12  # rows of waiting jobs there
PAST_FRAC = 0.12  # of the queue's axis
SCREEN = 600  # pixels that the rows of the timeline are to fill
LEAST_LANE, MOST_LANE = 16, 34  # pixels of each of their lanes
LEAST_AHEAD_S = 600.0  # that the timeline shows
BEYOND_RUNS = 4.0  # times what runs now still takes
LEAST_WINDOW_S, MOST_WINDOW_S = 10.0, 400 * 86_400.0
SPANS_S = {"1h": 3600.0, "6h": 21_600.0, "1d": 86_400.0, "1w": 604_800.0}
SELECTIONS = 20
ACCOUNTS: tuple[By, ...] = ("user", "name", "policy", "horizon")
ACCOUNTS_BESIDE_SLURM: tuple[By, ...] = ("user", "name", "partition", "horizon")
MONTHS = 2  # of which each user's bill is shown
DOT = 10  # pixels from one dot to the next above it
LEVEL = 0.8  # of an interval whose level is not known
STATES = {
    "live": [*LIVE],
    "running": ["running", "stopping"],
    "waiting": ["queued", "blocked"],
    "held": ["held"],
}
STATES |= {status: [status] for status in OVER} | {"over": [*OVER], "all": [*OVER, *LIVE]}


# --- the first page


async def now(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """What is busy, what waits, what ends next, how promises were kept this week, and the reader's own jobs."""
    nodes, now_at = await reads.seen.nodes(), reads.now_at
    everything = await reads.queue(JobFilter(status=_statuses("live"), limit=1))
    running = await reads.queue(JobFilter(status=_statuses("running"), limit=NEXT), fold="none")
    own = await reads.queue(JobFilter(status=_statuses("live"), user=session.user, limit=NEXT))
    over = await reads.over(JobFilter(status=_statuses("over"), user=session.user, limit=NEXT))
    ends = {row.job.job_id: _ends(reads, row) for row in (*running.rows, *own.rows)}
    axis = _queue_axis([each[2] for row in running.rows if (each := ends[row.job.job_id])], now_at)
    return {
        "title": "Now",
        "uses": _uses(nodes),
        "states": Counter(node.status for node in nodes),
        "standing": everything.standing,
        "last_end_at": reads.last_end_at,
        "next": [
            (row, ends[row.job.job_id], _bar(axis, now_at, row, ends[row.job.job_id])) for row in running.rows
        ],
        "axis": axis,
        "account": await reads.lately(),
        "own": [(row, ends[row.job.job_id]) for row in own.rows],
        "own_standing": own.standing,
        "over": over,
    }


class Use(NamedTuple):
    """A resource of the nodes that are up: how much of it jobs hold, of how much."""

    what: str
    held: float
    has: float
    unit: str = ""

    @property
    def frac(self) -> float:
        """The share that is held."""
        return min(1.0, max(0.0, self.held / self.has)) if self.has else 0.0


def _uses(nodes: Sequence[NodeView]) -> list[Use]:
    """The resources of some nodes that there are any of, of those that are up."""
    there = [node for node in nodes if node.status in ("up", "draining")]
    found = [
        Use("GPUs", sum(node.gpu - node.free_gpu for node in there), sum(node.gpu for node in there)),
        Use("cores", sum(node.cpu - node.free_cpu for node in there), sum(node.cpu for node in there)),
        Use(
            "memory",
            sum(node.memory_gib - node.free_memory_gib for node in there),
            sum(node.memory_gib for node in there),
            "GiB",
        ),
    ]
    return [use for use in found if use.has]


# --- the queue


async def queue(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """Jobs that run and jobs that wait, by default in the order of the ends expected now; or jobs that are over."""
    given = {name: request.query_params.get(name, "")[:200] for name in QUEUE_FIELDS}
    chosen, sort = given["state"] or "live", given["sort"] or "end"
    if chosen not in STATES:
        raise InputError(f"state: expected one of {', '.join(STATES)}, not {chosen[:40]!r}")
    if given["group"] not in ("", *FOLDS):
        raise InputError(f"group: expected one of {', '.join(FOLDS)}, not {given['group'][:40]!r}")
    by, descends = sort.removeprefix("-"), sort.startswith("-")
    if by not in ("end", *SORTS):
        raise InputError(f"sort: expected one of end, {', '.join(SORTS)}, not {by[:40]!r}")
    wanted = JobFilter(
        status=_statuses(chosen),
        user=given["user"] or None,
        name=given["name"] or None,
        array_id=whole(given["array"], "array", 1) if given["array"] else None,
        label=_labels(given["label"]),
        search=given["search"].strip() or None,
        limit=ROWS,
    )
    after = request.query_params.get("after", "")
    now_at = reads.now_at
    following: str | None = None
    pipeline = whole(given["pipeline"], "pipeline", 1) if given["pipeline"] else None
    if set(STATES[chosen]) <= set(LIVE):
        place = _place(after, is_text=by in ("name", "user"))
        found = await reads.queue(wanted, pipeline, place, fold=given["group"], sort=by, descends=descends)
        rows, standing = found.rows, found.standing
        if found.following is not None:
            at, number = found.following
            following = f"{'' if at is None else at},{number}"
    else:
        cursor = whole(after, "after", 1) if after else None
        jobs = await reads.over(wanted.model_copy(update={"after": cursor}))
        rows, standing = [QueueRow(job, None, {}, None, 0) for job in jobs], {}
        following = str(jobs[-1].job_id) if len(jobs) == ROWS else None
    ends = {row.job.job_id: _ends(reads, row) for row in rows}
    axis = _queue_axis([each[2] for each in ends.values() if each is not None], now_at)
    return {
        "title": "Queue",
        "given": given,
        "chosen": chosen,
        "sort": (by, descends),
        "standing": standing,
        "rows": [
            (row, _expected_at(reads, row), _bar(axis, now_at, row, ends[row.job.job_id])) for row in rows
        ],
        "axis": axis,
        "following": following,
        "is_first": not after,
        "back": local_path(request),
    }


def _statuses(chosen: str) -> list[Status]:
    return [Status(status) for status in STATES[chosen]]


def _labels(text: str) -> dict[str, str]:
    if not text:
        return {}
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"label: write it as NAME=VALUE, not {text[:40]!r}")
    return {name: value}


def _place(after: str, is_text: bool) -> Place | None:
    if not after:
        return None
    key, _, number = after.rpartition(",")
    return (key if is_text else instant(key, "after")) if key else None, whole(number, "after", 1)


def _ends(reads: PageReads, row: QueueRow) -> Ends | None:
    """The end of a row, with its interval; of a group, the end of its last job."""
    if row.job.status.is_over:
        return None
    return reads.ends(row.job) if row.end is None else reads.from_now(row.end)


def _expected_at(reads: PageReads, row: QueueRow) -> float | None:
    """By when a job is done as likely as not, as its bar shows it; of a group its first job."""
    ends = None if row.job.status.is_over else reads.ends(row.job)
    return row.job.promised_finish_at if ends is None else ends[1]


def _queue_axis(ends_at: Sequence[float], now_at: float) -> Axis:
    """From a little before now to the last end of the page."""
    ahead_s = max(60.0, 1.05 * (max(ends_at, default=now_at) - now_at))
    return Axis(now_at - PAST_FRAC * ahead_s, now_at + ahead_s)


def _bar(axis: Axis, now_at: float, row: QueueRow, ends: Ends | None) -> Bar | None:
    job = row.job
    is_running = job.status in (Status.RUNNING, Status.STOPPING)
    expected_at = job.estimate.start_at if job.estimate is not None else None
    start_at = job.started_at if is_running else expected_at
    if ends is None and not is_running:
        return None
    promised_at = job.stated_at if row.group is None else None
    return bar(axis, now_at, start_at, ends, promised_at, is_running)


# --- a job


async def job(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The story of a job."""
    story = await reads.job(int(request.path_params["number"]))
    now_at, shown = reads.now_at, story.job
    ends = reads.ends(shown)
    run = story.runs[-1].number if story.runs else None
    wanted = request.query_params.get("run")
    run_shown = whole(wanted, "run", 1) if wanted else run
    level = shown.promised_level or LEVEL
    return {
        "title": f"Job {job_number(shown.job_id)}, {shown.name}",
        "job": shown,
        "story": story,
        "command": command_line(story.spec.command),
        "of_slurm": of_slurm(story.spec.command, story.spec.labels, shown.status.is_over),
        "sentences": [(event.at, sentence_of(event)) for event in story.events if event.kind not in _SILENT],
        "picture": _promises(story.quotes, shown, now_at),
        "dots": _dots(ends, now_at, level, reads.earliest_at(shown.job_id))
        if ends is not None and ends[0] < ends[2]
        else None,
        "run": run_shown,
        "used": _used(story, run_shown),
        "curves": await _curves(reads, story, run_shown),
        "lines": log_lines(request),
        "all_lines": LOG_LINES,
        "back": local_path(request),
    }


def log_lines(request: Request) -> int:
    """The last lines of the output that are asked for. Raises InputError."""
    text = request.query_params.get("lines")
    lines = whole(text, "lines", 1) if text else LOG_LINES[0]
    if lines > LOG_LINES[-1]:
        raise InputError(f"lines: expected at most {LOG_LINES[-1]:,}; the output alone, as text, has all")
    return lines


def _used(story: JobStory, number: int | None) -> list[Use]:
    """The use by a run that is over, of what it had: cores in the mean, and memory at most."""
    run = next((run for run in story.runs if run.number == number), None)
    if run is None or run.cpu_s is None or run.ran_s <= 0.0:
        return []
    spec, peak_gib = story.spec, run.max_rss_gib
    found = [Use("cores in the mean", run.cpu_s / run.ran_s, spec.cpu * run.units)]
    if peak_gib is not None and spec.memory_gib:
        found.append(Use("memory at most", peak_gib, spec.memory_gib * run.units, "GiB"))
    return [use for use in found if use.has]


class Curve(NamedTuple):
    """The picture of an amount over the time of a run.

    path: of an SVG of 100 by 100; ticks: places from the top, percent, with their amounts; has: that of what it has.
    """

    what: str
    unit: str
    path: str
    ticks: list[tuple[float, float]]
    has: float | None
    said: str


async def _curves(reads: PageReads, story: JobStory, run: int | None) -> dict[str, Any] | None:
    """The use of a run over its time; null: it has none, or not here."""
    places = next((each.places for each in story.runs if each.number == run), None)
    if places is None or story.trials:
        return None
    nodes = list(dict.fromkeys(place.node for place in places))
    found = await reads.backend.curves(story.job.job_id, run)
    if not found.points or found.cores_mean is None or found.memory_most_gib is None:
        return {"all": [], "not_measured": found.not_measured, "no_gpus": False, "gpus": False}
    across = Axis(found.started_at, found.points[-1].at)
    most, mean, peak = max(point.cores for point in found.points), found.cores_mean, found.memory_most_gib
    cores = [(point.at, point.cores) for point in found.points]
    memory = [(point.at, point.memory_gib) for point in found.points]
    said = f"{amount(mean)} in the mean, {amount(most)} at most, of {amount(found.cores_asked)}"
    limit = f", of {gib(found.memory_asked_gib)}" if found.memory_asked_gib else ""
    drawn = [
        _curve("Cores", "", across, cores, found.cores_asked, said),
        _curve("Memory", "GiB", across, memory, found.memory_asked_gib, f"{gib(peak)} at most{limit}"),
    ]
    if found.gpus_mean is not None and found.gpu_memory_most_gib is not None:
        has, has_gib = found.gpus_asked, found.gpu_memory_has_gib or 0.0
        said = f"{amount(found.gpus_mean)} of {amount(has)} busy in the mean"
        drawn.append(
            _curve("GPUs", "", across, [(point.at, point.gpus) for point in found.points], has, said)
        )
        said = f"{gib(found.gpu_memory_most_gib)} at most" + (f", of {gib(has_gib)}" if has_gib else "")
        used = [(point.at, point.gpu_memory_gib) for point in found.points]
        drawn.append(_curve("Memory of GPUs", "GiB", across, used, has_gib, said))
    return {
        "across": across,
        "no_gpus": found.gpus_asked > 0.0 and found.gpus_mean is None,
        "gpus": found.gpus_mean is not None,
        "where": nodes[0] if len(nodes) > 1 else "",
        "all": drawn,
    }


def _curve(
    what: str, unit: str, across: Axis, points: Sequence[tuple[float, float | None]], has: float, said: str
) -> Curve:
    """Steps: each point is for the time since the one before; null: not measured. has: 0 where there is no limit."""
    top = 1.1 * max(has, *(value for _, value in points if value is not None), 1e-3)
    path, x, is_open = "", 0.0, False
    for at, value in points:
        if value is not None:
            path += "" if is_open else f"M{x:g} 100"
            path += f" L{x:g} {_share(value, top):g} L{across.x(at):g} {_share(value, top):g}"
        elif is_open:
            path += f" L{x:g} 100 Z"
        x, is_open = across.x(at), value is not None
    step = next(step for step in _amounts() if top / step <= 4)
    ticks = [(_share(step * n, top), step * n) for n in range(1, int(top / step) + 1)]
    return Curve(
        what,
        unit,
        path + (f" L{x:g} 100 Z" if is_open else ""),
        ticks,
        _share(has, top) if has else None,
        said,
    )


def _share(value: float, top: float) -> float:
    return round(100.0 - 100.0 * value / top, 2)


def _amounts() -> Iterator[float]:
    """Round amounts, upward without end."""
    size = 1e-4
    while True:
        yield from (size, 2.0 * size, 5.0 * size)
        size *= 10.0


async def others_job(reads: PageReads, number: int) -> dict[str, Any]:
    """A job as everybody sees it. Raises Unknown."""
    shown = await reads.listed(number)
    return {"title": f"Job {job_number(number)}, {shown.name}", "job": shown, "story": None, "dots": None}


async def helps(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """Changes that would help a job that waits; each change is tried on a copy, which takes longer than a page."""
    number = int(request.path_params["number"])
    found = await reads.backend.helps(number, HELPS_S)
    return {"title": f"What would help job {number}", "number": number, "found": found}


_SILENT = ("granted", "learnt", "queued", "preempts", "released", "launched", "parallelism-changed")
"""Kinds of events that a job's story leaves out."""


def sentence_of(event: EventView) -> str:
    """A sentence of a job's story: `Quoted: done 14:05.`; instants in it are in UTC."""
    who = event.cause.removeprefix("user:")
    by = f" by {who}" if who != event.cause else ""
    said = f": {event.text.rstrip('.')}" if event.text else ""
    return f"{event.kind.replace('-', ' ').capitalize()}{by}{said}."


def _promises(quotes: Sequence[Quote], shown: JobView, now_at: float) -> dict[str, Any] | None:
    """Promised ends over the time at which they were made, and the truth."""
    made = [
        (quote.made_at, quote.finish_at if quote.finish_median_at is None else quote.finish_median_at)
        for quote in quotes
        if quote.finish_at is not None
    ]
    if not made:
        return None
    estimate = shown.estimate
    if estimate is not None and estimate.finish_at is not None and not shown.status.is_over:
        median_at = estimate.finish_median_at
        made.append((estimate.as_of_at, estimate.finish_at if median_at is None else median_at))
    until_at = shown.finished_at or now_at
    intervals = [(quote, ends) for quote in quotes if (ends := _interval(quote)) is not None]
    ends = [at for _, at in made] + [at for _, interval in intervals for at in interval]
    ends += [shown.finished_at] if shown.finished_at is not None else []
    margin_s = max(5.0, 0.15 * (max(ends) - min(ends)))
    first_at, last_at = made[0][0], max(until_at, made[-1][0] + 1.0)
    across = Axis(first_at - 0.14 * (last_at - first_at), last_at + 0.04 * (last_at - first_at))
    up = Axis(min(ends) - margin_s, max(ends) + margin_s)
    points = [(across.x(at), _down(up, end_at), end_at) for at, end_at in made]
    whiskers = [
        (across.x(quote.made_at), *(_down(up, at) for at in interval)) for quote, interval in intervals
    ]
    truth = _down(up, shown.finished_at) if shown.finished_at is not None else None
    ends_at = [(_down(up, tick.at), tick.at) for tick in up.ticks]
    return {
        "points": points,
        "truth": truth,
        "whiskers": whiskers,
        "across": across,
        "ends_at": ends_at,
        "span_s": up.to_at - up.from_at,
    }


def _interval(quote: Quote) -> tuple[float, float] | None:
    low_at, high_at = quote.finish_low_at, quote.finish_high_at
    return (low_at, high_at) if low_at is not None and high_at is not None else None


def _down(axis: Axis, at: float) -> float:
    """The place of an instant on an upright axis, percent from the top."""
    return round(100.0 - axis.x(at), 2)


def _dots(ends: Ends, now_at: float, level: float, earliest_at: float) -> dict[str, Any]:
    likely = [max(earliest_at, at) for at in equally_likely(ends, (1.0 - level) / 2.0)]
    axis = Axis(min(now_at, likely[0]), likely[-1] + 0.05 * (likely[-1] - now_at))
    placed = dots(axis, likely)
    height = DOT * (1 + max(dot.y for dot in placed)) + DOT
    return {
        "axis": axis,
        "dots": [(dot.x, height - DOT * (dot.y + 0.6)) for dot in placed],
        "height": height,
        "now": axis.x(now_at),
    }


# --- time


async def timeline(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """A window of the schedule: nodes as rows, and below them the users whose jobs wait."""
    now_at = reads.now_at
    given = {name: request.query_params.get(name) or None for name in ("span", "from", "to", "node", "open")}
    span, begin, end = given["span"], given["from"], given["to"]
    if span is not None and span not in SPANS_S:
        raise InputError(f"span: expected one of {', '.join(SPANS_S)}, not {span[:40]!r}")
    # Without a window that is asked for: what runs and a little after it, with a quarter of that before.
    ahead_s = (
        SPANS_S[span] * 2 / 3 if span else _ahead_s(reads.runs_end_at - now_at, reads.last_end_at - now_at)
    )
    from_at = instant(begin, "from") if begin else now_at - (ahead_s / 2.0 if span else ahead_s / 4.0)
    to_at = instant(end, "to") if begin and end else now_at + ahead_s
    if not LEAST_WINDOW_S <= to_at - from_at <= MOST_WINDOW_S:
        raise InputError(f"to: a window is from {LEAST_WINDOW_S:g} s to {MOST_WINDOW_S / 86_400:g} days long")
    axis, half_s = Axis(from_at, to_at), (to_at - from_at) / 2.0
    found = await reads.timeline(axis.from_at, axis.to_at)
    # In the order of the page of machines, and then those that are there no more.
    nodes = [node.name for node in await reads.seen.nodes()]
    nodes += sorted({node for each in found for node, _ in each.places}.difference(nodes))
    closed = _closed(reads.backend.scheduler.ledger, axis)
    first = next((at for at, name in enumerate(nodes) if name == given["node"]), 0)
    shown = nodes[first : first + MOST_NODES]
    waiting: dict[str, list[Span]] = {}
    for each in found:
        if not each.places:
            waiting.setdefault(each.user, []).append(each)
    rows = [(name, "node", [s for s in found if any(node == name for node, _ in s.places)]) for name in shown]
    rows += [(user, "waits", some) for user, some in sorted(waiting.items())[:MOST_USERS]]
    drawn = [
        Row(
            name,
            kind,
            *lanes(
                axis,
                now_at,
                map(_stretch, some),
                reads.ends_of,
                OPEN_LANES if name == given["open"] else MOST_LANES,
            ),
            len(some),
            closed.get(name, ()),
        )
        for name, kind, some in rows
    ]
    return {
        "title": "Time",
        "axis": axis,
        "now_x": axis.x(now_at) if axis.from_at <= now_at <= axis.to_at else None,
        "rows": drawn,
        "lane": _lane(drawn),
        "span": None if end else span,
        "spans": [*SPANS_S],
        "given": given,
        "windows": {
            name: {"from": f"{at - half_s * size:.0f}", "to": f"{at + half_s * size:.0f}", "span": None}
            for name, at, size in (
                ("earlier", from_at, 1.0),
                ("later", to_at, 1.0),
                ("nearer", from_at + half_s, 0.5),
                ("wider", from_at + half_s, 2.0),
            )
        },
        "follows": not begin,
        "next_node": nodes[first + MOST_NODES] if len(nodes) > first + MOST_NODES else None,
        "more_users": max(0, len(waiting) - MOST_USERS),
    }


def _closed(ledger: Ledger, axis: Axis) -> dict[str, list[tuple[float, float, str]]]:
    """The parts of an axis in which nodes take no jobs for maintenance, by node: from, width, and words."""
    found: dict[str, list[tuple[float, float, str]]] = {}
    for window in ledger.maintenance:
        x, to = axis.x(window.from_at), axis.x(window.to_at)
        for name, node in ledger.nodes.items():
            if to > x and window.covers(node):
                title = f"maintenance {window.number}" + (f": {window.reason}" if window.reason else "")
                title += f", for {', '.join(window.users)}" if window.users else ""
                found.setdefault(name, []).append((x, round(to - x, 2), title))
    return found


def _ahead_s(runs_s: float, last_s: float) -> float:
    """The seconds to come that a window shows by itself: until all is over, but not far beyond the end of what runs."""
    return min(max(LEAST_AHEAD_S, min(1.1 * last_s, BEYOND_RUNS * runs_s)), SPANS_S["1w"])


def _lane(rows: Sequence[Row]) -> int:
    """The height of a lane, pixels, with which the rows fill a screen, as far as that looks well."""
    return min(MOST_LANE, max(LEAST_LANE, SCREEN // max(1, sum(max(row.height, 1) for row in rows))))


def _stretch(span: Span) -> Stretch:
    outcomes = {"exited": span.status if span.status in OVER else "finished", None: span.status}
    status = outcomes.get(span.outcome, span.outcome or span.status)
    label = f"{job_number(span.job_id)} {span.name}, {span.user}"
    if span.is_moved:
        label += ", moved here"
    if span.grace is not None:
        label += ", in its grace period"
    return Stretch(span.from_at, span.to_at, span.job_id, status, label, span.grace, span.is_moved, span.name)


# --- machines


async def machines(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """Nodes with what they hold and who is on them, how much was held over the last day, and the rented fleet."""
    nodes, now_at = await reads.seen.nodes(), reads.now_at
    axis = Axis(now_at - 86_400.0, now_at)
    held, uses = await reads.held(axis.from_at, axis.to_at), _uses(nodes)
    places = {"GPUs": 2, "cores": 3, "memory": 4}
    first = request.query_params.get("node", "")
    begin = next((at for at, node in enumerate(nodes) if node.name == first), 0)
    shown = nodes[begin : begin + NODES]
    return {
        "title": "Machines",
        "nodes": shown,
        "next_node": nodes[begin + NODES].name if len(nodes) > begin + NODES else None,
        "named": reads.named(number for node in shown for number in node.jobs[:ON_A_NODE]),
        "on_a_node": ON_A_NODE,
        "axis": axis,
        "used": [
            (use, usage(axis, [(*each[:2], each[places[use.what]]) for each in held], use.has, 48))
            for use in uses
        ],
        "fleet": await reads.backend.fleet(),
        "spent": [
            (user, month, usd)
            for user, months in sorted(reads.backend.scheduler.ledger.spent_usd.items())
            for month, usd in sorted(months.items())[-MONTHS:]
        ],
    }


# --- the account of promises


async def promises(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The account of promises. Raises InputError."""
    by = request.query_params.get("by", "user")
    ways = ACCOUNTS_BESIDE_SLURM if reads.backend.scheduler.watches else ACCOUNTS
    if by not in ways:
        raise InputError(f"by: expected one of {', '.join(ways)}, not {by[:40]!r}")
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
        "ways": ways,
    }


# --- the policy


async def policy(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The policy in force, what others would do, the front of the last search, and what a portfolio chose."""
    in_force, tuning = await reads.seen.policy(), await reads.backend.tuning()
    advising = await reads.seen.advice()
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
        "advising": advising,
        "advice": advising.advice,
        **(_advice(advising.advice, in_force) if advising.advice is not None else {}),
        "tuning": tuning,
        "front": front,
        "picture": _front(front, tuning.in_force)
        if front is not None and len(front.objectives) > 1
        else None,
        "picked": picked,
        "portfolio": await reads.backend.portfolio(SELECTIONS)
        if in_force.policy.startswith("portfolio")
        else None,
    }


def _advice(advice: Advice, in_force: PolicyView) -> dict[str, Any]:
    """Advice as cells and sentences; `now_named`: the policy in force now by its name there."""
    rows = [
        {"policy": row.policy, "in_force": row.in_force, "name": name, "cells": values}
        for row, (name, *values) in zip(advice.rows, cells(advice), strict=True)
    ]
    worth = list[dict[str, Any]]()
    for each in advice.worth:
        better, worse = traded(advice, each)
        worth.append(
            {
                "policy": each.policy,
                "purposes": each.purposes,
                "better": better,
                "worse": worse,
                "command": command(each.policy, live=True),
            }
        )
    return {
        "headings": list(titles(advice).values()),
        "figures": rows,
        "worth": worth,
        "outcome": verdict(advice),
        "meaning": explained(advice) if advice.rows else [],
        "now_named": Candidate.of(f"{in_force.engine}:{kind_of(in_force.policy)[1]}").name,
    }


def _front(front: Front, in_force: Baseline | None) -> dict[str, Any]:
    """The points by the first two objectives, on the part that they are reported on."""
    across, up = front.objectives[:2]
    measured: list[tuple[int | None, str, Mapping[str, float] | None]] = [
        (point.number, ", ".join(point.names) or point.policy, point.test or point.train)
        for point in front.points
    ]
    others = [*front.baselines, *([in_force] if in_force is not None else [])]
    measured += [(None, other.policy, other.test or other.train) for other in others]
    known = [
        (number, label, found) for number, label, found in measured if found and {across, up} <= {*found}
    ]
    scales = [_scale([found[name] for _, _, found in known]) for name in (across, up)]
    points = [
        {"x": scales[0](found[across]), "y": 100.0 - scales[1](found[up]), "number": number, "label": label}
        for number, label, found in known
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


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    """Values to percent; by their logarithms where the largest is more than ten times the smallest."""
    is_log = bool(values) and min(values) > 0.0 and max(values) > 10.0 * min(values)
    way = math.log if is_log else float
    least, most = way(min(values, default=0.0)), way(max(values, default=1.0))
    return lambda value: round(6.0 + 88.0 * (way(value) - least) / ((most - least) or 1.0), 2)


async def submission(reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
    """The form in which a job is submitted."""
    return {"title": "Submit", "quote": None, "problem": None, "jobs": 0}
