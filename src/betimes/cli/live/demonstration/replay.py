"""A trace that is replayed by a service in a process of its own, followed to its end."""

from __future__ import annotations

import sys
import time

from betimes.cli.live.demonstration.child import Child
from betimes.cli.live.replayed import EVERY_S, Tally, sum_up
from betimes.cli.render.progress import Display
from betimes.cli.render.tables import say
from betimes.client import Client
from betimes.errors import BetimesError, NotReachable


def replay(child: Child, *, once: bool, as_json: bool) -> None:
    """Follow the replay to its end, sum it up, and unless `once` wait for Ctrl-C."""
    say_it = not as_json
    tally = Tally(child.ready["replayed_jobs"])
    display = Display()
    with Client(state=child.state) as service:
        if say_it:
            say(
                f"A service runs at {child.ready['url']}, under the policy {child.ready['policy']}, and is given "
                f"{tally.jobs:,} jobs of the trace.",
                f"Its state is in {child.state}.",
            )
        try:
            with display.shown():
                _follow(service, tally, display, say_it)
            sum_up(tally, as_json)
            if not once:
                _stay(child)
        except NotReachable:
            if child.process.poll() is None:
                raise
            raise BetimesError(f"the service has ended: {child.fault()}") from None
        except KeyboardInterrupt:
            if once:
                raise
            say("", f"The service stops. What happened is kept in {child.state}.")


def _follow(service: Client, tally: Tally, display: Display, say_it: bool) -> None:
    told = time.monotonic()
    with_bar = sys.stderr.isatty()
    for event in service.events(follow=True):
        tally.take(event.at, event.kind, event.job_id, event.data)
        display.at("replay", str(tally), tally.over, tally.jobs)
        if say_it and not with_bar and time.monotonic() - told >= EVERY_S:
            told = time.monotonic()
            say(f"  {tally}")
            sys.stdout.flush()
        if tally.over == tally.jobs:
            return


def _stay(child: Child) -> None:
    say(
        "",
        "The service runs on until you press Ctrl-C here. In another terminal:",
        "",
        f"  export BETIMES_STATE={child.state}",
        "  betimes jobs --all",
        "  betimes job 2",
    )
    sys.stdout.flush()
    child.process.wait()
    raise BetimesError(f"the service has ended: {child.fault()}")
