"""The problem that policies are evaluated on: jobs, units, and the objectives of their schedule."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from betimes import __version__
from betimes.errors import InputError
from betimes.foresight.objectives import Objective
from betimes.foresight.predict import run_rows_predicting
from betimes.kernels.fingerprint import fingerprint
from betimes.policies import POLICIES
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload that fits its units, the objectives, and how it is simulated on a pool.

    What the objectives need is promised and recorded, whatever the options say. Raises InputError for options that
    mean nothing to a search.
    """

    workload: Workload
    objectives: tuple[Objective, ...]
    options: SimulationOptions

    def __post_init__(self) -> None:
        """Refuse options of other simulations, and take what the objectives need."""
        self.options.check("pool")
        for name in ("fair", "as_trials", "state"):
            if getattr(self.options, name):
                raise InputError(f"{name}: means nothing to a search; leave it out")
        needs = replace(
            self.options,
            predict=any(objective.predicts for objective in self.objectives),
            timeline=any(objective.watches for objective in self.objectives),
        )
        object.__setattr__(self, "options", needs)

    @property
    def units(self) -> int:
        """The units of the pool."""
        return self.options.pool_units(self.workload)

    def judging(self, workload: Workload) -> Problem:
        """The same problem with other jobs, each of them promised a finish: a sample is for the search alone."""
        return replace(self, workload=workload, options=replace(self.options, predict_sample=None))

    def key(self) -> str:
        """SHA-256 (hexadecimal) of all that the value of a policy depends on, the version included."""
        options, curves = self.options, self.options.curves
        facts = {
            "version": (__version__, _code()),
            "workload": self.workload.fingerprint(),
            "units": self.units,
            "cluster": None if options.cluster is None else options.cluster.capacity.tolist(),
            **(
                {"closings": options.cluster.closings}
                if options.cluster and options.cluster.maintenance
                else {}
            ),
            "objectives": [str(objective) for objective in self.objectives],
            "fractional": options.fractional,
            "curves": None
            if curves is None
            else (curves.names, curves.speedup.tolist(), curves.last.tolist()),
            "sizes": str(options.sizes or Sizes("true")),
            "seed": options.seed,
            "predict_sample": options.predict_sample,
            "restart_s": options.restart_s,
            "resize": (options.resize_interval_s, options.resize_gain),
        }
        return hashlib.sha256(repr(facts).encode()).hexdigest()


@cache
def _code() -> str:
    """A hash of the code that makes schedules and promises, and of all policies' hooks."""
    hooks = (each for policy in POLICIES.values() for each in (policy.rank, policy.classify, policy.allocate))
    parts = [run_rows_predicting.function, *(each for each in hooks if each is not None)]
    return hashlib.sha256("".join(map(fingerprint, parts)).encode()).hexdigest()


def parts(workload: Workload, jobs: int | None, seed: int) -> tuple[Workload, Workload | None]:
    """Two stretches of the workload in order of submission: one to find configurations on, the next to judge them.

    Each has `jobs` jobs (None, or where there are fewer: half of all); where the first begins is drawn by `seed`. A
    stretch keeps what matters, the load and the gaps between jobs, which a draw of single jobs would not. A workload
    of fewer than four jobs has no second part. Raises InputError for fewer than two jobs.
    """
    if len(workload) < 2:
        raise InputError(f"{workload.name}: tuning needs at least two jobs; give more")
    if jobs is not None and jobs < 2:
        raise InputError(f"--jobs {jobs}: tuning needs at least two jobs")
    if len(workload) < 4:
        return workload, None
    each = len(workload) // 2 if jobs is None else min(jobs, len(workload) // 2)
    first = int(np.random.default_rng([seed, 0x7A27]).integers(0, len(workload) - 2 * each + 1))
    return workload[first : first + each], workload[first + each : first + 2 * each]
