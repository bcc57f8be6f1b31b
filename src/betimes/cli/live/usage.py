"""`betimes usage` and `betimes efficiency`: what jobs have used, and of what they had asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from betimes.cli.live.jobs.ids import Ids
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State
from betimes.errors import InputError
from betimes.printing import printable

if TYPE_CHECKING:
    from betimes.service.views.models import EfficiencyView, UsageFigures

_COLUMNS = (
    Column("", flexible=True),
    Column("Jobs", right=True),
    Column("Unit\nhours", right=True),
    Column("Core\nhours", right=True),
    Column("GPU\nhours", right=True),
    Column("Cost", right=True),
    Column("Mean\nwait", right=True),
)
_RENTED = Column("Of that\nrented", right=True)
_OF_USERS = (Column("Of\nlate", right=True), Column("Share", right=True))


def usage(
    since: Annotated[
        str | None,
        Option(
            "--since", metavar="TIME", help="From so long ago, as in 7d; by default all.", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None,
        Option(
            "--until", metavar="TIME", help="Until so long ago; by default until now.", show_default=False
        ),
    ] = None,
    by: Annotated[
        Literal["user", "group", "name", "label", "account"] | None,
        Option(
            "--by",
            help="Also what each of them used; group: of users, as the service's settings have them; of "
            "labels, a job counts in each; account: that of sbatch --account.",
            show_default=False,
        ),
    ] = None,
    as_csv: Annotated[bool, Option("--csv", help="Print a table of comma-separated values.")] = False,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Show what jobs used: hours of their units, and of the cores and GPUs of these, money, and how long they waited.

    Of runs that began earlier, or go on, the part within the period counts. Rented machines cost what their leases do;
    a job that shares one pays its share, as with budgets, and what no job held has its line. Work on other
    machines is at their present prices. The wait is that of the jobs that started in the period. Of users who share,
    also the part that each has had of late, by the half-life of --fair-share, and the share by weight.
    """
    from betimes.cli.duration_options import parse_option
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show
    from betimes.units import usd

    since_s = None if since is None else parse_option("--since", since)
    until_s = 0.0 if until is None else parse_option("--until", until)
    if since_s is not None and since_s <= until_s:
        end = "now" if until is None else f"{until} ago"
        raise InputError(f"--since {since}: the period ends ({end}) before it begins; give a longer time")
    if as_csv and as_json:
        raise InputError("--csv: --json is given as well; leave one of them out")
    with connect(state) as service:
        found = service.usage(since_s, until_s, by=by)
    if as_json:
        print_json(found)
        return
    rows = [(group.name, group.figures) for group in found.groups]
    if as_csv:
        _print_csv(by or "group", rows if by else [("all", found.total)])
        return
    if not (found.total.jobs or found.total.rented_usd):
        say("No job ran in this time.")
        return
    shared = any(group.recent_frac is not None for group in found.groups)
    rents = found.total.rented_usd is not None
    rest = [_unused(found.unused_usd)] if by and found.unused_usd is not None else []
    cells = [*(_row(*each) for each in rows), *rest, _row("all", found.total)]
    if rents:
        rented = [*(figures.rented_usd for _, figures in rows), *[found.unused_usd] * len(rest)]
        for row, each in zip(cells, [*rented, found.total.rented_usd], strict=True):
            row.append(usd(each))
    if shared:
        for row, group in zip(cells, [*found.groups, *[None] * len(rest), None], strict=True):
            parts = (group.recent_frac, group.share_frac) if group is not None else (None, None)
            row += ["" if part is None else f"{part:.0%}" for part in parts]
    columns = (*_COLUMNS, *[_RENTED] * rents, *(_OF_USERS if shared else ()))
    show(columns, cells, wide=output is not None)


def efficiency(ids: Ids, state: State = None, as_json: Json = False) -> None:
    """Show what jobs used of what they asked for, and what to ask for next time. An array's number means all of it."""
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show_pairs

    with connect(state) as service:
        found = [service.efficiency(number) for number in resolve(service, ids)]
    if as_json:
        print_json(found if len(found) > 1 else found[0])
        return
    for at, one in enumerate(found):
        say(*[""] * (at > 0), f"Job {one.job_id}" + (f", {one.jobs:,} jobs" if one.jobs > 1 else ""))
        show_pairs(_pairs(one))


def _row(name: str, figures: UsageFigures) -> list[str]:
    from betimes.units import length, usd

    held = (figures.unit_h, figures.core_h, figures.gpu_h)
    hours = (length(each * 3600.0) if 0.0 < each < 1.0 else f"{each:,.1f}" for each in held)
    wait = "" if figures.mean_wait_s is None else length(figures.mean_wait_s)
    return [name, f"{figures.jobs:,}", *hours, usd(figures.cost_usd), wait]


def _unused(unused_usd: float) -> list[str]:
    """Rented machines while no job held them."""
    from betimes.units import usd

    return ["(boot, idle, rest of a paid step)", "", "", "", "", usd(unused_usd), ""]


def _print_csv(by: str, rows: list[tuple[str, UsageFigures]]) -> None:
    import csv

    table = csv.writer(sys.stdout, lineterminator="\n")
    names = ("jobs", "unit_h", "core_h", "gpu_h", "cost_usd", "mean_wait_s", "rented_usd")
    table.writerow([by, *names])
    for name, figures in rows:
        table.writerow([printable(name), *(getattr(figures, each) for each in names)])


def _pairs(one: EfficiencyView) -> list[tuple[str, str]]:
    from betimes.units import gib, length

    pairs = list[tuple[str, str]]()
    if one.runs:
        runs = f", {one.runs:,} runs" if one.runs > 1 else ""
        pairs.append(("ran", f"{length(one.run_s)}{runs}"))
    if one.core_asked_s is not None and one.core_used_s is not None:
        share = one.core_used_s / one.core_asked_s if one.core_asked_s else 0.0
        pairs.append(("cores", f"{share:.0%} of {length(one.core_asked_s)} of core time"))
    if one.memory_used_gib is not None:
        most = (
            f"of {gib(one.memory_asked_gib)}" if one.memory_asked_gib else "at most; no limit was asked for"
        )
        pairs.append(("memory", f"{gib(one.memory_used_gib)} {most}"))
    if one.time_limit_s is not None and one.longest_run_s is not None:
        pairs.append(("time", f"{length(one.longest_run_s)} at most, of {length(one.time_limit_s)}"))
    known = one.core_used_s is not None or one.memory_used_gib is not None
    pairs += [("note", note) for note in one.notes]
    if one.advice or known:
        pairs.append(("next time", " ".join(one.advice) or "as it is"))
    return pairs
