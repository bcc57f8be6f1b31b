"""Windows of maintenance: an operator announces them, and no job starts that would not be over when one begins.

The engine keeps jobs from starting (`core.closings`); runs that are there nevertheless go on, or are stopped in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from betimes.errors import Refused, Unknown
from betimes.service.scheduling.engine_factory import request_of
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.node import EARLY_S, Node
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.windows import Maintenance
from betimes.units import instant

MOST_WINDOWS = 1000
MOST_RESERVED = 60  # of them for some users: bits of a whole number
JUST_NOW_S = 60.0  # past for so long, a begin is taken for now


class MaintenanceWindows(Part):
    """The windows that are not over, each of which is an event."""

    name = "maintenance"

    def __init__(self, state: SchedulerState, engine: PolicyEngine, runs: Runs) -> None:
        self._state, self._engine, self._runs = state, engine, runs

    def add(
        self,
        from_at: float,
        to_at: float,
        nodes: Sequence[str],
        reason: str,
        user: str,
        stop: bool = False,
        users: Sequence[str] = (),
    ) -> Maintenance:
        """Announce a window, on all owned nodes where none are named; stop: runs there are stopped in time.

        users: the nodes are reserved for them. Raises Refused, Unknown.
        """
        state, ledger = self._state, self._state.ledger
        if from_at < state.now_at - JUST_NOW_S:
            raise Refused(
                f"{instant(from_at)} is past, and no job can be kept from having run then; it can begin now at the "
                "earliest",
                "from_at",
            )
        from_at = max(from_at, state.now_at)
        if not from_at < to_at:
            raise Refused(f"it ends at {instant(to_at)}, and begins at {instant(from_at)}", "to_at")
        if len(ledger.maintenance.of) >= MOST_WINDOWS:
            raise Refused(f"there are {MOST_WINDOWS} windows already; remove some", "from_at")
        if users and len(ledger.maintenance.bits) >= MOST_RESERVED:
            raise Refused(
                f"{MOST_RESERVED} windows for some users are announced already; remove some", "users"
            )
        for name in nodes:
            node = ledger.nodes.get(name)
            if node is None:
                raise Unknown(f"there is no node {name!r}; `betimes nodes` lists them")
            if node.rented_at is not None:
                raise Refused(f"node {name} is rented; `betimes fleet release {name}` gives it back", "nodes")
        named = tuple(dict.fromkeys(nodes))
        for_users, number = tuple(dict.fromkeys(users)), ledger.maintenance.next_number
        window = Maintenance(number, from_at, to_at, named, reason, user, stop, for_users)
        state.log("maintenance-set", f"user:{user}", running=self.may_be_hit(window), **window.to_json())
        self._engine.see_closings()
        return window

    def remove(self, number: int, user: str) -> Maintenance:
        """Call a window off, or end it early. Raises Unknown."""
        window = self._state.ledger.maintenance.of.get(number)
        if window is None:
            raise Unknown(f"there is no maintenance {number}; `betimes maintenance list` shows what there is")
        self._state.log("maintenance-removed", f"user:{user}", number=number)
        self._engine.see_closings()
        self._share_again()
        return window

    def next_at(self) -> float:
        """The instant at which the next window begins or ends, or a run is stopped for one."""
        now_at, windows = self._state.now_at, self._state.ledger.maintenance
        edges = (each.from_at if each.from_at > now_at else each.to_at for each in windows)
        return min((*edges, *(at for at, *_ in self._to_stop())), default=math.inf)

    def before_decision(self) -> None:
        """Note the windows that are over, and stop runs in time for those that stop what is there.

        The engine has looked again at the end of a window by itself, as the twin does.
        """
        over = [each for each in self._state.ledger.maintenance if each.to_at <= self._state.now_at]
        for window in over:
            self._state.log("maintenance-over", "timer", number=window.number)
        if over:
            self._share_again()
        for at, job, node, window in self._to_stop():
            if at <= self._state.now_at:
                reason = window.empties(node.machine.name)
                stop = partial(self._runs.stop_for_now, job, "timer", job.spec.grace_s, reason)
                self._state.take_step("stop", job.job_id, stop)

    def _to_stop(self) -> Iterator[tuple[float, Job, Node, Maintenance]]:
        """The instants to stop jobs' runs, as late as their grace periods allow, the job, the node, and the window."""
        now_at, ledger = self._state.now_at, self._state.ledger
        for window in ledger.maintenance:
            for node in ledger.nodes.values() if window.stop else ():
                for job in self._state.going_on(node.machine.name) if window.covers(node) else ():
                    if job.user in window.users:
                        continue
                    yield max(now_at, window.from_at - EARLY_S - job.spec.grace_s), job, node, window

    def _share_again(self) -> None:
        """Nodes may be open again to trials of sets that have units there."""
        for number in self._state.trial_index.of:
            self._state.trial_index.to_share.setdefault(number, ())

    def may_be_hit(self, window: Maintenance) -> list[int]:
        """The jobs whose runs on its nodes are not sure to be over when it begins, or that run there since."""
        nodes, occupancy = self._state.ledger.nodes, self._state.occupancy
        names = [name for name, node in nodes.items() if window.covers(node)]
        jobs = {run.job: self._state.job_of(run) for name in names for run in occupancy.runs_on(name)}
        return sorted(
            n
            for n, job in jobs.items()
            if job is not None and job.user not in window.users and self._ends_by_at(job) > window.from_at
        )

    def _ends_by_at(self, job: Job) -> float:
        """The end of a run: at the latest by its time limit, else as is believed; infinity: nobody knows."""
        now_at, run = self._state.now_at, job.run
        if run is None or job.is_suspended:
            return math.inf
        if run.stop_by_at is not None:
            return max(now_at, run.stop_by_at)
        limit_s = request_of(job).limit_s
        if limit_s > 0.0 and job.set_id is None:
            return now_at + max(0.0, limit_s - run.ran_s(now_at))
        return now_at + self._engine.lasts_s(job)
