"""A planner's snapshots of the nodes engine, and its decisions as the engine's instructions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.resources import NOWHERE
from betimes.core.instruction import BIND, MIGRATE, PREEMPT, RELEASE, RENT, START, Instruction
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.instructions import REASONS
from betimes.core.nodes.machines.rented import RUNNING, UNUSED, paid_until_s, see_ends
from betimes.core.placements import CLOSED_SOON
from betimes.core.planning import (
    LEAST_ALONE_S,
    Bind,
    ByFamily,
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    MachineSnapshot,
    Migrate,
    Place,
    Preempt,
    Refusal,
    Release,
    Rent,
    Snapshot,
    Start,
)
from betimes.core.shares import begin_order, is_within_limits, order_by_shares
from betimes.kernels import Ints, Records, as_array, blank, entry, full_kernel, kernel

paid_until = entry(paid_until_s, NodesState, int)
see = entry(see_ends, NodesState)


@entry
@full_kernel
def in_users_order(state: NodesState, slots: Ints) -> int:
    """Put live jobs in order: those that hold nodes or are bound to some, then the others, by their users' shares.

    Those that their users' limits keep from running now come last. Returns the number of the others.
    """
    rank = np.zeros(len(slots), dtype=np.int64)
    for k in range(len(slots)):
        rank[k] = int(_waits(state, slots[k]))
    begin_order(state, True)
    if math.isfinite(state.users[0].weight):
        order_by_shares(state, slots, rank, np.zeros(len(slots)), False)
    given, left_out = 0, slots.copy()
    for k in range(len(slots)):
        slot = slots[k]
        if not _waits(state, slot) or is_within_limits(state, slot):
            slots[given] = slot
            given += 1
        else:
            left_out[k - given] = slot
    for k in range(given, len(slots)):
        slots[k] = left_out[k - given]
    return given


@kernel
def _waits(state: NodesState, slot: int) -> bool:
    need = state.needs[slot]
    return need.holder < 0 and need.bound < 0


def snapshot_of(
    state: NodesState, kinds: Sequence[str], finished: Sequence[tuple[int, float]] = ()
) -> Snapshot:
    """A planner's snapshot of the state between two events.

    kinds: a job's kind, by its row. finished: jobs that have ended since the snapshot before. Where users share, jobs
    stand in that order; those that limits keep from running are left out.
    """
    now_s = float(state.pool[0].now)
    see(state)
    slots, ordered = _live(state), len(state.users) > 0
    if ordered:
        slots = slots[: in_users_order(state, slots)]
        ordered = math.isfinite(state.users[0].weight)
    machines = np.flatnonzero(_plain(state.machines)["state"] != UNUSED)
    return Snapshot(
        now_s,
        tuple(_jobs(state, slots, now_s, kinds)),
        tuple(_machines(state, machines)),
        _rentable(state),
        tuple(finished),
        longest_run_s=float(state.cluster[0].longest_run_s),
        is_ordered=ordered,
    )


def instructions(decisions: Sequence[Decision], snapshot: Snapshot) -> tuple[Records[Instruction], list[int]]:
    """The batch that carries out decisions on this snapshot, and the index of each line's decision.

    Jobs go by their order of submission, so that none is taken for another that came since.
    """
    seqs = {job.job: job.seq for job in snapshot.jobs}
    generations = {machine.machine: machine.generation for machine in snapshot.machines}
    lines: list[tuple[int, int, int, int, int, float]] = []
    of: list[int] = []
    line_of: dict[int, int] = {}
    for at, one in enumerate(decisions):
        before = len(lines)
        match one:
            case Rent():
                line_of[at] = len(lines)
                lines.append((RENT, -1, -1, 0, one.offer, 0.0))
            case Release():
                lines.append((RELEASE, -1, one.machine, 0, -1, 0.0))
            case Preempt():
                lines.append((PREEMPT, one.job, -1, 0, -1, 0.0))
            case Start() | Bind() | Migrate():
                what = START if isinstance(one, Start) else BIND if isinstance(one, Bind) else MIGRATE
                keep = 1.0 if isinstance(one, Migrate) and one.keep else 0.0
                for place in one.places:
                    lines.append((what, one.job, place.machine, place.tasks, -1, keep))
        of += [at] * (len(lines) - before)
    batch = blank(Instruction, len(lines))
    for record, (what, job, node, tasks, offer, value) in zip(_plain(batch), lines, strict=True):
        # A machine that is to be rented is named by its line, not by its decision.
        record.node = -2 - line_of.get(-2 - node, len(lines)) if node <= -2 else node
        record.what, record.job, record.seq = what, job, seqs.get(job, -1)
        record.generation = generations.get(node, -1)
        record.tasks, record.offer, record.value = tasks, offer, value
    return batch, of


def refusals(
    decisions: Sequence[Decision], batch: Records[Instruction], of: Sequence[int], snapshot: Snapshot
) -> list[Refusal]:
    """The decisions of a batch that could not be carried out, and why."""
    rows = {job.job: job.row for job in snapshot.jobs}
    found: dict[int, Refusal] = {}
    for at, verdict in zip(of, _plain(batch)["verdict"].tolist(), strict=True):
        if verdict:
            one = decisions[at]
            row = -1 if isinstance(one, Rent | Release) else rows.get(one.job, -1)
            found[at] = Refusal(one, REASONS[verdict], snapshot.now_s, row)
    return list(found.values())


def _live(state: NodesState) -> NDArray[np.int64]:
    """The slots of live jobs, in order of submission."""
    slots = np.flatnonzero(_plain(state.progress)["served_by"] >= 0)
    return slots[np.argsort(_plain(state.jobs)["seq"][slots])]


def _plain(records: Records[Any]) -> NDArray[Any]:
    """Records as a plain array: a column of an array of records takes several times as long."""
    return as_array(records).view(np.ndarray)


_NEED = ("holder", "bound", "placed", "tasks", "gpu", "cpu", "memory", "demands", "contends")
_DELAYS = ("launch_s", "init_s", "stop_s")


def _jobs(
    state: NodesState, slots: NDArray[np.int64], now_s: float, kinds: Sequence[str]
) -> list[JobSnapshot]:
    jobs, needs, accounts = (_plain(each)[slots] for each in (state.jobs, state.needs, state.progress))
    vacate_at = _plain(state.evictions)["vacate_at"][slots]
    stalled_until_s = accounts["since"] + accounts["stall"]
    worked_s = np.maximum(0.0, now_s - stalled_until_s) * accounts["rate"] * accounts["believed_per_work"]
    left_s = np.maximum(0.0, accounts["believed_left"] - worked_s)
    rates = np.where(now_s >= stalled_until_s, accounts["rate"], 0.0)
    columns = (
        slots,
        accounts["row"],
        jobs["seq"],
        jobs["submit_s"],
        jobs["size_s"] * jobs["max_units"],
        left_s,
        rates,
        np.where(accounts["rate"] > 0.0, stalled_until_s + LEAST_ALONE_S, math.inf),
        vacate_at,
        *(needs[name] for name in (*_NEED, *_DELAYS)),
        needs["lasts_s"],
    )
    placed_on = _plain(state.placements)
    placements = list(zip(*(placed_on[name].tolist() for name in ("node", "tasks", "follows")), strict=True))
    found = list[JobSnapshot]()
    nowhere: tuple[Place, ...] = ()
    by_family: dict[int, tuple[ByFamily, tuple[float, ...]]] = {0: ((), ())}
    for values in zip(*(column.tolist() for column in columns), strict=True):
        slot, row, seq, submit_s, work_s, left, rate, profiled_s, leave_at, holder, bound, *rest = values
        placed, tasks, gpu, cpu, memory, first, launched, launch_s, init_s, stop_s, lasts_s = rest
        if first not in by_family:
            by_family[first] = _by_family(state, first)
        leaves = leave_at < math.inf
        if holder >= 0:
            phase = JobPhase.LEAVES if leaves else JobPhase.RUNS
        else:
            phase = JobPhase.BOUND if bound >= 0 else JobPhase.WAITS
        found.append(
            JobSnapshot(
                slot,
                row,
                seq,
                submit_s,
                phase,
                tasks,
                (gpu, cpu, memory),
                kinds[int(row)],
                _places(placements, placed) if placed >= 0 else nowhere,
                _places(placements, bound) if bound >= 0 else nowhere,
                left,
                rate if phase == JobPhase.RUNS else 0.0,
                bool(launched),
                launch_s,
                init_s,
                stop_s,
                profiled_s if phase == JobPhase.RUNS else math.inf,
                by_family=by_family[first][0],
                speeds=by_family[first][1],
                work_s=work_s,
                lasts_s=lasts_s,
            )
        )
    return found


def _by_family(state: NodesState, first: int) -> tuple[ByFamily, tuple[float, ...]]:
    """A task's demand on each family, from `State.demands[first]` on, None where it cannot run; and its speed there."""
    rows = _plain(state.demands)[first : first + int(state.cluster[0].families)]
    amounts = zip(*(rows[name].tolist() for name in ("gpu", "cpu", "memory")), strict=True)
    demands = tuple(None if cpu >= NOWHERE else (gpu, cpu, memory) for gpu, cpu, memory in amounts)
    return demands, tuple(rows["speed"].tolist())


def _places(placements: Sequence[tuple[int, int, int]], first: int) -> tuple[Place, ...]:
    """The chain of placements (node, tasks, next) from `first` on, which must exist, in reverse order."""
    node, tasks, at = placements[first]
    found = [Place(node, tasks)]
    while at >= 0:
        node, tasks, at = placements[at]
        found.append(Place(node, tasks))
    return tuple(reversed(found))


_OF_MACHINE = ("generation", "offer", "state", "family", "requested_s", "up_s")
_PHASES = {int(each): each for each in MachinePhase}
_OF_NODE = ("up", "gpu", "cpu", "memory", "free_gpu", "free_cpu", "free_memory")


def _machines(state: NodesState, numbers: NDArray[np.int64]) -> list[MachineSnapshot]:
    machines, nodes = (_plain(each)[numbers] for each in (state.machines, state.nodes))
    columns = (
        numbers,
        *(machines[name] for name in _OF_MACHINE),
        *(nodes[name] for name in _OF_NODE),
    )
    found = list[MachineSnapshot]()
    for values in zip(*(column.tolist() for column in columns), strict=True):
        number, generation, offer, phase, family, requested_s, up_s, up, *amounts = values
        gpu, cpu, memory, free_gpu, free_cpu, free_memory = amounts
        found.append(
            MachineSnapshot(
                number,
                generation,
                offer,
                _PHASES[phase],
                0 < up != CLOSED_SOON,
                (gpu, cpu, memory),
                (free_gpu, free_cpu, free_memory),
                requested_s,
                up_s if offer >= 0 else 0.0,
                float(paid_until(state, number)) if offer >= 0 else math.inf,
                family,
                _open_s(up) if phase == RUNNING else float(state.cluster[0].longest_run_s),
            )
        )
    return found


def _open_s(up: int) -> float:
    """For how long a machine that is up takes jobs from now on, by `Node.up`."""
    return (up - CLOSED_SOON) / 1000.0 if up >= CLOSED_SOON else math.inf


def _rentable(state: NodesState) -> tuple[int, ...]:
    """The number of machines that can still be rented, for each offer."""
    offers, cluster = _plain(state.offers), state.cluster[0]
    left = np.minimum(offers["capacity"] - offers["rented"], cluster.quota - cluster.rented)
    return tuple(max(0, int(each)) for each in left.tolist())
