"""`betimes accuracy`: how well promises held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State
from betimes.errors import InputError
from betimes.units import length

if TYPE_CHECKING:
    from pathlib import Path

    from betimes.service.views.models import AccuracyFigures, AccuracyGroup, AccuracyView

_COLUMNS = (
    Column("Promise", flexible=True),
    Column("Jobs", right=True),
    Column("Kept", right=True),
    Column("Early", rank=4, right=True),
    Column("Late", rank=4, right=True),
    Column("Width", rank=3, right=True),
    Column("Off by\nmedian", right=True),
    Column("Off by\nmean", rank=5, right=True),
    Column("Off by\np90", rank=1, right=True),
    Column("Off by\np99", rank=6, right=True),
    Column("Bias", rank=2, right=True),
    Column("Off by\na factor 2", rank=7, right=True),
    Column("Far\nlate", rank=3, right=True),
    Column("Far\nearly", rank=3, right=True),
)
_BESIDE_SLURM = (
    Column("Jobs", flexible=True),
    Column("Promises", right=True),
    Column("Kept", right=True),
    Column("Off by\nmedian", right=True),
    Column("Bias\nmean", rank=2, right=True),
    Column("Slurm\nplanned", right=True),
    Column("Promise\noff by", right=True),
    Column("Slurm\noff by", right=True),
    Column("Slurm\nbias", rank=1, right=True),
    Column("Limit\noff by", rank=3, right=True),
)

_EXPLAINED = (
    "Kept: of the promises with an interval, those whose job ended in it; the others ended before it (early) or after.",
    "Width: of the interval, half of them below, in % of the promised time, which is that from the promise to the end.",
    "Off by: the true end from the promised one, in % of the promised time. 2 h that took 3 h are off by 50%.",
    "Bias: the mean of these with its sign; below 0 where jobs ended earlier than promised.",
    "Off by a factor 2: it took twice or half of the promised time, or worse. Far: five times, and by an hour.",
    "Users' estimates: if the user's own were the promise. One ratio for all: what a simple rule would have promised,",
    "the end by the present queue times one number.",
)


def accuracy(
    since: Annotated[
        str | None,
        Option(
            "--since",
            metavar="TIME",
            help="Jobs that finished since so long ago, as in 7d; by default all.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        Option(
            "--until",
            metavar="TIME",
            help="Jobs that finished until so long ago; by default until now.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        Literal["user", "name", "policy", "horizon", "partition"] | None,
        Option("--by", help="Also the figures of each of them.", show_default=False),
    ] = None,
    plot: Annotated[
        str | None,
        Option("--plot", metavar="FILE", help="Draw it (.svg or .png), too.", show_default=False),
    ] = None,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Show how well promises held: how many jobs were done within their interval, and what the others were off by.

    A promise is off by the true end less the promised one, in % of the promised time (from the promise to the end). Far
    late and far early are the shares that users feel: off by more than five times and by more than an hour. Beside the
    first and the latest promise of each job stand its user's own estimate, from the promised start on, and a simple
    rule: the end by the present queue, times one ratio for all.

    Beside Slurm a second table has the same in hours and minutes; and, of jobs that Slurm planned a start for while
    they waited, next to the promise the first start that `squeue --start` showed and the time limit after it, and that
    limit from the promise on. Jobs that waited over five minutes stand apart.
    """
    from betimes.cli.duration_options import parse_option
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    since_s = None if since is None else parse_option("--since", since)
    until_s = 0.0 if until is None else parse_option("--until", until)
    if since_s is not None and since_s <= until_s:
        end = "now" if until is None else f"{until} ago"
        raise InputError(f"--since {since}: the period ends ({end}) before it begins; give a longer time")
    with connect(state) as service:
        found = service.accuracy(since_s, until_s, by=by, promises=plot is not None)
    if plot is not None:
        _plot(found, plot)
    if as_json:
        print_json(found)
    else:
        _print(found, wide=output is not None)


def _print(found: AccuracyView, *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show

    if not found.first.promises:
        say("No promised job has finished in this time.")
        return
    rows = [
        _row("first", found.first),
        _row("latest", found.latest),
        _row("users' estimates", found.estimate),
        _row("one ratio for all", found.ratio),
    ]
    show(_COLUMNS, rows, wide=wide)
    say(*_EXPLAINED)
    if found.beside_slurm:
        say("", "Beside Slurm, first promises")
        show(_BESIDE_SLURM, [_beside(group) for group in (*found.beside_slurm, *found.groups)], wide=wide)
        say("Slurm planned: jobs with a start in `squeue --start`; the next columns are of these.")
        say("Bias: below 0 where jobs were done earlier than promised.")
    if found.groups:
        say("", f"First promises by {found.by}")
        show(_COLUMNS, [_row(group.name, group.figures) for group in found.groups], wide=wide)


def _row(name: str, figures: AccuracyFigures) -> list[str]:
    with_interval = figures.kept + figures.early + figures.late
    return [
        name,
        f"{figures.promises:,}",
        "" if not with_interval else f"{figures.cover_frac:.0%} of {with_interval:,}",
        f"{figures.early:,}" if with_interval else "",
        f"{figures.late:,}" if with_interval else "",
        _percent(figures.width_p50_frac),
        _percent(figures.err_p50_frac),
        _percent(figures.err_mean_frac),
        _percent(figures.err_p90_frac),
        _percent(figures.err_p99_frac),
        _percent(figures.bias_mean_frac, signed=True),
        _percent(figures.off_twice_frac),
        _share(figures.far_late_frac),
        _share(figures.far_early_frac),
    ]


def _beside(group: AccuracyGroup) -> list[str]:
    figures, slurm = group.figures, group.slurm
    assert slurm is not None, "Slurm is watched"
    with_interval = figures.kept + figures.early + figures.late
    return [
        group.name,
        f"{figures.promises:,}",
        f"{figures.cover_frac:.0%} of {with_interval:,}" if with_interval else "",
        _length(figures.err_p50_s),
        _length(figures.bias_mean_s),
        f"{slurm.slurm.promises:,}",
        *(_length(each.err_p50_s) for each in (slurm.promises, slurm.slurm)),
        _length(slurm.slurm.bias_mean_s),
        _length(slurm.limit.err_p50_s),
    ]


def _length(seconds: float | None) -> str:
    return "" if seconds is None else length(seconds)


def _share(frac: float | None) -> str:
    """A share of which a tenth of a per cent matters."""
    return "" if frac is None else f"{frac:.1%}"


def _percent(frac: float | None, *, signed: bool = False) -> str:
    if frac is None:
        return ""
    return f"{frac:+,.0%}" if signed else f"{frac:,.0%}"


def _plot(found: AccuracyView, path: str | Path) -> None:
    import numpy as np

    from betimes.outcome.accuracy import Promises
    from betimes.outcome.accuracy_plot import plot_accuracy

    rows = [
        (
            one.made_at,
            one.finish_at if one.finish_median_at is None else one.finish_median_at,
            one.finished_at,
            one.finish_low_at,
            one.finish_high_at,
            one.level,
        )
        for one in found.promises
    ]
    plot_accuracy(Promises(*np.array(rows, dtype=np.float64).reshape(-1, 6).T), path)
