"""A part of the scheduler: what all of them are asked in a turn."""

from __future__ import annotations

import math


class Part:
    """A capability with steps of its own in a turn. `Scheduler` has them in the order in which they take these.

    name: of its steps, where one raises an error and is left out from then on (`SchedulerState.take_step`).
    """

    name = ""

    def next_at(self) -> float:
        """The instant at which it wants a turn if nothing happens before; infinity: never."""
        return math.inf

    def before_decision(self) -> None:
        """Let happen what is due, before the policy decides."""

    def after_decision(self) -> None:
        """Carry on from what the policy has decided, which is logged."""
