"""Splits waiting jobs into other tasks after a change of the nodes."""

from __future__ import annotations

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.external_events import unbind
from betimes.core.nodes.machines.dedicated import decide_wait
from betimes.core.nodes.queue import remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import enqueue, unbook
from betimes.core.status import DONE
from betimes.kernels import Ints, kernel
from betimes.twin.nodes.event_loop import Trace, rank, set_tasks


@kernel
def split_anew(state: NodesState, rules: NodesRules, trace: Trace, slots: Ints) -> int:
    """The waiting jobs slots[k] are the tasks of trace.arrivals[k] from now on; DONE, or why an answer cannot be used.

    They give up what they are bound to, and their reservations. If a job's fit on owned machines has changed, the
    policy sets its waiting deadline again.
    """
    for k in range(len(slots)):
        slot = slots[k]
        job, need = state.jobs[slot], state.needs[slot]
        asks = rules.waits and (need.bound >= 0 or need.fits_no_owned != trace.arrivals[k].fits_no_owned)
        if need.bound >= 0:
            unbind(state, slot)
        elif need.dedicated == 0:
            remove(state, slot)
        unbook(state, slot)
        set_tasks(need, trace.arrivals[k])
        need.freed_seen = -1
        key = job.key
        status = rank(state, rules, slot)
        if status != DONE:
            return status
        if rules.requeues_last:
            job.key = key
        if asks:
            status = decide_wait(state, rules, slot)
            if status != DONE:
                return status
        if need.dedicated == 0:
            enqueue(state, slot)
    state.cluster[0].changed += 1
    state.cluster[0].must_replan = 1
    return DONE
