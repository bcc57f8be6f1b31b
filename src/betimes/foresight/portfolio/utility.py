"""The utility of a schedule: much job time for little rented time, and short waits (spec/portfolio.md C.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from betimes.kernels import kernel

KAPPA = 100.0
"""The utility of a schedule in which nothing waits and no rented second is idle."""

LEAST_RUN_S = 10.0
"""Jobs that run for less count as this long in a bounded slowdown."""


@dataclass(frozen=True)
class Utility:
    """kappa x (job time / machine time)^alpha x (1 / mean bounded slowdown)^beta."""

    alpha: float = 1.0
    beta: float = 1.0

    def of(self, job_s: float, machine_s: float, slowdown: float) -> float:
        """The utility of jobs that run for `job_s` in all, on machines paid for `machine_s`, s.

        Owned machines cost nothing: job time beyond the paid time counts as paid in full.
        """
        used_frac = min(1.0, job_s / machine_s) if machine_s > 0.0 else 1.0
        return KAPPA * used_frac**self.alpha * (1.0 / slowdown) ** self.beta


@kernel
def bounded_slowdown(wait_s: float, run_s: float) -> float:
    """(wait + run) / run of a job, where short runs count as `LEAST_RUN_S`."""
    bounded_s = max(run_s, LEAST_RUN_S)
    return (wait_s + bounded_s) / bounded_s


@kernel
def charged_s(held_s: float, least_s: float, step_s: float) -> float:
    """Paid seconds of a machine held for `held_s`: at least the minimum, in whole steps.

    least_s and step_s (0: to the moment) are those of `cluster.billing`.
    """
    if step_s == 0.0:
        return max(held_s, least_s)
    return math.ceil(max(held_s, least_s) / step_s) * step_s
