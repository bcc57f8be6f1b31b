"""What a move of a job to other machines was expected to save, and what it saved until the run that followed ended.

Both are the price of the machines that the job alone keeps, as in `engines.move_savings`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from betimes.service.engines.move_savings import S_PER_H


@dataclass(frozen=True)
class MoveRecord:
    """A move that a planner has decided. Null: not known yet, or it never came to that."""

    decided_at: float
    before_usd_per_h: float  # the price of what it alone would keep if it stayed
    after_usd_per_h: float  # of what it alone needs where it goes, as planned
    expected_cost_usd: float  # of its pause, and of the boot of new machines
    left_at: float | None = None
    resumed_at: float | None = None
    paid_usd: float = 0.0  # for what it alone has kept since then
    paid_until_at: float = 0.0

    @property
    def expected_saving_usd_per_h(self) -> float:
        """What was planned."""
        return self.before_usd_per_h - self.after_usd_per_h

    @property
    def hours(self) -> float:
        """For how long the run after the move has been counted."""
        return 0.0 if self.resumed_at is None else (self.paid_until_at - self.resumed_at) / S_PER_H

    @property
    def saving_usd_per_h(self) -> float | None:
        """What came of it: the price before less the mean price since; null: it has not run since."""
        return self.before_usd_per_h - self.paid_usd / self.hours if self.hours > 0 else None

    @property
    def cost_usd(self) -> float | None:
        """What the pause has cost, at the price before; null: it is not over."""
        if self.left_at is None or self.resumed_at is None:
            return None
        return (self.resumed_at - self.left_at) / S_PER_H * self.before_usd_per_h

    def left(self, at: float) -> MoveRecord:
        """The run that the move ends is over."""
        return replace(self, left_at=at)

    def resumed(self, at: float) -> MoveRecord:
        """The run that follows is launched."""
        return replace(self, resumed_at=at, paid_until_at=at)

    def paid(self, usd_per_h: float, until_at: float) -> MoveRecord:
        """The price of what the job alone keeps has been this since it was counted last."""
        usd = usd_per_h * (until_at - self.paid_until_at) / S_PER_H
        return replace(self, paid_usd=self.paid_usd + usd, paid_until_at=until_at)

    def to_json(self) -> dict[str, Any]:
        """All of it, for an event or a snapshot."""
        return asdict(self)
