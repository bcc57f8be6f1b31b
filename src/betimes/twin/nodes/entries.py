"""Entries for external events of jobs and nodes, called by a driver in Python; the loop itself is `run_rows`."""

from __future__ import annotations

from betimes.core.nodes import external_events, rates, snapshot, transitions
from betimes.core.nodes.machines import dedicated as dedicated_machines
from betimes.kernels import entry
from betimes.twin.nodes import event_loop

take_slot = entry(event_loop.enter)
wait = entry(event_loop.wait)
lose = entry(external_events.lose)
unbind = entry(external_events.unbind)
expect_finish = entry(external_events.expect_finish)
expect_leaving = entry(external_events.expect_leaving)
withdraw = entry(external_events.withdraw)
believe = entry(external_events.believe)
re_rate_job = entry(rates.re_rate_job)
open_node = entry(external_events.open_node)
expect_openings = entry(external_events.expect_openings)
hold = entry(external_events.hold)
bind = entry(external_events.bind)
book = entry(transitions.book)
settle_binding = entry(transitions.settle_binding)
resume_alone = entry(dedicated_machines.resume_alone)
start_alone = entry(dedicated_machines.start_alone)
stop_alone = entry(dedicated_machines.stop_alone)
wait_until = entry(dedicated_machines.wait_until)
speculate_until = entry(dedicated_machines.speculate_until)
copy_into = entry(snapshot.copy_into)
expect_ends = entry(snapshot.expect_ends)
split_anew = entry(event_loop.split_anew)

ENTRIES = (
    take_slot,
    wait,
    lose,
    unbind,
    expect_finish,
    expect_leaving,
    withdraw,
    believe,
    re_rate_job,
    open_node,
    expect_openings,
    hold,
    bind,
    book,
    settle_binding,
    resume_alone,
    start_alone,
    stop_alone,
    wait_until,
    speculate_until,
    copy_into,
    expect_ends,
    split_anew,
)
"""All of them, to be compiled beforehand."""
