"""The common style of all pictures, their writer, and axes that read well."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from betimes.errors import InputError
from betimes.units import TIME_UNITS, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]
Kind = Literal["time", "ratio", "percent"]

# Okabe and Ito's colours, which colour-blind readers can distinguish; dashes distinguish curves in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
GREY = "#555555"
_STYLE: Any = {
    "svg.hashsalt": "betimes",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
_TICKS_S = {"ms": (1, 10, 100), "s": (1, 10), "min": (1, 10), "h": (1, 6), "d": (1, 10, 100, 1000)}
_FINE_TICKS_S = {
    "ms": (1, 2, 5, 10, 20, 50, 100, 200, 500),
    "s": (1, 2, 5, 10, 30),
    "min": (1, 2, 5, 10, 30),
    "h": (1, 2, 6, 12),
    "d": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
}
_FEW = 4
MOST_STEPS = 1500  # of a curve: finer than a screen or a page shows, and it keeps SVG files small
_WIDE = 50  # a span of values beyond which only a logarithmic axis shows both ends


Paths = str | Path | Sequence[str | Path]
"""Where a picture is written: one file, or the same picture in several forms."""


@contextmanager
def drawing(paths: Paths, width_in: float, height_in: float) -> Iterator[Figure]:
    """A figure in the common style that becomes files, SVG or PNG by their suffixes, when the block ends.

    Equal figures give equal bytes: no dates, fixed identifiers. A file gets its name only when complete.
    Raises InputError for another suffix or where a file cannot be written.
    """
    targets = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    for target in targets:
        if target.suffix.lower() not in (".svg", ".png"):
            raise InputError(f"{target}: a picture is written as .svg or .png; choose one of these suffixes")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()  # a reader's own matplotlibrc must not change the file
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        yield figure
        for target in targets:
            _save(figure, target)


def _save(figure: Figure, target: Path) -> None:
    form = target.suffix.lower().removeprefix(".")
    stage = target.with_name(f".{target.name}-{secrets.token_hex(8)}")
    metadata = {"Date": None} if form == "svg" else None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            figure.savefig(stage, format=form, dpi=150, metadata=metadata)
            stage.replace(target)
        finally:
            stage.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{target}: cannot write the picture ({reason}); choose another place") from error


def draw_distribution(
    paths: Paths, curves: Sequence[Array], names: Sequence[str], kind: Kind, name: str, title: str
) -> None:
    """Draw which share of the jobs stays at or below each value of a measure.

    curves: sorted values, at least one each, which `names` tell apart. kind, name: of the measure. Raises InputError
    for another suffix.
    """
    high = max(curve[-1] for curve in curves)
    with drawing(paths, 7.6, 4.4) as figure:
        axes = figure.subplots()
        for i, (curve, label) in enumerate(zip(curves, names, strict=True)):
            x, share = _cdf(curve, high)
            look = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
            # Above the frame: a curve of zeros runs along the axis.
            axes.step(
                x,
                100 * share,
                where="post",
                linewidth=1.8,
                label=label,
                clip_on=False,
                zorder=3 + i % len(DASHES),
                **look,
            )
        scale_x(axes, kind, name, curves)
        axes.set_ylim(0, 100)
        axes.set_ylabel("Jobs (%)")
        axes.set_title(title)
        if len(curves) > 1:
            figure.legend(loc="outside right center")


def _cdf(values: Array, high: float) -> tuple[Array, Array]:
    """Points of the empirical distribution of sorted values, led on to `high`; all of the upper tail."""
    n = len(values)
    share = np.arange(1, n + 1) / n
    if n > 2 * MOST_STEPS:
        shown = np.unique(np.linspace(0, n - 1, MOST_STEPS).astype(np.int64))
        shown = np.union1d(shown, np.arange(n - MOST_STEPS // 3, n))
        values, share = values[shown], share[shown]
    return np.concatenate((values[:1], values, [high])), np.concatenate(([0.0], share, [1.0]))


def scale_x(axes: Axes, kind: Kind, name: str, values: Sequence[Array]) -> None:
    """Set scale, limits, ticks and label of an x axis for values in seconds, ratios or fractions of 1.

    Wide spans get a logarithmic axis with ticks in familiar units; zero stays visible on it. The
    caller plots values as they are.
    """
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    positive = min((float(v[v > 0].min()) for v in values if np.any(v > 0)), default=1.0)
    if high <= _WIDE * (low if kind == "ratio" else positive):
        _scale_linear(axes, kind, name, low, high)
        return
    if kind == "percent":
        _scale_with_zero(axes, linear_to=0.01, high=high, ticks={0.0: "0"} | _powers(1e-2, high, _percent))
    elif low > 0:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.1, high * 1.1)
        named = _durations if kind == "time" else _round_numbers
        _set_ticks(axes, named(low / 1.1, high * 1.1))
    else:
        _scale_with_zero(axes, linear_to=1.0, high=high, ticks={0.0: "0"} | _durations(1.0, high * 1.1))
    axes.set_xlabel(name)


def _scale_linear(axes: Axes, kind: Kind, name: str, low: float, high: float) -> None:
    room = 0.03 * (high - low) or 0.5 * abs(high) or 0.01
    axes.set_xlim(low - room, high + room)
    if kind == "percent":
        axes.xaxis.set_major_formatter(lambda at, _: _percent(at))
    elif kind == "time":
        unit = time_unit([high])
        scaled_ticks(axes, TIME_UNITS[unit])
        name = f"{name} ({unit})"
    axes.set_xlabel(name)


def scaled_ticks(axes: Axes, unit: float) -> None:
    """Round tick marks in multiples of a unit on an x axis whose data are in its base."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = axes.get_xlim()
    locator = MaxNLocator(nbins=9, steps=[1, 2, 2.5, 5, 10])
    at = [tick * unit for tick in locator.tick_values(low / unit, high / unit) if low <= tick * unit <= high]
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / unit:g}"))
    axes.set_xticks(at)


def _scale_with_zero(axes: Axes, linear_to: float, high: float, ticks: dict[float, str]) -> None:
    axes.set_xscale("symlog", linthresh=linear_to, linscale=0.4)
    _set_ticks(axes, ticks)  # may widen the limits, so they are set afterwards
    axes.set_xlim(-0.12 * linear_to, max(high * 1.15, linear_to))


def _set_ticks(axes: Axes, ticks: dict[float, str]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())


def _powers(first: float, high: float, text: Any) -> dict[float, str]:
    exponents = range(max(1, int(np.floor(np.log10(high / first)))) + 1)
    return {first * 10.0**k: text(first * 10.0**k) for k in exponents}


def _durations(low_s: float, high_s: float) -> dict[float, str]:
    ticks: dict[float, str] = {}
    for marks in (_TICKS_S, _FINE_TICKS_S):
        named = {n * TIME_UNITS[unit]: f"{n} {unit}" for unit, numbers in marks.items() for n in numbers}
        ticks = {at: text for at, text in named.items() if low_s <= at <= high_s}
        if len(ticks) >= _FEW:
            break
    return ticks


def _round_numbers(low: float, high: float) -> dict[float, str]:
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 3) if len(decades) <= _FEW else (1,)
    ticks = {step * 10.0**k: f"{step * 10.0**k:,.10g}" for k in decades for step in steps}
    return {at: text for at, text in ticks.items() if low <= at <= high}


def _percent(frac: float) -> str:
    return f"{100 * frac:,.10g} %"
