"""The rounds of a planner in the twin: the instants, the snapshots, and the planner's decisions."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.planning import instructions as batch_of
from betimes.core.nodes.planning import refusals, snapshot_of
from betimes.core.nodes.timers import ROUND, set_policy_timer
from betimes.core.planning import Planner, Refusal
from betimes.errors import PolicyViolation
from betimes.kernels import as_array, entry
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.twin.nodes.driver import Driver
from betimes.workload import Workload

LONGEST_IDLE_S = 86_400.0
"""How long machines may be held after the last job: a planner that never releases them would be asked for ever."""

ask_at = entry(set_policy_timer, NodesState, float, int)


def ask_from(state: NodesState, period_s: float, at_s: float, *, later: bool = False) -> float:
    """Ask the planner at the first multiple of its period that is no earlier, or that is later; returns when."""
    number = math.floor(at_s / period_s)
    while number * period_s < at_s or (later and number * period_s == at_s):
        number += 1
    ask_at(state, number * period_s, ROUND)
    return number * period_s


class PlannerRounds:
    """Asks a planner at multiples of its period for as long as the simulation has anything left to decide.

    jobs: all that are submitted, and kinds: the kind of each, in the order of their rows.
    """

    def __init__(
        self,
        driver: Driver,
        planner: Planner,
        policy: ChosenPolicy[NodesPolicy],
        jobs: Workload,
        kinds: Sequence[str],
    ) -> None:
        self.driver, self.planner = driver, planner
        self.policy, self.jobs, self.kinds = policy, jobs, kinds
        self.refused = list[Refusal]()
        self.reported = 0  # outcomes that the planner has been shown
        self.events = -1  # of the simulation, when the planner was asked last
        self.done_s = math.inf  # when no job was left for the first time
        self._ended_before = list[tuple[int, float]]()  # not shown yet: before this was copied

    def begin(self) -> None:
        """Ask from the first submission on."""
        if len(self.jobs):
            self._ask_from(float(self.jobs.submit_s[0]))

    def ahead(self, driver: Driver) -> PlannerRounds:
        """A copy of the planner as it is now, for a copy of the cluster that is played forward."""
        found = PlannerRounds(driver, copy.deepcopy(self.planner), self.policy, self.jobs, self.kinds)
        found.events, found._ended_before = self.events, self._ended()
        return found

    def hold(self) -> None:
        """Let the planner decide, carry that out, and set the timer of the next round."""
        run = self.driver
        now_s, row = float(run.state.pool[0].now), int(run.row[0])
        if self.planner.every_round or int(run.state.pool[0].events) != self.events:
            self._plan()
            self.events = int(run.state.pool[0].events)
        active, rented = int(run.state.pool[0].active), int(run.state.cluster[0].rented)
        if active == 0 and row == len(self.jobs):
            self.done_s = min(self.done_s, now_s)
            if rented > 0 and now_s - self.done_s > LONGEST_IDLE_S:
                raise PolicyViolation(
                    f"policy {self.policy} at {now_s:g} s: it still holds {rented} machines a day after the last job; "
                    "a planner has to release them"
                )
        if active > 0 or rented > 0:
            self._ask_from(now_s, later=True)
        elif row < len(self.jobs):
            self._ask_from(float(self.jobs.submit_s[row]))

    def warning(self) -> str:
        """A note to the user about refused decisions, empty: none was refused."""
        if not self.refused:
            return ""
        first, count = self.refused[0], len(self.refused)
        decisions = "1 decision" if count == 1 else f"{count} decisions"
        named = f"job {self.jobs.job_id[first.row]}, " if first.row >= 0 else ""
        return (
            f"policy {self.policy}: {decisions} could not be carried out and changed nothing; "
            f"the first {named}{first}"
        )

    def _plan(self) -> None:
        run = self.driver
        snapshot = snapshot_of(run.state, self.kinds, self._ended())
        self._ended_before, self.reported = [], int(run.trace.finished[0])
        try:
            decisions = self.planner.plan(snapshot)
        except PolicyViolation as error:
            raise PolicyViolation(f"policy {self.policy} at {snapshot.now_s:g} s: {error}") from error
        except Exception as error:  # a user's planner can raise anything
            if not self.policy.is_users:
                raise
            raise PolicyViolation(
                f"policy {self.policy} at {snapshot.now_s:g} s: {type(error).__name__}: {error}"
            ) from error
        batch, of = batch_of(decisions, snapshot, {job.job: job.seq for job in snapshot.jobs})
        run.carry_out(batch)
        self.refused += refusals(decisions, batch, of, snapshot)

    def _ended(self) -> list[tuple[int, float]]:
        """The jobs that have ended since the last snapshot, by row: their order of submission."""
        ended = as_array(self.driver.trace.outcomes)[self.reported : self.driver.trace.finished[0]]
        found = zip(ended["row"].tolist(), ended["finish_s"].tolist(), strict=True)
        return [*self._ended_before, *found]

    def _ask_from(self, at_s: float, *, later: bool = False) -> None:
        ask_from(self.driver.state, self.planner.period_s, at_s, later=later)
