"""`betimes policy portfolio`: choices of the portfolio in force so far, and their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State

if TYPE_CHECKING:
    from betimes.service.views.models import PortfolioView, SelectionView

_COLUMNS = (
    Column("At"),
    Column("Chosen", flexible=True),
    Column("Score", right=True),
    Column("Best other", rank=2, flexible=True),
    Column("Waiting", rank=3, right=True),
    Column("Slowdown\nexpected", rank=1, right=True),
    Column("Slowdown\nsince", rank=1, right=True),
    Column("Simulated", rank=4, right=True),
    Column("Note", flexible=True),
)


def portfolio(
    last: Annotated[int, Option("--last", min=1, max=1000, help="So many selections, newest first.")] = 20,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Show what the portfolio in force has chosen, what it expected, and what came of it.

    The best other member has a better score than the chosen one where its lead was not confirmed by further
    simulations. Slowdowns are means, bounded, of the jobs that waited at the selection: as foreseen, and of those that
    have finished since.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = service.portfolio(last)
    if as_json:
        print_json(found)
    else:
        _print(found, wide=output is not None)


def _print(found: PortfolioView, *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show

    if not found.selections:
        hint = "no job has waited at one of its ticks"
        if not found.policy.removeprefix("nodes:").startswith("portfolio"):
            hint = "it is no portfolio; `betimes policy set portfolio` puts one in force"
        say(f"The policy in force, {found.policy}, has selected nothing yet: {hint}")
        return
    if found.member is not None:
        say(f"{found.member} decides, of {found.policy}")
    show(_COLUMNS, [_row(one) for one in found.selections], wide=wide)


def _row(one: SelectionView) -> list[str]:
    from betimes.cli.render.times import clock, now

    others = {name: score for name, score in one.scores.items() if score is not None and name != one.member}
    ends = min if one.smallest_wins else max
    best = ends(others, key=lambda name: others[name], default=None)
    note = one.problem or (
        "reported only" if not one.in_force else "" if one.member != one.before else "stays"
    )
    return [
        clock(one.at, now()),
        one.member or "-",
        _number(one.score),
        "" if best is None else f"{best} {_number(others[best])}",
        str(one.waiting),
        _number(one.slowdown),
        "" if one.slowdown_since is None else f"{_number(one.slowdown_since)} ({one.finished})",
        str(len(one.scores)),
        note,
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
