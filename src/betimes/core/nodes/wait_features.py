"""The features of a cluster when a job begins to wait, from which its wait is predicted.

Source: SoCC 2021, Table 1; spec/waiting.md A.7. Only owned machines count. Sums over the jobs that run there and
those that wait are kept up to date, so that the features of one more job cost the same however many there are.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import FEATURE_COLUMNS, NodesState
from betimes.core.nodes.demands import demand_on
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.wait_predictor import predicted_s
from betimes.kernels import kernel

FEATURES = (
    "cluster-cpu-util",
    "cluster-mem-util",
    "runq-size",
    "waitq-size",
    "runq-mean-cpu",
    "runq-mean-time",
    "waitq-mean-cpu",
    "waitq-mean-time",
    "num-cores",
)

DECIDED_S, PREDICTED_S = len(FEATURES), len(FEATURES) + 1
assert PREDICTED_S + 1 == FEATURE_COLUMNS
"""Columns of `State.features` after the features: when the job began to wait, and its predicted wait."""


@kernel
def count_waiting(state: NodesState, slot: int, sign: int) -> None:
    """A job enters the queue (1) or leaves it (-1)."""
    cluster, need = state.cluster[0], state.needs[slot]
    cluster.observed_waiting += sign
    cluster.waiting_cpu += sign * need.tasks * need.cpu
    cluster.waiting_since_s += sign * state.rentings[slot].queued_s
    if cluster.observed_waiting == 0:
        cluster.waiting_since_s = 0.0  # rid of what rounding has left


@kernel
def count_running(state: NodesState, slot: int, sign: int) -> None:
    """A job takes its nodes (1) or leaves them (-1)."""
    cluster, need = state.cluster[0], state.needs[slot]
    cluster.observed_running += sign
    if need.demands == 0:
        cluster.running_cpu += sign * need.tasks * need.cpu
        cluster.running_memory += sign * need.tasks * need.memory
    else:
        at = need.placed
        while at >= 0:
            placement = state.placements[at]
            _, cpu, memory = demand_on(state, need, placement.node)
            cluster.running_cpu += sign * placement.tasks * cpu
            cluster.running_memory += sign * placement.tasks * memory
            at = placement.follows
    cluster.running_since_s += sign * need.began_s
    if cluster.observed_running == 0:
        cluster.running_since_s = 0.0


@kernel
def measure(state: NodesState, slot: int) -> None:
    """Record the features of a job that begins to wait, and is not in the queue yet: state.features[slot]."""
    cluster, need, now = state.cluster[0], state.needs[slot], state.pool[0].now
    row = state.features[slot]
    running, waiting = max(1, cluster.observed_running), max(1, cluster.observed_waiting)
    row[0] = cluster.running_cpu / max(1, cluster.owned_cpu)
    row[1] = cluster.running_memory / max(1, cluster.owned_memory)
    row[2] = cluster.observed_running
    row[3] = cluster.observed_waiting
    row[4] = cluster.running_cpu / running / 1000.0
    row[5] = now - cluster.running_since_s / running if cluster.observed_running > 0 else 0.0
    row[6] = cluster.waiting_cpu / waiting / 1000.0
    row[7] = now - cluster.waiting_since_s / waiting if cluster.observed_waiting > 0 else 0.0
    row[8] = need.tasks * need.cpu / 1000.0
    row[DECIDED_S] = now
    row[PREDICTED_S] = math.nan


@kernel
def predict(state: NodesState, rules: NodesRules, slot: int) -> float:
    """The predicted wait of a job, from when it began to wait, s; NaN: the predictor abstains."""
    row = state.features[slot]
    row[PREDICTED_S] = predicted_s(rules.trees, rules.roots, rules.weights, rules.seen, row)
    state.cluster[0].predicted += 1
    state.cluster[0].abstained += int(math.isnan(row[PREDICTED_S]))
    return row[PREDICTED_S]
