"""A simulation taken from event to event, so that a test can look at the state in between."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from betimes import Workload
from betimes.core.pool.columns import PoolRules, State
from betimes.core.status import DONE
from betimes.kernels import entry, kernel
from betimes.policies import parse_policy
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.event_loop import Trace, advance
from betimes.twin.pool.simulation import Simulation
from betimes.twin.sizes import parse_sizes

UNITS = 8
POLICIES = (
    "fifo",
    "srsf",
    "srtf",
    "las:quantum=3",
    "themis:lease=4",
    "afs",
    "max-min",
    "wfq:thresholds=15+60,weights=3/5+3/10+1/10,zeta_min=0.8,delta=0.15",
)
CURVES = ("linear", "amdahl:0.1", "power:0.6")
EXTENT_S = 1e9  # long after everything has happened


def workload(jobs: int, seed: int, *, rigid: bool = False) -> Workload:
    """Random jobs with ties in arrival, size and width, minimums, three curves, and poor estimates.

    A last job far behind all others keeps the loop from running out by itself.
    """
    rng = np.random.default_rng(seed)
    least = np.where(rng.random(jobs) < 0.6, 1, rng.integers(1, UNITS, jobs, endpoint=True))
    most = least if rigid else least + rng.integers(0, UNITS, jobs, endpoint=True)
    work = np.where(rng.random(jobs) < 0.5, rng.integers(1, 40, jobs), rng.exponential(40.0, jobs)) + 0.5
    gap = np.where(rng.random(jobs) < 0.3, 0.0, rng.exponential(6.0, jobs))
    return Workload.from_columns(
        submit_s=[*np.cumsum(gap), EXTENT_S],
        work_s=[*work, 1.0],
        min_units=[*least, 1],
        max_units=[*most, 1],
        curve=[*rng.choice(CURVES, jobs), "linear"],
        estimate_s=[*np.ceil(work * rng.choice([0.2, 0.9, 3.0], jobs)), 1.0],
        user=[*rng.integers(0, 4, jobs), 0],
    )


def simulation(jobs: Workload, policy: str, **options: Any) -> Simulation:
    sizes = parse_sizes(options.pop("sizes", "true"))
    return Simulation(jobs, parse_policy(policy), SimulationOptions(units=UNITS, sizes=sizes, **options))


def after_every_event(run: Simulation) -> Iterator[State]:
    """The state after every instant at which something has happened, until only the last job is to come."""
    for row in range(len(run.workload)):
        submit_s = float(run.workload.submit_s[row])
        while (at := next_event_s(run.state)) <= submit_s:
            step_to(run, at)
            yield run.state
        if submit_s == EXTENT_S:
            return
        assert run.driver.step(row + 1) == DONE
        yield run.state


def step_to(run: Simulation, at: float) -> None:
    """Let everything happen up to an instant."""
    assert step(run.state, run.rules, run.trace, at) == DONE


@entry
@kernel
def step(state: State, rules: PoolRules, trace: Trace, until: float) -> int:
    """Let everything happen up to `until`, and submit nothing."""
    return advance(state, rules, trace, until, -1)


def next_event_s(state: State) -> float:
    """When something happens that is no submission; infinity: nothing will."""
    pool = state.pool[0]
    at = min(pool.next_finish, pool.next_outrun, pool.wakeup)
    return float(at) if at < math.inf else math.inf
