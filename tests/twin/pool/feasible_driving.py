"""A pool on nodes, or behind a gate, taken from event to event beside the reference model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from betimes.cluster import Cluster, NodeGroup
from betimes.core.pool import feasible_grants
from betimes.core.pool.columns import State
from betimes.foresight.simulate import predicting
from betimes.kernels import as_array, entry
from betimes.outcome import Result
from betimes.policies import parse_policy
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.simulation import Simulation
from betimes.twin.sizes import Sizes
from tests.core.pool.invariants import check
from tests.core.pool.stepping import EXTENT_S, next_event_s, step_to
from tests.reference import Job, ReferenceResult, cutting, run
from tests.twin.pool.driving import measured_curves, workload_of

_asked_for = entry(feasible_grants.asked_for)

REASONS = {
    None: feasible_grants.NOT_CURTAILED,
    cutting.TOO_SOON: feasible_grants.TOO_SOON,
    cutting.NO_GAIN: feasible_grants.NO_GAIN,
    cutting.KEPT_BY_OTHERS: feasible_grants.KEPT_BY_OTHERS,
    cutting.NO_ROOM: feasible_grants.NO_ROOM,
}

Seen = dict[float, dict[int, tuple[int, int, int, dict[int, int]]]]
"""After the last event of each instant, of each job: units, units asked for, the reason, units by node."""

LAST = Job(EXTENT_S, 1)  # long after everything has happened; it keeps the loop from running out by itself


@dataclass(frozen=True)
class CutSetup:
    """One simulation; `nodes` are what each has in GPUs, cores, GiB; `switches` (job, node) drain it or end that."""

    jobs: tuple[Job, ...]
    units: int
    policy: str
    restart_s: float = 0.0
    sizes: str = "true"
    resize_interval_s: float = 0.0
    resize_gain: bool = False
    nodes: tuple[tuple[int, int, int], ...] | None = None
    switches: tuple[tuple[int, int], ...] = ()


def simulation(setup: CutSetup) -> Simulation:
    jobs = [*setup.jobs, LAST]
    demand = np.array([job.demand for job in jobs], dtype=float)
    workload = replace(workload_of(jobs), gpu=demand[:, 0], cpu=demand[:, 1], memory_gib=demand[:, 2])
    groups = tuple(
        NodeGroup(f"n{at}", 1, float(gpu), float(cpu), float(memory_gib))
        for at, (gpu, cpu, memory_gib) in enumerate(setup.nodes or ())
    )
    run = Simulation(
        workload,
        parse_policy(setup.policy),
        SimulationOptions(
            units=setup.units,
            curves=measured_curves(jobs),
            sizes=Sizes("noise", 0.5) if setup.sizes == "noise" else Sizes(setup.sizes),
            restart_s=setup.restart_s,
            resize_interval_s=setup.resize_interval_s,
            resize_gain=setup.resize_gain,
            cluster=Cluster("test", groups) if groups else None,
            timeline=True,
        ),
    )
    if setup.sizes == "noise":
        arrivals = as_array(run.trace.arrivals)
        factors = [1.0 if job.factor is None else float(job.factor) for job in jobs]
        arrivals["believed"] = factors * run.workload.work_s
        arrivals["believed_per_work"] = factors
    return run


def run_seen(setup: CutSetup, look: Callable[[State], object] = check) -> tuple[Result, Seen]:
    """What came of it and what was seen on the way; `look` is shown the state after every event."""
    run, seen = simulation(setup), Seen()
    submit = predicting(run, np.ones(len(run.workload), dtype=np.int64))
    for row in range(len(setup.jobs) + 1):
        submit_s = float(run.workload.submit_s[row])
        while (at := next_event_s(run.state)) <= submit_s:
            step_to(run, at)
            look(run.state)
            seen[float(run.state.pool[0].now)] = _seen(run.state)
        if submit_s < EXTENT_S:
            assert submit(row + 1) == 0
            look(run.state)
            seen[float(run.state.pool[0].now)] = _seen(run.state)
            for _, node in (switch for switch in setup.switches if switch[0] == row):
                run.state.nodes[node].up = 1 - run.state.nodes[node].up
    assert submit(len(run.workload)) == 0
    result = run.result()
    jobs = result.jobs.take(np.arange(len(setup.jobs)))
    return replace(result, jobs=jobs, segments=_without_last(result)), seen


def oracle_seen(setup: CutSetup, *, exact: bool) -> tuple[ReferenceResult, Seen]:
    """The same of the reference model."""
    seen = Seen()

    def watch(cluster: Any) -> None:
        settled = cluster.cut.settled if cluster.cut is not None else {}
        seen[float(cluster.now)] = {
            job.index: (
                int(job.grant),
                int(settled[job.index].asked) if job.index in settled else 0,
                REASONS[settled[job.index].reason] if job.index in settled else 0,
                {place[0]: place[1] for place in job.places},
            )
            for job in cluster.active
        }

    result = run(
        setup.jobs,
        setup.units,
        setup.policy,
        predict=True,
        restart_s=setup.restart_s,
        sizes=setup.sizes,
        exact=exact,
        resize_interval=setup.resize_interval_s,
        resize_gain=setup.resize_gain,
        nodes=setup.nodes,
        switches=setup.switches,
        watch=watch,
    )
    return result, seen


def _without_last(result: Result) -> Any:
    assert result.segments is not None
    return result.segments.take(result.segments.row < len(result.jobs) - 1)


def _seen(state: State) -> dict[int, tuple[int, int, int, dict[int, int]]]:
    found: dict[int, tuple[int, int, int, dict[int, int]]] = {}
    for number in range(len(state.groups)):
        for slot in state.order[number, state.groups[number].head : state.groups[number].tail].tolist():
            progress, asked = state.progress[slot], int(_asked_for(state, slot))
            found[int(progress.row)] = (
                int(state.jobs[slot].units),
                asked,
                int(progress.curtailed) if asked else 0,
                _places(state, slot),
            )
    return found


def _places(state: State, slot: int) -> dict[int, int]:
    places: dict[int, int] = {}
    at = int(state.footprints[slot].placed) if len(state.nodes) > 0 else -1
    while at >= 0:
        places[int(state.placements[at].node)] = int(state.placements[at].tasks)
        at = int(state.placements[at].follows)
    return places
