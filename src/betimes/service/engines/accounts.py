"""The account of a job's work, from the columns of either engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.timers import EXPIRED
from betimes.core.work import SMALLEST_BELIEF_S, Accounts, expected_left_s
from betimes.kernels import FloatTable, as_array, entry

expected_left = entry(expected_left_s, FloatTable, int, float)


@dataclass
class Account:
    """A job's progress in its engine: true at `since_s`, when its units last changed."""

    since_s: float
    left_s: float  # work left as believed, seconds on one unit (on nodes: seconds)
    size_s: float  # total believed work, likewise
    attained: float  # unit-seconds held before
    stall_s: float  # of a restart, before work goes on
    entered_s: float  # when it first entered its engine
    seq: int  # order of entering: the tie-break everywhere
    preemptions: int = 0  # as counted by the core: repeated decisions at one instant count once
    resizes: int = 0
    waits_until_s: float | None = None  # then a machine is rented for it alone; null: none is
    speculated: bool = False  # it has run on one for as long as a short job may
    # In a pool, as of when this was written: events that it has seen, and the jobs active at each, summed up.
    seen_events: float = 0.0
    seen_active: float = 0.0

    def row(self) -> dict[str, Any]:
        """For events and snapshots; fields of some policies only, where they are set."""
        found = dict(vars(self))
        if self.waits_until_s is None:
            del found["waits_until_s"]
        if not self.speculated:
            del found["speculated"]
        if self.seen_events == 0.0:
            del found["seen_events"], found["seen_active"]
        return found


def account_of(state: Accounts, slot: int) -> Account:
    """The account of the job in a slot; only a pool's columns count changes of its grant, and what a job has seen."""
    job, progress = _record(state.jobs, slot), _record(state.progress, slot)
    return Account(
        since_s=progress["since"],
        left_s=progress["believed_left"],
        size_s=job["size_s"],
        attained=progress["attained"],
        stall_s=progress["stall"],
        entered_s=job["submit_s"],
        seq=job["seq"],
        preemptions=progress["preemptions"],
        resizes=progress.get("resizes", 0),
    )


def _record(columns: Any, slot: int) -> dict[str, Any]:
    """A record's fields, all at once: reading them one by one takes three times as long."""
    records = as_array(columns)
    return dict(zip(records.dtype.names or (), records[slot].item(), strict=True))


def waiting_account(state: NodesState, slot: int, account: Account) -> Account:
    """The account with a waiting policy's fields of the job in a slot."""
    need = state.needs[slot]
    renting = state.rentings[slot]
    # Else a play-out finds the deadline, now or in the engine that takes over.
    is_decided = renting.undecided == 0
    waits = need.holder < 0 and need.alarm == EXPIRED and need.alarm_s < math.inf and is_decided
    return replace(
        account,
        waits_until_s=float(need.alarm_s) if waits else None,
        speculated=bool(renting.speculated),
    )


def waits_until_s(state: NodesState) -> dict[int, float]:
    """By slot, the instants, s, until which jobs wait before machines are rented for them alone."""
    needs = as_array(state.needs)
    slots = np.flatnonzero(
        (needs["holder"] < 0)
        & (needs["alarm"] == EXPIRED)
        & (needs["alarm_s"] < math.inf)
        & (as_array(state.rentings)["undecided"] == 0)
    )
    return dict(zip(slots.tolist(), needs["alarm_s"][slots].tolist(), strict=True))


def start_and_finish(state: Accounts, slot: int, work_s: float | None = None) -> tuple[float, float] | None:
    """Start and finish, s, of a job that keeps to its end units taken at this instant; None: it has taken none.

    work_s: that it is expected to need; None: what is believed.
    The finish is computed as in copies (`core.pool.snapshot`, `core.nodes.snapshot`), to the last bit.
    """
    job, progress, now_s = state.jobs[slot], state.progress[slot], float(state.pool[0].now)
    if progress.since != now_s:
        return None
    left_s = max(float(progress.believed_left), min(SMALLEST_BELIEF_S, float(job.size_s)))
    left_s = left_s if work_s is None else work_s
    return float(progress.started_s), now_s + float(progress.stall) + left_s / float(progress.rate)


def give_account(state: Accounts, slot: int, account: Account, is_held: bool) -> None:
    """Write an account into the columns of a slot that has just been filled."""
    # By item: setting an attribute of a record takes several times as long, and a restart does this for every job.
    job: Any = state.jobs[slot]
    progress: Any = state.progress[slot]
    job["submit_s"], job["size_s"], job["remaining_s"] = account.entered_s, account.size_s, account.left_s
    job["attained"] = progress["attained"] = account.attained
    progress["row"], progress["since"], progress["stall"] = slot, account.since_s, account.stall_s
    progress["believed_left"] = account.left_s
    progress["preemptions"] = account.preemptions
    if is_held or account.attained > 0.0 or account.preemptions > 0 or account.resizes > 0:
        progress["started_s"] = account.entered_s
