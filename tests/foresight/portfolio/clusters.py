"""Runs on machines that are charged for by the hour, as in spec/portfolio.md."""

from __future__ import annotations

import numpy as np

from betimes.cluster import Cluster, Offer
from betimes.foresight.portfolio.driver import Portfolio
from betimes.foresight.portfolio.selection import Simulate
from betimes.kernels import as_array
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.workload import Workload

HOURLY = Offer(
    type="vm",
    cpu=1.0,
    memory_gib=0.0,
    usd_per_h=1.0,
    boot_s=120.0,
    bill_step_s=3600.0,
    min_bill_s=3600.0,
    bill_from="request",
    capacity=256,
)
VMS = Cluster("vms", (), offers=(HOURLY,))

Row = tuple[float, int, float]
"""A job: submitted at, processors, run time, s."""


def workload(*rows: Row) -> Workload:
    return Workload.from_columns(
        submit_s=[row[0] for row in rows],
        work_s=[row[1] * row[2] for row in rows],
        min_units=[row[1] for row in rows],
        max_units=[row[1] for row in rows],
        cpu=[1.0] * len(rows),
        user=[row % 3 for row in range(len(rows))],
        estimate_s=[2.0 * row[2] for row in rows],
    )


def bursts(seed: int, jobs: int = 40) -> Workload:
    """Jobs that come in bursts, of up to 16 processors."""
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(jobs) < 0.8, rng.exponential(5.0, jobs), rng.exponential(1500.0, jobs))
    return workload(
        *(
            (
                float(at),
                int(2 ** rng.integers(0, 5)) if rng.random() < 0.6 else 1,
                float(rng.lognormal(5.5, 1.0)),
            )
            for at in np.cumsum(gaps)
        )
    )


ROOM_TO_THINK = (
    "sketch",
    "beside",
    "aside",
    "plan",
    "fitting",
    "chosen",
    "asked",
    "score",
    "ends",
    "cursor",
)
"""Columns in which a simulation may leave anything."""


def everything(run: NodesSimulation) -> dict[str, object]:
    """All that a run's state, rules and parameters are."""
    state = run.state
    arrays = {
        name: np.array(value) for name, value in state.values().items() if isinstance(value, np.ndarray)
    }
    trace = {
        name: np.array(as_array(getattr(run.trace, name))) for name in ("outcomes", "history", "finished")
    }
    return {**arrays, **trace, "rules": id(run.rules), "row": run.row.copy()}


def without_room_to_think(columns: dict[str, object]) -> dict[str, object]:
    """What a selection must leave as it is."""
    return {name: value for name, value in columns.items() if name not in ROOM_TO_THINK}


def compare_around_selections(run: NodesSimulation, portfolio: Portfolio) -> list[float]:
    """Each selection of the portfolio fails that changes anything of the run; the times of those that did not, s."""
    simulated, compared = portfolio.rotation.simulate, list[float]()

    def compare(simulate: Simulate) -> dict[int, float]:
        before = without_room_to_think(everything(run))
        found = simulated(simulate)
        after = everything(run)
        for name, value in before.items():
            assert np.asarray(value).tobytes() == np.asarray(after[name]).tobytes(), name
        compared.append(run.now_s)
        return found

    portfolio.rotation.simulate = compare  # pyright: ignore[reportAttributeAccessIssue]
    return compared
