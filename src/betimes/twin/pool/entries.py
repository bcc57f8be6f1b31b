"""Entries for the pool's loop and external events of its jobs, called by a driver in Python."""

from __future__ import annotations

from betimes.core import shares
from betimes.core.pool import external_events, snapshot
from betimes.core.pool import placement as pool_placement
from betimes.core.pool.columns import State
from betimes.kernels import entry
from betimes.twin.pool import event_loop

advance = entry(event_loop.advance)
take_slot = entry(event_loop.take_slot)
queue_up = entry(event_loop.queue_up)
rank_anew = entry(event_loop.rank_anew)
expect_finish = entry(external_events.expect_finish)
withdraw = entry(external_events.withdraw)
hold = entry(external_events.hold)
count_held = entry(shares.count_held, State, int, float, float)
lose = entry(external_events.lose)
believe = entry(external_events.believe)
set_width = entry(external_events.set_width)
settle_instant = entry(external_events.settle_instant)
change_units = entry(external_events.change_units)
place_on = entry(pool_placement.place_on)
copy_beliefs = entry(snapshot.copy_beliefs)
copy_into = entry(snapshot.copy_into)
expect_ends = entry(snapshot.expect_ends)

ENTRIES = (
    advance,
    take_slot,
    queue_up,
    rank_anew,
    expect_finish,
    withdraw,
    hold,
    count_held,
    lose,
    believe,
    set_width,
    settle_instant,
    change_units,
    place_on,
    copy_beliefs,
    expect_ends,
)
"""All of them, to be compiled beforehand."""
