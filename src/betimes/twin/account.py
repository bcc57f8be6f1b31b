"""The account of a job's work, from the columns of either engine, and into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from betimes.core.work import Accounts
from betimes.kernels import as_array


@dataclass
class Account:
    """A job's progress in its engine: true at `since_s`, when its units last changed.

    Work is in seconds on one unit, on nodes in seconds.
    """

    since_s: float
    left_s: float  # work left as believed
    size_s: float  # total believed work
    attained: float  # unit-seconds held before
    stall_s: float  # of a restart, before work goes on
    entered_s: float  # when it first entered its engine
    seq: int  # order of entering: the tie-break everywhere
    preemptions: int = 0  # as counted by the core: repeated decisions at one instant count once
    resizes: int = 0
    waits_until_s: float | None = None  # then a machine is rented for it alone; null: none is
    speculated: bool = False  # it has run on one for as long as a short job may
    taken_away: int = 0  # times that machines rented for it alone were
    # In a pool, as of when this was written: events that it has seen, and the jobs active at each, summed up.
    seen_events: float = 0.0
    seen_active: float = 0.0
    # In a simulation:
    work_left_s: float | None = None  # that there is in truth, which nobody knows live
    started_s: float | None = None  # for the first time
    stalled_s: float = 0.0  # lost to restarts before

    def row(self) -> dict[str, Any]:
        """For events and snapshots; fields that not every job has, only where they are set."""
        unset = {
            "waits_until_s": None,
            "speculated": False,
            "taken_away": 0,
            "work_left_s": None,
            "started_s": None,
            "stalled_s": 0.0,
        }
        if self.seen_events == 0.0:
            unset |= {"seen_events": 0.0, "seen_active": self.seen_active}
        return {
            name: value for name, value in vars(self).items() if name not in unset or value != unset[name]
        }


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


def give_account(state: Accounts, slot: int, account: Account, is_held: bool) -> None:
    """Write an account into the columns of a slot that has just been filled."""
    # By item: setting an attribute of a record takes several times as long, and a restart does this for every job.
    job: Any = state.jobs[slot]
    progress: Any = state.progress[slot]
    job["submit_s"], job["size_s"], job["remaining_s"] = account.entered_s, account.size_s, account.left_s
    job["attained"] = progress["attained"] = account.attained
    progress["since"], progress["stall"] = account.since_s, account.stall_s
    progress["believed_left"], progress["stalled_s"] = account.left_s, account.stalled_s
    progress["preemptions"] = account.preemptions
    if account.work_left_s is not None:
        progress["work_left"] = account.work_left_s
    if is_held or account.attained > 0.0 or account.preemptions > 0 or account.resizes > 0:
        progress["started_s"] = account.entered_s if account.started_s is None else account.started_s


def _record(columns: Any, slot: int) -> dict[str, Any]:
    """A record's fields, all at once: reading them one by one takes three times as long."""
    records = as_array(columns)
    return dict(zip(records.dtype.names or (), records[slot].item(), strict=True))
