"""A copy of a run that is played forward, as the rounds of a planner see it."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.core.nodes.columns import NodesState
from betimes.kernels import Ints
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.twin.nodes.event_loop import Trace
from betimes.workload import Workload


class NeedsRoom(Exception):
    """The copy needs more room, of the kind of `status`. The simulation begins again with more."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class PlannedCopy:
    """A copy of a simulation, on which no more jobs are submitted (`twin.nodes.planner_rounds.Planned`)."""

    policy: ChosenPolicy[NodesPolicy]
    state: NodesState
    trace: Trace
    row: Ints
    kinds: list[str]
    jobs: Workload

    def heed(self, status: int) -> None:
        """Raises NeedsRoom: copies do not grow."""
        raise NeedsRoom(status)
