"""The service's proposal after a new search: each objective under the policy in force and under the proposed point."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.service.views.models import Proposal


def show_proposal(found: Proposal) -> None:
    """Print the reason for the search, the changes, and the command that adopts the proposal."""
    from betimes.cli.render.tables import Column, say, show
    from betimes.cli.render.times import both, now

    names = f" ({', '.join(found.names)})" if found.names else ""
    say("", f"Tuned again {both(found.at, now())}: {found.reason.text}.")
    rows = [
        (name, _text(unit, (found.in_force or {}).get(name)), _text(unit, found.proposed[name]))
        for name, unit in found.units.items()
    ]
    columns = (
        Column("Objective"),
        Column("In force", right=True),
        Column(f"Point {found.point}{names}", right=True),
    )
    show(columns, rows)
    say(f"`betimes policy set front:{found.point}` puts it in force.")
    if found.not_applied is not None:
        say(f"Not done by itself: {found.not_applied}.")


def _text(unit: str, value: float | None) -> str:
    from betimes.units import humanise_s

    if value is None:
        return "some job never ends"
    if unit == "s":
        return humanise_s(value)
    return f"{value:.2%}" if unit == "frac" else f"{value:.3g}"
