"""Geometry of the pictures: time axes, bars that fade out, dots, and rows of a timeline. Lengths are in percent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_STEPS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000)
_TICKS = 6  # at most, on an axis
PIXELS = 1000  # that a timeline is taken to be wide
# Pixels of a timeline: the stylesheet hides the words that a narrower one has no room for.
WIDTHS = (360, 600, PIXELS)
LEAST_PIXELS = 3  # of a bar of its own; narrower ones within `MERGED_PIXELS` are one
MERGED_PIXELS = 23  # wide enough for a number of three digits
MOST_LANES = 6  # of a row
OPEN_LANES = 60  # of one that is open
CHARACTER_PIXELS = 6.5  # that a character of a name in a bar is taken to be wide
MARGIN_PIXELS = 6  # of a name there, both sides
DIGIT_PIXELS, DIGITS_MARGIN_PIXELS = 6.4, 2  # likewise, of the number of several jobs
LEAST_CHARACTERS = 4  # of a name that is cut
WORST = ("failed", "lost", "cancelled", "preempted", "resized", "running", "queued", "reserved", "finished")
Ends = tuple[float, float, float]
"""The low end, the median and the high end of when a job ends."""


class Tick(NamedTuple):
    """A mark on an axis."""

    x: float
    at: float


class Axis(NamedTuple):
    """A stretch of time."""

    from_at: float
    to_at: float

    def x(self, at: float) -> float:
        """The place of an instant, percent, within the axis."""
        share = (at - self.from_at) / max(self.to_at - self.from_at, 1e-9)
        return round(100.0 * min(1.0, max(0.0, share)), 2)

    @property
    def ticks(self) -> list[Tick]:
        """Marks at round instants."""
        span_s = self.to_at - self.from_at
        step_s = next((step for step in _STEPS_S if span_s / step <= _TICKS), span_s / _TICKS)
        first = math.ceil(self.from_at / step_s)
        found = [Tick(self.x(n * step_s), n * step_s) for n in range(first, first + _TICKS + 1)]
        return [tick for tick in found if self.from_at <= tick.at <= self.to_at and 5.0 <= tick.x <= 94.0]


class Bar(NamedTuple):
    """A job from its start to its end: what has run, what is sure, what may still be; widths are 0 where there is none.

    tick: the expected end; promise: the first promised end; null: none.
    """

    ran: float
    ran_width: float
    sure: float
    sure_width: float
    fade: float
    fade_width: float
    tick: float | None
    promise: float | None


def bar(
    axis: Axis,
    now_at: float,
    start_at: float | None,
    ends: Ends | None,
    promised_at: float | None,
    is_running: bool,
) -> Bar:
    """ends: the low end, the median and the high end of the interval; three times the point where there is none."""
    begin = start_at if start_at is not None else now_at
    low, median, high = ends if ends is not None else (begin, begin, begin)
    begin_x, now_x = axis.x(begin), axis.x(now_at)
    sure_x = now_x if is_running else axis.x(max(begin, now_at))
    low_x, high_x = max(axis.x(low), sure_x), axis.x(high)
    return Bar(
        ran=begin_x,
        ran_width=round(max(0.0, now_x - begin_x), 2) if is_running else 0.0,
        sure=sure_x,
        sure_width=round(max(0.0, low_x - sure_x), 2),
        fade=low_x,
        fade_width=round(max(0.0, high_x - low_x), 2),
        tick=axis.x(median) if ends is not None else None,
        promise=axis.x(promised_at) if promised_at is not None else None,
    )


class Piece(NamedTuple):
    """A bar of a timeline: one run, or several that touch."""

    x: float
    width: float
    lane: int
    job: int  # of the first
    jobs: int
    status: str  # the worst
    label: str
    goes_on: float  # percent of the width that is still to come
    fade: tuple[float, float] | None = None  # where it may end: from, and how wide
    tick: float | None = None  # the median of its end
    grace: tuple[float, float] | None = None  # from, and how wide
    is_moved: bool = False
    name: str = ""  # or the number of several jobs, as far as there is room for it; empty: there is none
    from_pixels: int = PIXELS  # the least of `WIDTHS` at which there is room


class Row(NamedTuple):
    """A row of a timeline: its name, what that is, its bars in so many lanes, and the runs that they are.

    closed: where its node takes no jobs: from, how wide, and why.
    """

    name: str
    kind: str
    pieces: list[Piece]
    height: int
    runs: int
    closed: Sequence[tuple[float, float, str]] = ()


class Stretch(NamedTuple):
    """Something to be drawn in a row; grace: when it was asked to leave, and must have left."""

    from_at: float
    to_at: float
    job: int
    status: str
    label: str
    grace: tuple[float, float] | None = None
    is_moved: bool = False
    name: str = ""


def lanes(
    axis: Axis,
    now_at: float,
    stretches: Iterable[Stretch],
    ends_of: Callable[[int, float], Ends | None] = lambda *_: None,
    most_lanes: int = MOST_LANES,
    pixels: int = PIXELS,
) -> tuple[list[Piece], int]:
    """The bars of a row and its number of lanes: what overlaps stands in lanes, what touches in pixels is one bar.

    ends_of: how sure an expected end of a job is. pixels: that its picture is taken to be wide.
    """
    there = (each for each in stretches if each.to_at > axis.from_at and each.from_at < axis.to_at)
    shown = sorted(there, key=lambda each: each[:4])
    least, merged = LEAST_PIXELS * 100.0 / pixels, MERGED_PIXELS * 100.0 / pixels
    ends: list[float] = []
    narrow: dict[int, list[Stretch]] = {}
    wide: list[tuple[int, Stretch]] = []
    for each in shown:
        x, to = axis.x(each.from_at), axis.x(each.to_at)
        lane = next((number for number, end in enumerate(ends) if end <= x), len(ends))
        if to - x < least or lane >= most_lanes:
            narrow.setdefault(int(x / merged), []).append(each)
            continue
        if lane == len(ends):
            ends.append(to)
        ends[lane] = to
        wide.append((lane, each))
    pieces = [_alone(axis, now_at, lane, each, ends_of) for lane, each in wide]
    last = len(ends)
    pieces += [_together(axis, now_at, last, some, pixels) for some in narrow.values()]
    return pieces, last + bool(narrow)


def _alone(
    axis: Axis, now_at: float, lane: int, each: Stretch, ends_of: Callable[[int, float], Ends | None]
) -> Piece:
    """A bar of its own, solid until it is sure, with its marks."""
    width = axis.x(each.to_at) - axis.x(each.from_at)
    name = _fitting(each.name, width)
    ends = ends_of(each.job, each.to_at) if each.to_at > now_at and math.isfinite(each.to_at) else None
    fade = tick = None
    if ends is not None and ends[0] < ends[2]:
        low_at, median_at, high_at = (max(each.from_at, at) for at in ends)
        each, fade = each._replace(to_at=low_at), _width(axis, low_at, high_at)
        tick = axis.x(median_at) if median_at < axis.to_at else None
    grace = _width(axis, *each.grace) if each.grace is not None else None
    piece = _piece(axis, now_at, lane, [each], axis.x(each.from_at), LEAST_PIXELS * 100.0 / PIXELS)
    return piece._replace(
        fade=fade,
        tick=tick,
        grace=grace,
        is_moved=each.is_moved and each.from_at > axis.from_at,
        name=name,
        from_pixels=_from_pixels(MARGIN_PIXELS + len(name) * CHARACTER_PIXELS, width),
    )


def _together(axis: Axis, now_at: float, lane: int, some: Sequence[Stretch], pixels: int) -> Piece:
    """Several in one place, or one that is too narrow or has no lane, with their number where there is room."""
    merged = MERGED_PIXELS * 100.0 / pixels
    is_one = len(some) == 1
    x = axis.x(some[0].from_at) if is_one else round(int(axis.x(some[0].from_at) / merged) * merged, 2)
    least = (LEAST_PIXELS if is_one else MERGED_PIXELS - 1) * 100.0 / pixels
    piece = _piece(axis, now_at, lane, some, x, least)
    number = "" if is_one else f"{len(some)}" if len(some) < 1000 else f"{len(some) // 1000}k"
    needed = DIGITS_MARGIN_PIXELS + len(number) * DIGIT_PIXELS
    if needed > piece.width * PIXELS / 100.0:
        return piece
    return piece._replace(name=number, from_pixels=_from_pixels(needed, piece.width))


def _from_pixels(needed: float, width: float) -> int:
    """The least width of a timeline at which a bar of this width, percent, has room for so many pixels."""
    return next((pixels for pixels in WIDTHS if needed <= width * pixels / 100.0), PIXELS)


def _fitting(name: str, width: float) -> str:
    """A name cut to what a bar of this width, percent, has room for; empty where that tells nothing."""
    room = int((width * PIXELS / 100.0 - MARGIN_PIXELS) / CHARACTER_PIXELS)
    if len(name) <= room:
        return name
    return f"{name[: room - 1]}…" if room >= LEAST_CHARACTERS else ""


def _width(axis: Axis, from_at: float, to_at: float) -> tuple[float, float]:
    return axis.x(from_at), round(axis.x(to_at) - axis.x(from_at), 2)


def _piece(axis: Axis, now_at: float, lane: int, some: Sequence[Stretch], x: float, least: float) -> Piece:
    """x, least: where it begins, and its least width, percent."""
    to = axis.x(some[0].to_at) if len(some) == 1 else x
    width = max(to - x, least)
    worst = min(
        (each.status for each in some), key=lambda status: WORST.index(status) if status in WORST else 9
    )
    now_x = axis.x(now_at)
    coming = min(1.0, max(0.0, (x + width - now_x) / width)) if some[0].to_at > now_at else 0.0
    label = some[0].label if len(some) == 1 else f"{len(some)} jobs: {some[0].label}, ..."
    return Piece(x, round(width, 2), lane, some[0].job, len(some), worst, label, round(100.0 * coming, 1))


class Dot(NamedTuple):
    """One of twenty equally likely ends."""

    x: float
    y: int  # 0: at the bottom


def dots(axis: Axis, ends_at: Sequence[float], bins: int = 24) -> list[Dot]:
    """Equally likely ends as a heap of dots."""
    heaps: dict[int, int] = {}
    found: list[Dot] = []
    for at in ends_at:
        place = min(bins - 1, int(axis.x(at) / 100.0 * bins))
        found.append(Dot(round((place + 0.5) * 100.0 / bins, 2), heaps.get(place, 0)))
        heaps[place] = heaps.get(place, 0) + 1
    return found


def equally_likely(ends: Ends, tail: float = 0.1, count: int = 20) -> list[float]:
    """Equally likely ends of which `tail` come before the low end and as many after the high one.

    Between these and the median, and beyond, the quantiles of two halves of a normal distribution.
    """
    from statistics import NormalDist

    low, median, high = ends
    normal = NormalDist()
    unit = normal.inv_cdf(1.0 - tail)
    scores = [normal.inv_cdf((n + 0.5) / count) / unit for n in range(count)]
    return [median + score * ((high - median) if score > 0 else (median - low)) for score in scores]


def usage(axis: Axis, held: Iterable[tuple[float, float, float]], most: float, bins: int) -> list[float]:
    """The share of `most` that was held in each of so many equal parts of an axis, percent; held: from, to, amount."""
    parts = [0.0] * bins
    step_s = (axis.to_at - axis.from_at) / bins
    for from_at, to_at, amount in held:
        first = max(0, int((from_at - axis.from_at) / step_s))
        last = min(bins - 1, int((to_at - axis.from_at) / step_s))
        for part in range(first, last + 1):
            begin = axis.from_at + part * step_s
            overlap = min(to_at, begin + step_s) - max(from_at, begin)
            parts[part] += max(0.0, overlap) / step_s * amount
    return [round(min(100.0, 100.0 * part / most), 1) if most else 0.0 for part in parts]
