"""Weighted fair queueing over classes of jobs on machines that run the jobs at different speeds.

A linear program (`type_shares`) turns the weights of classes into the part of the time that each job is to run on each
family of machines; in rounds, who is owed most there runs (`Turns`). Sources: PCS (OSDI 2024), section 4, which hands
its classes and weights to Gavel; Gavel (OSDI 2020), sections 3 to 5: hierarchical max-min fairness over throughputs,
weighted between entities and first come first served inside, and the priorities of its rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.planning import (
    Bind,
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    MachineSnapshot,
    Migrate,
    Place,
    Preempt,
    Snapshot,
)
from betimes.errors import BetimesError
from betimes.policies.packing.catalogue import Amounts
from betimes.policies.packing.rounds import occupy, places_for

Floats = NDArray[np.float64]

NEARLY_NOTHING = 1e-9
SLACK = 1e-7
"""By which a level that was found may be missed by the next program: the solver's tolerance."""
STAYING = 1e-3
"""Worth of staying on a family, over that of running there: among equal plans the one that moves least."""
SHARE_DIGITS = 6  # of a part of the time; beyond is rounding error


@dataclass(frozen=True, eq=False)
class Wishes:
    """Jobs that share families of machines, in the order of the snapshot.

    group (n,): the class of each; demand (n, families, resources) of the whole job, speed (n, families): 0 where it
    cannot run; capacity (families, resources); weights (classes,) of sum 1; on (n,): the family that it is on, or -1.
    """

    group: NDArray[np.int64]
    demand: Floats
    speed: Floats
    capacity: Floats
    weights: Floats
    on: NDArray[np.int64]


def class_parts(weights: Floats, demands: Floats) -> Floats:
    """The part of a whole of 1 that each class gets: that by its weight, or its demand if that is less.

    The others divide the rest, as in weighted fair queueing on machines that are alike (`policies.pool.wfq`).
    """
    share, part, left = np.zeros(len(weights)), np.where(demands > 0.0, weights, 0.0), 1.0
    while part.sum() > 0.0:
        total = part.sum()
        satisfied = (part > 0.0) & (demands <= left * (part / total))
        if not satisfied.any():
            return np.where(part > 0.0, left * (part / total), share)
        share[satisfied] = demands[satisfied]
        left -= float(demands[satisfied].sum())
        part[satisfied] = 0.0
    return share


def type_shares(wishes: Wishes) -> Floats:
    """(n, families) the part of the time that each job is to run on each family.

    Each class has its part of the cluster, as on machines that are alike, for its first jobs. Its *level* is the work
    that these do over what they would do if that part were of all families in proportion. The lowest level is
    raised as far as it goes, then the next. What is then free to choose goes to the first jobs of each class.
    Raises BetimesError if the solver finds nothing.
    """
    total = wishes.capacity.sum(axis=0)
    runs = (wishes.speed > 0.0) & (wishes.demand <= wishes.capacity[None] + NEARLY_NOTHING).all(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_total = np.where(total > 0.0, wishes.demand / total, np.where(wishes.demand > 0.0, np.inf, 0.0))
        of_family = np.where(total > 0.0, wishes.capacity / total, 0.0)
    width = np.where(runs, of_total.max(axis=2), np.inf).min(axis=1)
    able = np.isfinite(width) & (width > 0.0)
    scarce = np.where(runs[:, :, None], of_total, 0.0).max(axis=1).argmax(axis=1)
    there = np.where(runs, of_family[:, scarce].T, 0.0)
    usual = np.divide(
        (there * wishes.speed).sum(axis=1), there.sum(axis=1), where=able, out=np.ones(len(width))
    )
    classes = len(wishes.weights)
    demands = np.bincount(wishes.group[able], width[able], classes).astype(np.float64)
    parts = class_parts(wishes.weights, demands)
    most = _first_jobs(wishes.group, np.where(able, width, 0.0), parts)
    job, family = np.nonzero(runs & (most > 0.0)[:, None])
    found = np.zeros(runs.shape)
    if len(job):
        program = _Program(wishes, parts, most, job, family)
        program.worth = width[job] * wishes.speed[job, family] / usual[job]
        found[job, family] = program.solved()
    return np.round(found, SHARE_DIGITS)


def _first_jobs(group: NDArray[np.int64], width: Floats, parts: Floats) -> Floats:
    """(n,) the part of each job that its class has room for, in the order of the jobs."""
    left, most = parts.copy(), np.zeros(len(group))
    for at in np.flatnonzero(width > 0.0).tolist():
        most[at] = min(1.0, max(0.0, left[group[at]]) / width[at])
        left[group[at]] -= width[at]
    return np.round(most, SHARE_DIGITS)


class _Program:
    """The linear program over the pairs of a job and a family on which it may run.

    parts: of the classes; most: the part of the time that each job may run at all.
    """

    worth: (
        Floats  # (pairs,) of running all the time: the part of the cluster that it has, times how fast it is
    )

    def __init__(
        self, wishes: Wishes, parts: Floats, most: Floats, job: NDArray[np.int64], family: NDArray[np.int64]
    ) -> None:
        self.wishes, self.parts, self.job, self.family = wishes, parts, job, family
        pairs = np.arange(len(job))
        of_job = np.zeros((len(most), len(job)))
        of_job[job, pairs] = 1.0
        served = most > 0.0
        families, resources = wishes.capacity.shape
        use = np.zeros((families, resources, len(job)))
        use[family, :, pairs] = wishes.demand[job, family]
        scale = np.maximum(wishes.capacity, NEARLY_NOTHING)
        self._limits = np.concatenate([of_job[served], (use / scale[:, :, None]).reshape(-1, len(job))])
        self._bounds = np.concatenate([most[served], np.ones(families * resources)])

    def solved(self) -> Floats:
        """(pairs,) the part of the time: level by level, then by the order of the jobs."""
        level = np.full(len(self.parts), np.nan)
        rising = self.parts > 0.0
        while rising.any():
            raised, prices = self._raise(level, rising)
            stuck = rising & (prices > NEARLY_NOTHING)
            if not stuck.any():  # a degenerate optimum does not say which
                stuck = rising
            level[stuck] = raised
            rising &= ~stuck
        group, on = self.wishes.group, self.wishes.on
        rank = np.empty(len(group))
        for each in range(len(self.parts)):
            mine = np.flatnonzero(group == each)
            rank[mine] = np.arange(len(mine), 0, -1) / max(1, len(mine))
        stays = on[self.job] == self.family
        gain = self.worth * rank[self.job] + np.where(stays, STAYING * self.worth, 0.0)
        return self._solve(gain, *self._levels(level)).x

    def _of_class(self, each: int) -> Floats:
        """(pairs,) what the class gets of each pair, over its part."""
        return np.where(self.wishes.group[self.job] == each, self.worth, 0.0) / self.parts[each]

    def _levels(self, level: Floats) -> tuple[Floats, Floats]:
        """Rows and bounds that keep the levels that are known."""
        known = np.flatnonzero(~np.isnan(level))
        rows = np.array([-self._of_class(each) for each in known.tolist()]).reshape(-1, len(self.job))
        return rows, -(level[known] - SLACK)

    def _raise(self, level: Floats, rising: NDArray[np.bool_]) -> tuple[float, Floats]:
        """The highest level that all of `rising` reach together, and the price of each: above 0 if it holds that up."""
        rows, bounds = self._levels(level)
        kept = np.column_stack([rows, np.zeros(len(rows))])
        which = np.flatnonzero(rising)
        lifted = np.array([[*-self._of_class(each), 1.0] for each in which.tolist()])
        found = self._solve(
            np.append(np.zeros(len(self.job)), 1.0),
            np.concatenate([kept, lifted]),
            np.concatenate([bounds, np.zeros(len(which))]),
        )
        prices = np.zeros(len(level))
        prices[which] = -found.ineqlin.marginals[len(found.slack) - len(which) :]
        return float(found.x[-1]), prices

    def _solve(self, gain: Floats, rows: Floats, bounds: Floats) -> Any:
        optimize: Any = import_module("scipy.optimize")
        limits = np.column_stack([self._limits, np.zeros((len(self._limits), len(gain) - len(self.job)))])
        found = optimize.linprog(
            -gain,
            A_ub=np.concatenate([limits, rows.reshape(-1, len(gain))]),
            b_ub=np.concatenate([self._bounds, bounds]),
            method="highs",
        )
        if found.x is None:
            raise BetimesError(f"the program of shares on {len(self.job)} pairs: {found.message}")
        return found


class Turns:
    """Jobs take turns on families of machines by the shares of `type_shares`; period_s: of a round.

    What a job is owed on a family grows by its share, and shrinks while it runs there for that; who is owed most runs,
    for turn_s at least. Room that is left goes to the other jobs, those that run first, then in the order of the
    snapshot. A job runs on one family at a time.
    """

    def __init__(
        self, thresholds: Sequence[float], weights: Sequence[float], period_s: float, turn_s: float
    ) -> None:
        self.thresholds, self.weights = np.array(thresholds), np.array(weights)
        self.period_s, self.turn_s = period_s, turn_s
        self._class: dict[int, int] = {}  # by seq, as those below
        self._shares: dict[int, Floats] = {}
        self._owed: dict[int, Floats] = {}
        self._won: dict[
            int, tuple[int, float]
        ] = {}  # the family on which a job runs for its share, and since when
        self._solved_for: Any = None
        self._asked_s = 0.0

    @property
    def every_round(self) -> bool:
        """Whether some job is to run for a part of the time only."""
        return any(((part > 0.0) & (part < 1.0)).any() for part in self._shares.values())

    def plan(self, snapshot: Snapshot) -> Sequence[Decision]:
        """The decisions that give each job its machines from now on."""
        machines = {
            each.machine: each for each in snapshot.machines if each.phase == MachinePhase.UP and each.is_open
        }
        self._look(snapshot, machines)
        elapsed_s, self._asked_s = snapshot.now_s - self._asked_s, snapshot.now_s
        for seq, (family, _) in self._won.items():
            if seq in self._owed:
                self._owed[seq][family] -= elapsed_s
        for seq, share in self._shares.items():
            self._owed[seq] += share * elapsed_s
        return self._placed(snapshot, machines)

    def _look(self, snapshot: Snapshot, machines: dict[int, MachineSnapshot]) -> None:
        """Solve for the shares again if there are other jobs, or other machines."""
        families = 1 + max((each.family for each in snapshot.machines), default=0)
        seqs = [job.seq for job in snapshot.jobs]
        key = seqs, [(number, each.capacity) for number, each in sorted(machines.items())]
        if key == self._solved_for:
            return
        self._solved_for = key
        live = set(seqs)
        for known in (self._class, self._owed, self._won):
            for seq in known.keys() - live:
                del known[seq]
        for job in snapshot.jobs:
            if job.seq not in self._class:
                self._class[job.seq] = int(np.searchsorted(self.thresholds, job.work_s))
            if len(self._owed.get(job.seq, ())) != families:
                self._owed[job.seq] = np.zeros(families)
        capacity = np.zeros((families, 3))
        for each in machines.values():
            capacity[each.family] += each.capacity
        family_of = {each.machine: each.family for each in snapshot.machines}
        demand, speed = np.zeros((len(seqs), families, 3)), np.zeros((len(seqs), families))
        for at, job in enumerate(snapshot.jobs):
            for family in range(families):
                needed = job.demand_on(family)
                if needed is not None:
                    demand[at, family] = np.multiply(needed, job.tasks)
                    speed[at, family] = job.speeds[family] if job.speeds else 1.0
        shares = type_shares(
            Wishes(
                np.array([self._class[seq] for seq in seqs], np.int64),
                demand,
                speed,
                capacity,
                self.weights,
                np.array(
                    [family_of[job.places[0].machine] if job.places else -1 for job in snapshot.jobs],
                    np.int64,
                ),
            )
        )
        self._shares = dict(zip(seqs, shares, strict=True))

    def _placed(self, snapshot: Snapshot, machines: dict[int, MachineSnapshot]) -> list[Decision]:
        family_of = {each.machine: each.family for each in snapshot.machines}
        room: dict[int, Amounts] = {number: each.capacity for number, each in machines.items()}
        free = {number: each.free for number, each in machines.items()}
        movable: list[JobSnapshot] = []
        for job in snapshot.jobs:
            settled = job.phase != JobPhase.WAITS and any(at.machine not in machines for at in job.places)
            if settled or job.phase in (JobPhase.BOUND, JobPhase.LEAVES):
                occupy(room, family_of, job, (*job.places, *job.bound))
                occupy(free, family_of, job, job.bound)
            else:
                movable.append(job)
        places: dict[int, tuple[Place, ...]] = {}
        won: dict[int, tuple[int, float]] = {}

        def put(job: JobSnapshot, family: int) -> bool:
            stays = job.places and family_of[job.places[0].machine] == family
            found = job.places if stays and _fits(room, family_of, job) else ()
            if not found:
                there = [
                    {
                        number: left
                        for number, left in some.items()
                        if family_of[number] == family and machines[number].outlasts(job)
                    }
                    for some in (_least(free, room), room)
                ]
                found = places_for(job, there[0], family_of) or places_for(job, there[1], family_of)
            if found:
                places[job.seq] = found
                occupy(room, family_of, job, found)
            return bool(found)

        turns = [
            (
                not self._has_its_turn(job, family, family_of, snapshot.now_s),
                -float(self._owed[job.seq][family] + share * self.period_s),
                _is_elsewhere(job, family, family_of),
                at,
                family,
                job,
            )
            for at, job in enumerate(movable)
            for family, share in enumerate(self._shares[job.seq].tolist())
            if share > 0.0
        ]
        for *_, family, job in sorted(turns, key=lambda turn: turn[:5]):
            if job.seq not in places and put(job, family):
                before, since_s = self._won.get(job.seq, (-1, 0.0))
                won[job.seq] = family, since_s if before == family else snapshot.now_s
        for job in sorted(movable, key=lambda each: each.phase != JobPhase.RUNS):
            if job.seq in places:
                continue
            speeds = job.speeds or (1.0,) * len(self._owed[job.seq])
            here = family_of[job.places[0].machine] if job.places else -1
            order = (
                [here]
                if job.places
                else sorted(range(len(speeds)), key=lambda family: (-speeds[family], family))
            )
            any(put(job, family) for family in order if job.demand_on(family) is not None)
        self._won = won
        decisions: list[Decision] = []
        for job in movable:
            found = places.get(job.seq, ())
            if job.phase == JobPhase.RUNS and found != job.places:
                decisions.append(Migrate(job.job, found) if found else Preempt(job.job))
            elif job.phase == JobPhase.WAITS and found:
                decisions.append(Bind(job.job, found))
        return decisions

    def _has_its_turn(self, job: JobSnapshot, family: int, family_of: dict[int, int], now_s: float) -> bool:
        on, since_s = self._won.get(job.seq, (-1, 0.0))
        return on == family and now_s - since_s < self.turn_s and not _is_elsewhere(job, family, family_of)


def _least(one: dict[int, Amounts], other: dict[int, Amounts]) -> dict[int, Amounts]:
    return {
        number: (min(a, left[0]), min(b, left[1]), min(c, left[2]))
        for number, (a, b, c) in one.items()
        if (left := other[number])
    }


def _fits(room: dict[int, Amounts], family_of: dict[int, int], job: JobSnapshot) -> bool:
    """Whether the places that a job holds are still free."""
    after = dict(room)
    occupy(after, family_of, job, job.places)
    return all(min(after[place.machine]) >= 0 for place in job.places)


def _is_elsewhere(job: JobSnapshot, family: int, family_of: dict[int, int]) -> bool:
    return not job.places or family_of[job.places[0].machine] != family
