"""The basis of a portfolio's live selection: a copy of the state, in which jobs are rows by their slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.rules import NodesRules
from betimes.foresight.portfolio.submitted import EmptyCluster
from betimes.kernels import Floats
from betimes.service.engines.job_rows import JobRows
from betimes.service.engines.planner_rounds import SnapshotRounds
from betimes.twin.nodes.event_loop import Trace


@dataclass(frozen=True)
class SelectionSnapshot:
    """The state at an instant, which nothing else changes: any thread can simulate from it.

    waits: the waiting jobs, and since when. job_ids: of all, by row. believes: run times are believed, not known.
    empty: the cluster with nothing on it. job_rows: makes past jobs rows of a simulation. rounds: of each member,
    where they plan.
    """

    at_s: float
    state: NodesState
    trace: Trace
    empty: EmptyCluster
    job_rows: JobRows
    rounds: Sequence[SnapshotRounds] = ()
    job_ids: Sequence[int] = ()
    waits: Sequence[tuple[int, float]] = ()
    believes: bool = True


@dataclass(frozen=True)
class MemberRules:
    """A member of a portfolio, to be put in force: its rules, with compiled hooks, and its parameters."""

    name: str
    rules: NodesRules
    params: Floats
