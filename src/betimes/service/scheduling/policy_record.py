"""The results of the policy in force so far: the sums by which a portfolio selects among its members."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_RUN_S = 10.0
"""Jobs that run for less count as this long in a bounded slowdown."""


@dataclass
class PolicyRecord:
    """Sums over jobs and rented machines, in seconds; slowdowns are bounded."""

    jobs: int = 0
    job_s: float = 0.0  # run times, times tasks
    machine_s: float = 0.0  # paid for
    slowdown: float = 0.0

    def finished(self, wait_s: float, run_s: float, tasks: int) -> None:
        """A job has finished."""
        self.jobs += 1
        self.job_s += run_s * tasks
        self.slowdown += bounded_slowdown(wait_s, run_s)


def bounded_slowdown(wait_s: float, run_s: float) -> float:
    """(wait + run) / run of a job, where short runs count as `LEAST_RUN_S`."""
    bounded_s = max(run_s, LEAST_RUN_S)
    return (max(0.0, wait_s) + bounded_s) / bounded_s
