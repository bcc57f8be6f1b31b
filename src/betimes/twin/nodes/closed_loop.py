"""Submission times that keep a cluster loaded: the next job comes as soon as the load is below its target.

An open stream that offers twice a cluster's capacity has no steady state, so that "a load of 2.0" is read as a
closed loop under FIFO, whose submission times every other policy is then given (FitGpp's specification, B.5). A loop
under each policy is the other reading.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from betimes.cluster import Cluster
from betimes.core.nodes.columns import Absence, NodesState
from betimes.core.nodes.passes.schedule import schedule
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.timers import FINISH, first_owner, job_of, kind_of, next_s
from betimes.core.status import DONE, NEED_SLOTS
from betimes.errors import InputError
from betimes.kernels import Ints, IntTable, as_array, blank, entry, kernel
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.event_loop import Trace, arrive, next_due
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload

LARGEST_LOAD = 1000.0


def keep_loaded(
    workload: Workload, cluster: Cluster, load: float, policy: str = "fifo", seed: int = 0
) -> Workload:
    """The same jobs, each submitted once the jobs in the cluster under `policy` demand less than `load` of it.

    Run again under this policy, with this seed and the default beliefs of `Sizes`, they keep the load.

    The load is that of the resource most in demand: the demand of all unfinished jobs over the capacity of all
    nodes. Raises InputError for a load that cannot be kept, naming the first job that no node can run.
    """
    if not 0.0 < load <= LARGEST_LOAD:
        raise InputError(f"load {load:g}: expected a number above 0, and at most {LARGEST_LOAD:g}")
    at_once = replace(workload, submit_s=np.zeros(len(workload)))
    options = SimulationOptions(cluster=cluster, seed=seed)
    run = NodesSimulation(at_once, parse_nodes_policy(policy), options)
    run.driver.state = run.state.replaced(absences=blank(Absence, 0))  # not read here
    if run.tasks.reasons:
        raise InputError(f"{workload.name}: {run.tasks.reasons[0]}")
    demand = np.ascontiguousarray(run.tasks.count[:, None] * run.tasks.demand)
    # Whole numbers: below `load` of every resource there is, and of one that there is not, below one.
    limit = np.where(cluster.total > 0, np.ceil(load * cluster.total), 1).astype(np.int64)
    held = np.zeros(3, dtype=np.int64)
    run.run(lambda stop: run_loaded(run.state, run.rules, run.trace, run.row, stop, demand, limit, held))
    return replace(workload, submit_s=as_array(run.trace.arrivals)["submit_s"].copy())


@entry
@kernel
def run_loaded(
    state: NodesState,
    rules: NodesRules,
    trace: Trace,
    row: Ints,
    stop: int,
    demand: IntTable,
    limit: Ints,
    held: Ints,
) -> int:
    """Submit the jobs from row[0] up to `stop`, each as soon as `held` (3,) is below `limit` (3,), noting when.

    demand: (jobs, 3). Returns as `loop.run_rows` does.
    """
    pool = state.pool[0]
    while True:
        while row[0] < stop and held[0] < limit[0] and held[1] < limit[1] and held[2] < limit[2]:
            if pool.free == 0:
                return NEED_SLOTS
            at = row[0]
            trace.arrivals[at].submit_s = pool.now
            status = arrive(state, rules, trace, at)
            if status != DONE:
                return status
            for resource in range(3):
                held[resource] += demand[at, resource]
            row[0] += 1
        if row[0] == stop and stop < len(trace.arrivals):
            return DONE
        status = schedule(state, rules)
        if status != DONE or row[0] == stop:
            return status
        pool.now = next_s(state)
        while next_s(state) == pool.now:
            slot = job_of(first_owner(state))
            if kind_of(state.timers[0]) == FINISH:
                for resource in range(3):
                    held[resource] -= demand[state.progress[slot].row, resource]
            status = next_due(state, rules, trace)
            if status != DONE:
                return status
