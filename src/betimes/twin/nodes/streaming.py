"""A simulation on nodes whose jobs come in chunks: it keeps five numbers of each finished job.

The loop reads a window of the trace. Before the first jobs of the next chunk are known, it stops short of the last
instant of the window, at which more of them may be submitted. So chunks change nothing: every job starts and ends as in
one run over the whole trace.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.errors import ClusterError, InputError, PolicyError
from betimes.kernels import Floats, as_array, blank
from betimes.outcome import metrics
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.twin.nodes.event_loop import Arrival, Outcome
from betimes.twin.nodes.renting import billed, present
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload
from betimes.workload.family_demands import refuse_family_demands

FIRST_ROWS = 1 << 16  # of the columns of outcomes


@dataclass(frozen=True, eq=False)
class StreamedResult:
    """The outcomes of all jobs that the cluster could run, in order of submission.

    `submit_s`, `run_s` (a job's run time alone), `start_s` and `finish_s` in seconds, NaN where there is none;
    `cost_usd` of the job's dedicated machines; `offer`: which of the cluster's offers it ended on, -1: on owned
    machines. `leases_usd`: the cost of all rented machines, and `fixed_usd` of the owned ones, None where they have no
    prices. `refused` jobs were refused, the first for `reason`.
    """

    policy: str
    submit_s: Floats
    run_s: Floats
    start_s: Floats
    finish_s: Floats
    cost_usd: Floats
    offer: NDArray[np.int8]
    refused: int
    reason: str
    leases_usd: float | None
    fixed_usd: float | None
    events: int
    wall_s: float

    def summary(self) -> dict[str, Any]:
        """Figures under the names that `outcome.summarise` gives them; means and percentiles are of jobs that ended."""
        ended = ~np.isnan(self.finish_s)
        count = int(ended.sum())
        done = slice(None) if count == len(ended) else ended  # which copies nothing where all have
        submit_s, finish_s = self.submit_s[done], self.finish_s[done]
        found: dict[str, Any] = {
            "policy": self.policy,
            "jobs": len(self.submit_s) + self.refused,
            "finished": count,
            "unfinished": len(self.submit_s) - count,
            "refused": self.refused,
            "makespan_s": metrics.makespan(self.submit_s, finish_s),
        }
        wait_s = metrics.wait(submit_s, self.start_s[done])
        found["wait_mean_s"] = metrics.mean(wait_s)
        found["wait_mean_h"] = found["wait_mean_s"] / 3600.0
        found["wait_max_h"] = float(wait_s.max()) / 3600.0 if count else math.nan
        del wait_s
        jct_s = metrics.jct(submit_s, finish_s)
        found["jct_mean_s"] = metrics.mean(jct_s)
        found |= {f"jct_p{percent}_s": metrics.percentile(jct_s, percent) for percent in (50, 99)}
        slowdown = metrics.slowdown(jct_s, self.run_s[done])
        found["slowdown_mean"] = metrics.mean(slowdown)
        found |= {f"slowdown_p{percent}": metrics.percentile(slowdown, percent) for percent in (50, 95)}
        if self.leases_usd is None and self.fixed_usd is None:
            return found
        leases_usd, fixed_usd = self.leases_usd or 0.0, self.fixed_usd or 0.0
        found |= {"cost_usd": leases_usd + fixed_usd, "on_demand_usd": leases_usd, "fixed_usd": fixed_usd}
        if self.leases_usd is not None:
            found["rented_frac"] = float(np.mean(self.offer[done] >= 0)) if count else math.nan
            found["on_demand_of_fixed_frac"] = leases_usd / fixed_usd if fixed_usd > 0 else math.nan
        return found


class StreamedSimulation:
    """The twin of a cluster of nodes for more jobs than fit in memory as columns: `run`, then `result`.

    chunks: workloads, each of which begins when the one before it ends, or later. Policies that look at the whole
    trace, or decide outside of the loop, are refused (PolicyError), as are beliefs drawn from it (InputError).
    """

    def __init__(
        self,
        chunks: Iterable[Workload],
        policy: ChosenPolicy[NodesPolicy],
        options: SimulationOptions,
    ) -> None:
        if policy.policy.planner is not None or policy.policy.members is not None:
            raise PolicyError(
                f"policy {policy}: cannot run on jobs in chunks; run it on a whole trace (without --stream)"
            )
        self.sizes = options.sizes or Sizes("true")
        if self.sizes.kind not in ("true", "estimate"):
            raise InputError(f"--sizes {self.sizes}: with jobs in chunks choose true or estimate")
        if options.state is not None:
            raise InputError("state: jobs in chunks begin with nothing running; run it on a whole trace")
        self._chunks = (chunk for chunk in chunks if len(chunk))
        self._options = options
        self._policy = policy
        first = next(self._chunks, None)
        if first is None:
            raise InputError("there is no job to simulate")
        self._run = self._prepared(first)
        if self._run.rules.plays:
            raise PolicyError(
                f"policy {policy}: cannot run on jobs in chunks; run it on a whole trace (without --stream)"
            )
        self._run.name_of = lambda row: f"in row {row}"
        self._rows = 0
        self._table: dict[str, NDArray[Any]] = {
            name: np.empty(FIRST_ROWS, dtype)
            for name, dtype in (
                ("submit_s", np.float64),
                ("run_s", np.float64),
                ("start_s", np.float64),
                ("finish_s", np.float64),
                ("cost_usd", np.float64),
                ("offer", np.int8),
            )
        }
        self._leases_usd: list[float] = []
        self._refused = 0
        self._reason = ""
        self._wall_s = 0.0
        self._last_s = -math.inf

    def run(self, progress: Callable[[int], object] | None = None) -> None:
        """Take the cluster through all chunks; progress receives the number of jobs submitted so far.

        Raises as `NodesSimulation.run` does, and InputError for a chunk that begins before the one before it has ended.
        """
        run = self._run
        self._enter(run)
        left = self._window(as_array(run.trace.arrivals))
        for chunk in self._chunks:
            # More jobs may be submitted at the last instant of the window.
            submit_s = left["submit_s"]
            stop = int(np.searchsorted(submit_s, submit_s[-1:])[0]) if len(left) else 0
            if stop > 0:
                self._advance(stop, progress)
            more = self._prepared(chunk)
            self._enter(more)
            left = self._window(left[run.row[0] :], as_array(more.trace.arrivals))
        self._advance(len(left), progress, last=True)

    def result(self) -> StreamedResult:
        """The outcomes of the jobs."""
        priced = any(group.usd_per_h is not None for group in self._run.cluster.groups)
        run, horizon_s = self._run, self._run.now_s - float(self._table["submit_s"][0] if self._rows else 0.0)
        return StreamedResult(
            policy=str(run.policy),
            **{name: column[: self._rows] for name, column in self._table.items()},
            refused=self._refused,
            reason=self._reason,
            leases_usd=math.fsum(self._leases_usd) if run.rents else None,
            fixed_usd=float(run.cluster.owned_usd(max(0.0, horizon_s))) if priced else None,
            events=int(run.state.pool[0].events),
            wall_s=self._wall_s,
        )

    def _prepared(self, chunk: Workload) -> NodesSimulation:
        """The jobs of a chunk as the loop takes them: those of a simulation of the chunk alone."""
        if self.sizes.kind == "estimate" and np.isnan(chunk.estimate_s).any():
            row = int(np.argmax(np.isnan(chunk.estimate_s)))
            raise InputError(
                f"{chunk.name}, job {chunk.job_id[row]}: it has no estimate, and the median of all is not known "
                "where jobs come in chunks; give one, or choose --sizes true"
            )
        if (chunk.require != "").any():
            row = int(np.argmax(chunk.require != ""))
            raise InputError(
                f"{chunk.name}, job {chunk.job_id[row]}, field require: which labels all jobs require is not known "
                "where they come in chunks; run it on a whole trace"
            )
        refuse_family_demands(
            chunk,
            "what all jobs need by family is not known where they come in chunks; run it on a whole trace",
        )
        return NodesSimulation(chunk, self._policy, self._options)

    def _enter(self, more: NodesSimulation) -> None:
        """Make rows for the jobs of a chunk."""
        submit_s = more.jobs.submit_s
        self._refused += int(more.tasks.refused.sum())
        if more.tasks.reasons and not self._reason:
            self._reason = more.tasks.reasons[0].rpartition(";")[
                0
            ]  # without how many there are in this chunk
        if not len(submit_s):
            return
        if submit_s[0] < self._last_s:
            raise InputError(
                f"{more.workload.name}, job {more.jobs.job_id[0]}: submitted at {submit_s[0]:g} s, before the last "
                f"of the chunk before it ({self._last_s:g} s); hand the chunks in in order"
            )
        if len(more.state.fates) > len(self._run.state.fates):
            raise ClusterError(
                f"{more.workload.name}: a job needs more machines of one offer at once than any of the first chunk; "
                "hand in a larger first chunk"
            )
        self._last_s = float(submit_s[-1])
        begin, self._rows = self._rows, self._rows + len(submit_s)
        fresh = {
            "submit_s": submit_s, "run_s": more.run_s, "start_s": math.nan, "finish_s": math.nan, "cost_usd": 0.0,
            "offer": -1,
        }  # fmt: skip
        for name, values in fresh.items():
            column = self._table[name]
            if self._rows > len(column):
                self._table[name] = np.empty(max(self._rows, 2 * len(column)), column.dtype)
                self._table[name][:begin] = column[:begin]
            self._table[name][begin : self._rows] = values

    def _window(self, *parts: NDArray[Any]) -> NDArray[Any]:
        """Show the loop these arrivals, the last rows so far; there is room for the outcomes meanwhile."""
        run = self._run
        window = blank(Arrival, sum(map(len, parts)))
        arrivals = np.concatenate(parts, out=as_array(window))
        run.row[0] = 0
        run.driver.trace = run.trace.replaced(
            arrivals=window,
            outcomes=blank(Outcome, len(arrivals) + int(run.state.pool[0].active)),
            first=np.array([self._rows - len(arrivals)]),
        )
        return as_array(window)

    def _advance(self, stop: int, progress: Callable[[int], object] | None, last: bool = False) -> None:
        """Submit the jobs of the window up to `stop`, and collect the outcomes of those that have ended.

        last: there are no others; jobs that are left after that never end.
        """
        run, first = self._run, int(self._run.trace.first[0])
        self._wall_s += run.advance_rows(stop, lambda row: progress(first + row) if progress else None)
        if last:
            run.note_unfinished()
        ended = as_array(run.trace.outcomes)[: run.trace.finished[0]]
        for name in ("start_s", "finish_s", "offer"):
            self._table[name][ended["row"]] = ended[name]
        run.trace.finished[0] = 0
        self._take_bills(last)

    def _take_bills(self, last: bool = False) -> None:
        """Collect the cost of machines whose leases have ended; last: and of those whose have not."""
        run = self._run
        run.take_records()
        ended = [*run.lease_chunks, present(run.state)] if last else run.lease_chunks
        bills = billed(run.cluster, np.concatenate(ended))
        run.lease_chunks = []
        alone = bills.job >= 0
        np.add.at(self._table["cost_usd"], bills.job[alone], bills.cost_usd[alone])
        # The sum of a window, and what it is short of the exact one.
        usd = bills.cost_usd.tolist()
        total = math.fsum(usd)
        self._leases_usd += [total, math.fsum(itertools.chain(usd, [-total]))]
