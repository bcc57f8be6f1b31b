"""The basis of a portfolio's live selection: a copy of the state, in which jobs are rows by their slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from betimes.cluster.shapes import Shape
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.rules import NodesRules
from betimes.core.shares import idle
from betimes.foresight.portfolio.hindsight import EmptyCluster
from betimes.kernels import Floats, as_array
from betimes.service.engines.dedicated_machines import live_terms
from betimes.service.engines.job_rows import JobRows
from betimes.service.engines.jobs_on_nodes import JobsOnNodes
from betimes.twin.nodes.event_loop import Trace
from betimes.twin.nodes.planner_rounds import PlannerRounds
from betimes.twin.nodes.trace_loop import new_trace

NewState = Callable[..., NodesState]


@dataclass(frozen=True)
class SelectionSnapshot:
    """The state at an instant, which nothing else changes: any thread can simulate from it.

    waits: the waiting jobs, and since when. job_ids, promised_s: of all, by row. believes: run times are believed, not
    known. empty: the cluster with nothing on it. job_rows: makes past jobs rows of a simulation. rounds: of each
    member, where they plan.
    """

    at_s: float
    state: NodesState
    trace: Trace
    empty: EmptyCluster
    job_rows: JobRows
    rounds: Sequence[PlannerRounds] = ()
    job_ids: Sequence[int] = ()
    promised_s: Floats = field(default_factory=lambda: np.zeros(0))
    waits: Sequence[tuple[int, float]] = ()
    believes: bool = True

    def named(self, job_of: Mapping[int, int]) -> SelectionSnapshot:
        """The same with the waiting jobs, and the ids of all; job_of: by slot."""
        progress, needs = as_array(self.state.progress), as_array(self.state.needs)
        waits = np.flatnonzero((progress["served_by"] >= 0) & (needs["holder"] < 0) & (needs["bound"] < 0))
        since = [
            (job_of[slot], float(self.state.jobs[slot].submit_s)) for slot in waits.tolist() if slot in job_of
        ]
        ids = [job_of.get(slot, 0) for slot in range(len(self.state.free))]
        return replace(self, job_ids=ids, waits=sorted(since))


@dataclass(frozen=True)
class MemberRules:
    """A member of a portfolio, to be put in force: its rules, with compiled hooks, and its parameters."""

    name: str
    rules: NodesRules
    params: Floats


def snapshot_of(jobs: JobsOnNodes, new_state: NewState) -> SelectionSnapshot:
    """A copy of the beliefs before a pass or a round, in which jobs are rows by their slots.

    new_state: makes a state of nodes.
    """
    state, rounds = jobs.driver.state, jobs.rounds
    slots = len(state.free)
    trace = new_trace(slots, 1)
    copy = jobs.driver.copy(trace, np.array([slots]), {}).state
    as_array(copy.progress)["row"] = np.arange(slots)
    as_array(trace.arrivals)["submit_s"] = as_array(copy.jobs)["submit_s"]
    empty, job_rows = _empty(jobs, new_state)
    seqs = as_array(copy.jobs)["seq"].tolist()
    of_members = [] if rounds is None else [rounds.copied(name, seqs).turn for name in rounds.members]
    return SelectionSnapshot(float(state.pool[0].now), copy, trace, empty, job_rows, of_members)


def _empty(jobs: JobsOnNodes, new_state: NewState) -> tuple[EmptyCluster, JobRows]:
    """The cluster with nothing rented, and nothing on the owned nodes that take jobs now; rows for it."""
    state = jobs.driver.state
    owned = [number for number in sorted(jobs.labels) if state.nodes[number].up > 0]
    nodes, machines = (as_array(each)[owned] for each in (state.nodes, state.machines))
    capacity = np.stack([nodes[name] for name in ("gpu", "cpu", "memory")], axis=1)
    names = list(jobs.families)
    held = [
        (Shape((gpu, cpu, memory), jobs.labels[number], names[family]), 1.0)
        for number, (gpu, cpu, memory), family in zip(
            owned, capacity.tolist(), machines["family"].tolist(), strict=True
        )
    ]
    quota = int(state.cluster[0].quota)
    for offer, machine in zip(jobs.offers, jobs.offered, strict=True):
        held.append((machine, float(min(quota, offer.capacity or quota))))
    terms = live_terms(jobs.offers)
    as_array(terms)["labels"] = as_array(state.offers)["labels"]
    empty = new_state(
        capacity,
        machines["kind"],
        families=machines["family"],
        family_count=len(jobs.families),
        demands=jobs.demands.table,
        params=state.params.copy(),
        offers=terms,
        labels=nodes["labels"],
        hardware=state.hardware,
    ).replaced(users=idle(state.users))
    return EmptyCluster(empty, new_trace(0, 1)), replace(jobs.rows, machines=held)
