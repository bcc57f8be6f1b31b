"""`betimes fleet`: rented machines, their cost, and the next changes by the policy in force; `betimes down`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from betimes.cli.render.tables import Column
from betimes.cli.verbs import Argument, Json, Option, Output, State
from betimes.errors import InputError, ServiceError

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient
    from betimes.service.views.models import FleetMove, FleetPlanView, FleetReconfiguration, FleetView

LOOK_S, PATIENCE_S = 0.2, 120.0  # for a service that stops, and machines that go

_MACHINES = (
    Column("Machine", flexible=True),
    Column("Type", rank=3),
    Column("Status"),
    Column("USD/h", right=True),
    Column("Since", right=True),
    Column("Paid until", right=True, rank=2),
    Column("Cost", right=True),
    Column("Why", rank=1, flexible=True),
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


def release(
    machines: Annotated[
        list[str], Argument(metavar="NAME...", help="Names of rented machines.", show_default=False)
    ],
    now: Annotated[
        bool,
        Option(
            "--now", help="With what runs there, which is requeued; else once nothing runs there any more."
        ),
    ] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Give rented machines back; the policy may rent others."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = [service.give_back(name, now=now) for name in machines][-1]
    if as_json:
        print_json(found)
    else:
        _print(found, wide=False)


def doctor(
    cloud: Annotated[
        str,
        Option(
            "--cloud",
            required=True,
            metavar="FILE.toml",
            help="The cluster file with offers and a table [ec2].",
            show_default=False,
        ),
    ],
    policy: Annotated[
        bool,
        Option("--policy", help="Only print the policy of IAM that the service needs; nothing is checked."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check an account of AWS for `betimes up --fleet ec2`; nothing is rented.

    Credentials, image, network, and for each offer its type, zones, price and quota, and whether it would be rented.
    Exits with 1 if something is wrong. With --json an array of `check`, `node` (the offer's type; null: all), `ok`,
    `text`.
    """
    from betimes.cli.live.doctor import show_findings
    from betimes.cli.render.as_json import print_json
    from betimes.service.executors.rented.ec2_doctor import Doctor, policy_of
    from betimes.service.executors.rented.ec2_file import read_ec2
    from betimes.service.machines.cloud_file import read_offers

    settings, offers = read_ec2(cloud, read_offers(cloud))
    if policy:
        print_json(policy_of(settings, offers))
    else:
        show_findings(Doctor(settings, offers).examine(), as_json)


def down(
    release_all: Annotated[
        bool,
        Option(
            "--release-all",
            help="First give back all rented machines, with what runs there, and wait until they are gone.",
        ),
    ] = False,
    state: State = None,
) -> None:
    """Stop the service on this machine; jobs that run on it go on, and are known to the next service.

    Rented machines stay rented, unless --release-all is given.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.render.tables import say
    from betimes.service.access.address import find_service, read_address

    found = find_service(state=state)
    address = read_address(found.state) if found.state is not None else None
    if found.state is None or address is None:
        raise InputError(
            f"the service at {found.url} is stopped where it runs; name a state directory (--service DIR)"
        )
    with connect(state) as service:
        if release_all:
            _release_all(service)
        left = [one.name for one in service.fleet().machines]
    _stop(address.pid)
    say(f"The service of {found.state} has stopped.")
    if left:
        say(f"Still rented, and paid for: {', '.join(left)}; `betimes down --release-all` gives all back.")


def _release_all(service: PlainClient) -> None:
    import time

    from betimes.cli.render.tables import say
    from betimes.units import usd

    rented = {one.name: one.cost_usd for one in service.fleet().machines}
    fleet, by_s = service.give_back(now=True), time.monotonic() + PATIENCE_S
    while fleet.machines or fleet.going:
        if time.monotonic() > by_s:
            raise ServiceError(
                f"{len(fleet.machines) + fleet.going} machines are not given back after {PATIENCE_S:g} s; the service "
                "runs on and tries again (`betimes fleet`, and the service's log)"
            )
        rented.update((one.name, one.cost_usd) for one in fleet.machines)
        time.sleep(LOOK_S)
        fleet = service.fleet()
    if rented:
        each = ", ".join(f"{name} ({usd(cost_usd)})" for name, cost_usd in rented.items())
        together = usd(sum(rented.values()))
        say(f"Given back: {each}; together {together}. All machines of today: {usd(fleet.today_usd)}.")


def _stop(pid: int) -> None:
    import os
    import signal
    import time

    from betimes.service.executors.supervision import processes

    ticks, by_s = processes.start_ticks(pid), time.monotonic() + PATIENCE_S
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise InputError(f"the service (pid {pid}) is another user's; stop it as that user") from None
    while processes.lives(pid, ticks):
        if time.monotonic() > by_s:
            raise ServiceError(f"the service (pid {pid}) has not stopped within {PATIENCE_S:g} s")
        time.sleep(LOOK_S)


def _print(found: FleetView, *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import clock, now, relative
    from betimes.units import usd

    spent = f"{usd(found.today_usd)} today, {usd(found.month_usd)} this month"
    going = f"; {found.going} more being given back" if found.going else ""
    if found.no_more is not None:
        going += f"; nothing more is rented, since {found.no_more}"
    at_now = now()
    if found.plans_at is not None:
        going += f"; {found.policy} plans next at {clock(found.plans_at, at_now)}"
    if not found.machines:
        say(f"Nothing is rented under policy {found.policy}; spent: {spent}{going}")
        return
    show(
        _MACHINES,
        [
            [
                one.name,
                one.type,
                one.status,
                f"{one.usd_per_h:g}",
                relative(one.rented_at, at_now),
                clock(one.paid_until_at, at_now) if one.paid_until_at is not None else "",
                usd(one.cost_usd),
                one.why,
                ", ".join(map(str, one.jobs)),
            ]
            for one in found.machines
        ],
        wide=wide,
    )
    text = f"{len(found.machines)} rented, ${found.usd_per_h:.4g} an hour"
    if found.no_packing_usd_per_h is not None:
        text += f"; a machine for each task would be ${found.no_packing_usd_per_h:.4g}"
    say(text)
    say(f"Spent: {spent}{going}")
    if found.reconfiguration is not None:
        say(_reconfigured(found.reconfiguration, at_now))
    for one in found.moves:
        say(_moved(one))


def _reconfigured(one: FleetReconfiguration, at_now: float) -> str:
    from betimes.cli.render.times import clock
    from betimes.units import usd

    jobs = f"job{'' if len(one.jobs) == 1 else 's'} {', '.join(map(str, one.jobs))}"
    planned = f"{usd(one.expected_saving_usd_per_h)} an hour as a whole, for {usd(one.expected_cost_usd)}"
    return (
        f"Last reconfiguration, {clock(one.decided_at, at_now)}: moves {jobs}; ends {one.ended} machine"
        f"{'' if one.ended == 1 else 's'}, rents {one.rented}; expected to save {planned}"
    )


def _moved(one: FleetMove) -> str:
    from betimes.units import usd

    planned = f"{usd(one.expected_saving_usd_per_h)} an hour for {usd(one.expected_cost_usd)}"
    if one.saving_usd_per_h is None:
        return f"Job {one.job} moves: expected to save {planned}"
    came = f"{usd(one.saving_usd_per_h)} an hour for {usd(one.cost_usd)}"
    return f"Job {one.job} has moved: it saves {came}; expected: {planned}"


def _print_plan(found: FleetPlanView, *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import clock, now
    from betimes.units import usd

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
    moving = f", for {usd(found.moves_usd)} that the moves cost" if found.moves_usd else ""
    say(f"The fleet would then cost ${abs(found.usd_per_h_change):.4g} an hour {more}{moving}{when}")
