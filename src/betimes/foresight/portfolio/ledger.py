"""Totals of a run so far: job time, paid machine time, and slowdowns of the finished jobs.

The utility of a run is a ratio of sums over the whole run, so these sums, and not those of the few waiting jobs, set
the weight of a second of machine time against a unit of slowdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.foresight.portfolio.utility import LEAST_RUN_S
from betimes.kernels import Floats, as_array
from betimes.twin.nodes.simulation import NodesSimulation

Records = NDArray[Any]


@dataclass
class Totals:
    """Sums over jobs and machines, in seconds, slowdowns bounded."""

    jobs: int = 0
    job_s: float = 0.0
    machine_s: float = 0.0
    slowdown: float = 0.0


class Ledger:
    """Keeps the totals of a run; each finished job and each lease is looked at once."""

    def __init__(self, run: NodesSimulation) -> None:
        self._run = run
        self._past = Totals()
        self._finished = self._chunks = 0
        self._counted = 0  # leases of the next chunk that have been added while it was still being filled

    def totals(self) -> Totals:
        """The totals of finished jobs and of all rented machines until now."""
        run, past = self._run, self._past
        finished = int(run.trace.finished[0])
        self._add_jobs(as_array(run.trace.outcomes)[self._finished : finished])
        self._finished = finished
        for chunk in run.lease_chunks[self._chunks :]:
            self._add_leases(chunk[self._counted :])
            self._counted = 0
        self._chunks = len(run.lease_chunks)
        leases = int(run.state.cluster[0].leases)
        self._add_leases(as_array(run.state.leases)[self._counted : leases])
        self._counted = leases
        machines = as_array(run.state.machines)
        present = machines[machines["offer"] >= 0]
        now_s = float(run.state.pool[0].now)
        machine_s = past.machine_s + float(self._charged_s(present, now_s).sum()) + self._alone_s(now_s)
        return Totals(past.jobs, past.job_s, machine_s, past.slowdown)

    def _alone_s(self, now_s: float) -> float:
        """Paid machine time until now of machines rented for one job alone, s."""
        needs = as_array(self._run.state.needs)
        slots = np.flatnonzero((needs["holder"] >= 0) & (needs["rented"] > 0))
        alone, renting = needs[slots], as_array(self._run.state.rentings)[slots]
        rented = {
            "offer": renting["offer"],
            "requested_s": alone["began_s"],
            "booted_s": alone["began_s"] + renting["boot_s"],
        }
        return float((self._charged_s(rented, now_s) * alone["rented"]).sum())

    def _add_jobs(self, outcomes: Records) -> None:
        arrivals = as_array(self._run.trace.arrivals)[outcomes["row"]]
        lost = outcomes["preemptions"] > 0  # work lost by preemption counts as waiting
        began_s = np.where(lost, outcomes["finish_s"] - arrivals["run_s"], outcomes["start_s"])
        wait_s = np.maximum(began_s - arrivals["submit_s"], 0.0)
        bounded_s = np.maximum(arrivals["run_s"], LEAST_RUN_S)
        self._past.jobs += len(outcomes)
        self._past.job_s += float((arrivals["run_s"] * arrivals["tasks"]).sum())
        self._past.slowdown += float(((wait_s + bounded_s) / bounded_s).sum())

    def _add_leases(self, leases: Records) -> None:
        self._past.machine_s += float((self._charged_s(leases, leases["ended_s"]) * leases["count"]).sum())

    def _charged_s(self, machines: Records | Mapping[str, Records], until_s: Floats | float) -> Floats:
        """Paid time of each of these machines, or leases, until `until_s`, s: 0 before the bill begins."""
        terms = as_array(self._run.state.offers)[machines["offer"]]
        since_s = np.where(terms["from_request"] == 1, machines["requested_s"], machines["booted_s"])
        begun = since_s <= until_s
        held_s = np.maximum(np.where(begun, until_s - since_s, 0.0), terms["min_bill_s"])
        step_s = terms["bill_step_s"]
        steps = np.ceil(held_s / np.where(step_s > 0.0, step_s, 1.0))
        return np.where(begun, np.where(step_s > 0.0, steps * step_s, held_s), 0.0)
