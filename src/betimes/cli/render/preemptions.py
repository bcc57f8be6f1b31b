"""What preemptions have cost, as a job's story shows it: its own, and those of others for its sake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from betimes.cli.render.tables import Column

if TYPE_CHECKING:
    from betimes.service.views.models import PreemptionView

_COLUMNS = (
    Column("Told"),
    Column("Job", right=True),
    Column("Run", rank=5, right=True),
    Column("Made room for", flexible=True),
    Column("Grace", rank=3, right=True),
    Column("Cost", right=True),
    Column("Vacating", rank=1, right=True),
    Column("Redone", rank=1, right=True),
    Column("Restart", rank=1, right=True),
    Column("Waited", rank=2, right=True),
    Column("Policy", rank=4, flexible=True),
)


def show_preemptions(title: str, preemptions: Sequence[PreemptionView], at_now: float, *, wide: bool) -> None:
    """A table under a title, in node-seconds; nothing where there is no preemption."""
    from betimes.cli.render.tables import say, show

    if preemptions:
        say("", title)
        show(_COLUMNS, [_row(one, at_now) for one in preemptions], wide=wide)


def _row(one: PreemptionView, at_now: float) -> list[str]:
    from betimes.cli.render.times import clock
    from betimes.units import length

    return [
        clock(one.told_at, at_now),
        str(one.job_id),
        str(one.run),
        ", ".join(map(str, one.by)),
        length(one.grace_s),
        _cost(one.cost_node_s) if one.vacating_node_s is not None else "",
        _cost(one.vacating_node_s),
        _cost(one.lost_node_s),
        _cost(one.restart_node_s),
        length(one.waiting_s) if one.waiting_s is not None else "",
        one.policy,
    ]


def _cost(node_s: float | None) -> str:
    from betimes.cli.render.jobs import node_seconds

    return node_seconds(node_s) if node_s is not None else ""
