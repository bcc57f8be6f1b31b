"""Which member would have been best so far: each is run by itself on the jobs that a run has had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from betimes.foresight.portfolio.ledger import Ledger
from betimes.foresight.portfolio.utility import Utility
from betimes.kernels import as_array
from betimes.policies.nodes.hooks import Member
from betimes.policies.parsing import ChosenPolicy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.sizes import Sizes

FIRST_JOBS = 50
"""Before so many have been submitted, no member is known to be good."""

GROWTH = 1.5
"""The members are run again when there are this many times as many jobs as the last time."""

MOST_JOBS = 4_000
"""The newest so many are run again: the cost of it stays bounded."""


class Hindsight:
    """Keeps the number of the member that would have been best, by the utility of the jobs submitted so far.

    members: those of a portfolio, by number. Jobs that have not finished count as believed.
    """

    def __init__(self, run: NodesSimulation, members: Sequence[Member], utility: Utility) -> None:
        self._run, self._members, self._utility = run, members, utility
        self._seen = 0
        self._best: int | None = None

    def best(self, left_out: Sequence[str] = ()) -> int | None:
        """The best of the members but those left out, by name; None: too few jobs have been submitted."""
        jobs = int(self._run.row[0])
        if jobs >= max(FIRST_JOBS, GROWTH * self._seen):
            self._seen = jobs
            worth = [
                -1.0 if member.name in left_out else self._worth(member, max(0, jobs - MOST_JOBS), jobs)
                for member in self._members
            ]
            self._best = int(np.argmax(worth))
        if self._best is not None and self._members[self._best].name in left_out:
            return None
        return self._best

    def _worth(self, member: Member, first: int, last: int) -> float:
        """The utility of the jobs of rows `first` to `last` under a member from an empty cluster on."""
        run = self._run
        chosen = ChosenPolicy(member.policy, member.values, (), member.name)
        again = NodesSimulation(
            run.jobs[np.arange(first, last)], chosen, run.cluster, sizes=Sizes("true"), seed=run.seed
        )
        outcomes = as_array(run.trace.outcomes)["row"][: int(run.trace.finished[0])]
        arrivals, known = as_array(again.trace.arrivals), as_array(run.trace.arrivals)[first:last]
        has_finished = np.isin(np.arange(first, last), outcomes)
        arrivals["run_s"] = np.where(has_finished, known["run_s"], known["believed_s"])
        arrivals["believed_s"] = arrivals["run_s"]
        arrivals["believed_per_work"] = 1.0
        again.run()
        so_far = Ledger(again).totals()
        return self._utility.of(so_far.job_s, so_far.machine_s, so_far.slowdown / so_far.jobs)
