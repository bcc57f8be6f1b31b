"""`betimes fleet`: rented machines, their cost, and the next changes by the policy in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Output, State

if TYPE_CHECKING:
    from betimes.service.views.models import FleetMove, FleetPlanView, FleetView

_MACHINES = (
    Column("Machine", flexible=True),
    Column("Type"),
    Column("Status"),
    Column("USD/h", right=True),
    Column("Jobs", flexible=True),
)
_STEPS = (
    Column("Step"),
    Column("Job", right=True),
    Column("Machine", flexible=True),
    Column("Why", flexible=True),
)


def fleet(state: State = None, output: Output = None, as_json: Json = False) -> None:
    """Show the rented machines, their cost and the plan."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = service.fleet()
    if as_json:
        print_json(found)
    else:
        _print(found, wide=output is not None)


def plan(state: State = None, output: Output = None, as_json: Json = False) -> None:
    """Show what the policy in force would rent, give back and move now, and why; nothing is changed by that."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = service.fleet_plan()
    if as_json:
        print_json(found)
    else:
        _print_plan(found, wide=output is not None)


def _print(found: FleetView, *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show

    if not found.machines:
        say(f"Nothing is rented under policy {found.policy}")
        return
    show(
        _MACHINES,
        [
            [one.name, one.type, one.status, f"{one.usd_per_h:g}", ", ".join(map(str, one.jobs))]
            for one in found.machines
        ],
        wide=wide,
    )
    said = f"{len(found.machines)} rented, ${found.usd_per_h:.4g} an hour"
    if found.no_packing_usd_per_h is not None:
        said += f"; a machine for each task would be ${found.no_packing_usd_per_h:.4g}"
    say(said)
    for one in found.moves:
        say(_moved(one))


def _moved(one: FleetMove) -> str:
    from betimes.units import usd

    planned = f"{usd(one.expected_saving_usd_per_h)} an hour for {usd(one.expected_cost_usd)}"
    if one.saving_usd_per_h is None:
        return f"Job {one.job} moves: expected to save {planned}"
    came = f"{usd(one.saving_usd_per_h)} an hour for {usd(one.cost_usd or 0.0)}"
    return f"Job {one.job} has moved: it saves {came}; expected: {planned}"


def _print_plan(found: FleetPlanView, *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import clock, now

    when = "" if found.at is None else f"; the next round is at {clock(found.at, now())}"
    if not found.steps:
        say(f"{found.policy} would change nothing now{when}")
        return
    show(
        _STEPS,
        [
            [one.kind, "" if one.job is None else str(one.job), one.machine or one.type or "", one.reason]
            for one in found.steps
        ],
        wide=wide,
    )
    more = "more" if found.usd_per_h_change >= 0 else "less"
    say(f"The fleet would then cost ${abs(found.usd_per_h_change):.4g} an hour {more}{when}")
