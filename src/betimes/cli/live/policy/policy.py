"""`betimes policy`: show the policy in force, the service's proposal after a new search, or change it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.verbs import Argument, Json, Output, State

if TYPE_CHECKING:
    from betimes.service.views.models import PolicyView, Proposal


_LONG_S = 3.0


def show(state: State = None, as_json: Json = False) -> None:
    """Show the policy in force, and since when it is."""
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        _print(service.policy(), as_json)


def put(
    text: Annotated[
        str,
        Argument(
            metavar="NAME[:k=v,...]",
            help="A policy of `betimes policies`; pool:fifo and nodes:fifo tell engines apart. front:3 and "
            "front:PCS-balanced are points of the latest front of `betimes tune --live`.",
            autocompletion=complete_policy,
            show_default=False,
        ),
    ],
    state: State = None,
    as_json: Json = False,
) -> None:
    """Put another policy in force, while jobs run."""
    from betimes.cli.live.connection import connect
    from betimes.service.spec.spelling import with_full_names

    with connect(state) as service, _patience():
        found = service.set_policy(with_full_names(text, Path()))
    _print(found, as_json)


def front(state: State = None, output: Output = None, as_json: Json = False) -> None:
    """Show the latest front of `betimes tune --live`, or of the service's own accord."""
    from betimes.cli.live.connection import connect
    from betimes.cli.live.policy.tune_live import show_front
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = service.tuning()
    if as_json:
        print_json(found)
    else:
        show_front(found, wide=output is not None)


@contextmanager
def _patience() -> Iterator[None]:
    """Print the reason if the block takes long."""
    import sys
    from threading import Timer

    text = "betimes: note: the service compiles what the policy needs, a minute or two the first time"
    timer = Timer(_LONG_S, lambda: print(text, file=sys.stderr, flush=True))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _print(found: PolicyView, as_json: bool) -> None:
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import both, now, sentence

    if as_json:
        print_json(found)
    else:
        where = "a pool" if found.engine == "pool" else "nodes"
        say(f"{found.policy} (on {where}), since {both(found.since_at, now())}")
        if found.unused is not None:
            say(f"{found.unused}.")
        if found.idle is not None:
            say(f"Its last decision started no job: {sentence(found.idle.text, now())}")
        if found.chosen is not None:
            show_chosen(found.chosen)
        if found.proposal is not None:
            show_proposal(found.proposal)


def show_proposal(found: Proposal) -> None:
    """Print the reason for the search, the changes, and the command that adopts the proposal."""
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import both, now

    say("", f"Tuned again {both(found.at, now())}: {found.reason.text}.")
    _compare(found, "In force")
    say(f"`betimes policy set front:{found.point}` puts it in force.")
    if found.not_applied is not None:
        say(f"Not done by itself: {found.not_applied}.")


def show_chosen(found: Proposal) -> None:
    """Print why the front was searched for whose point is in force, what that brings, and what it gives up."""
    from betimes.cli.render.fronts import traded
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import both, now

    say("", f"A point of the front of {both(found.at, now())}: {found.reason.text}.")
    _compare(found, f"{found.before}, before")
    if found.in_force is not None:
        _, worse = traded(found.units, found.in_force, found.proposed)
        say(f"It gives up {'; '.join(worse) if worse else 'nothing of these'}.")


def _compare(found: Proposal, before: str) -> None:
    from betimes.cli.render.fronts import value_text
    from betimes.cli.render.tables import Column, show

    names = f" ({', '.join(found.names)})" if found.names else ""
    rows = [
        (name, value_text(unit, (found.in_force or {}).get(name)), value_text(unit, found.proposed[name]))
        for name, unit in found.units.items()
    ]
    columns = (
        Column("Objective"),
        Column(before, right=True),
        Column(f"Point {found.point}{names}", right=True),
    )
    show(columns, rows)
