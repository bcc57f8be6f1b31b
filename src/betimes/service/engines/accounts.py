"""Additions of the live engines to a job's account (`betimes.twin.account`)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.timers import EXPIRED
from betimes.core.work import SMALLEST_BELIEF_S, Accounts, expected_left_s
from betimes.kernels import FloatTable, as_array, entry
from betimes.twin.account import Account

expected_left = entry(expected_left_s, FloatTable, int, float)


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
        taken_away=int(renting.lost),
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
