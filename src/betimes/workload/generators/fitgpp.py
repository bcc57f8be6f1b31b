"""`fitgpp`: trial and best-effort jobs with demands of GPUs, cores and memory, as FitGpp was evaluated on.

The paper prints the means of the times; standard deviations, lower bounds and the demands are only in figures,
so those here are stated choices, and every one is a parameter. A job is one task, and all are submitted at 0:
the paper keeps the load on the machine constant under FIFO, so that submission times follow from a simulation.
The notes give the load and the machine (`closed_loop_*`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from betimes.errors import InputError
from betimes.workload.columns import BEST_EFFORT, TRIAL
from betimes.workload.generators.arrivals import FloatArray, rounded, streams
from betimes.workload.generators.distributions import LEAST_ACCEPTANCE, acceptance, truncated_normal
from betimes.workload.generators.parameters import Generator, Parameter
from betimes.workload.workload import Notes, Workload

_MINUTE_S = 60.0
_HOUR_S = 3600.0
_FORM = "MEAN, MEAN+SIGMA or MEAN+SIGMA+LOW+HIGH"


def fitgpp(
    *,
    units: int,
    seed: int,
    jobs: int,
    te_share: float,
    te_run_s: str,
    be_run_s: str,
    grace_s: str,
    te_cpu: str,
    be_cpu: str,
    te_memory_gib: str,
    be_memory_gib: str,
    te_gpu: str,
    be_gpu: str,
    resolution_s: float,
    load: float,
    nodes: int,
    node_gpu: float,
    node_cpu: float,
    node_memory_gib: float,
) -> Workload:
    """Jobs as the parameters of `GENERATOR` say; raises InputError.

    Source: Yabuuchi et al., OpML'19, section 3 and appendix A.
    """
    run_s = _Pair.read("run_s", te_run_s, be_run_s, (_MINUTE_S, 30 * _MINUTE_S), (_MINUTE_S, 24 * _HOUR_S))
    grace = _Normal.read("grace_s", grace_s, 0.0, 20 * _MINUTE_S)
    cpu = _Pair.read("cpu", te_cpu, be_cpu, (1.0, 32.0), (1.0, 32.0))
    memory_gib = _Pair.read("memory_gib", te_memory_gib, be_memory_gib, (1.0, 256.0), (1.0, 256.0))
    gpu = _Pair.read("gpu", te_gpu, be_gpu, (0.0, 8.0), (0.0, 8.0))

    class_rng, run_rng, grace_rng, cpu_rng, memory_rng, gpu_rng = streams(seed, 6)
    trial = class_rng.random(jobs) < te_share
    work_s = rounded(run_s.sample(run_rng, trial), resolution_s)
    closed_loop = {
        "load": load,
        "nodes": nodes,
        "node_gpu": node_gpu,
        "node_cpu": node_cpu,
        "node_memory_gib": node_memory_gib,
    }
    return Workload.from_columns(
        submit_s=np.zeros(jobs),
        work_s=np.maximum(work_s, resolution_s),
        qos=np.where(trial, TRIAL, BEST_EFFORT),
        grace_s=rounded(grace.sample(grace_rng, jobs), resolution_s),
        cpu=np.rint(cpu.sample(cpu_rng, trial)),
        memory_gib=np.rint(memory_gib.sample(memory_rng, trial)),
        gpu=np.rint(gpu.sample(gpu_rng, trial)),
        name="fitgpp",
        machine_units=units,
        notes=Notes(header={f"closed_loop_{key}": f"{value:.15g}" for key, value in closed_loop.items()}),
    )


@dataclass(frozen=True)
class _Normal:
    """A normal of this mean and standard deviation, both before it is cut to [low, high]."""

    mean: float
    sigma: float
    low: float
    high: float

    @classmethod
    def read(cls, name: str, text: str, low: float, high: float) -> _Normal:
        """From MEAN+SIGMA+LOW+HIGH; without sigma it is the mean, without bounds they are `low` and `high`."""
        try:
            numbers = [float(part) for part in text.split("+")]
        except ValueError:
            numbers = []
        if len(numbers) not in {1, 2, 4} or not all(math.isfinite(each) and each >= 0 for each in numbers):
            raise InputError(
                f"generator fitgpp, parameter {name}: expected {_FORM}, each a number from 0, got {text!r}"
            )
        mean, sigma = numbers[0], numbers[min(1, len(numbers) - 1)]
        if len(numbers) == 4:
            low, high = numbers[2:]
        if sigma == 0:
            possible = low <= mean <= high
        else:
            possible = low == high or acceptance(mean, sigma, low, high) >= LEAST_ACCEPTANCE
        if not possible:
            raise InputError(
                f"generator fitgpp, parameter {name}: under {LEAST_ACCEPTANCE:.1%} of a normal with mean {mean:g} "
                f"and sigma {sigma:g} lies in {low:g}..{high:g}; move the bounds ({_FORM})"
            )
        return cls(mean, sigma, low, high)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent draws."""
        if self.sigma == 0 or self.low == self.high:
            return np.full(n, self.mean if self.sigma == 0 else self.low)
        return truncated_normal(rng, n, self.mean, self.sigma, self.low, self.high)


@dataclass(frozen=True)
class _Pair:
    """One variable of trial and of best-effort jobs."""

    trial: _Normal
    best_effort: _Normal

    @classmethod
    def read(
        cls,
        name: str,
        trial: str,
        best_effort: str,
        trial_bounds: tuple[float, float],
        best_effort_bounds: tuple[float, float],
    ) -> _Pair:
        """From the two parameters te_NAME and be_NAME."""
        return cls(
            _Normal.read(f"te_{name}", trial, *trial_bounds),
            _Normal.read(f"be_{name}", best_effort, *best_effort_bounds),
        )

    def sample(self, rng: np.random.Generator, trial: np.ndarray) -> FloatArray:
        """One draw a job: separate streams keep one class's draws from moving the other's."""
        made = np.empty(len(trial))
        for its_rng, variable, rows in zip(
            rng.spawn(2), (self.trial, self.best_effort), (trial, ~trial), strict=True
        ):
            made[rows] = variable.sample(its_rng, int(rows.sum()))
        return made


GENERATOR = Generator(
    name="fitgpp",
    description="Trial and best-effort jobs with demands and grace periods, as FitGpp was evaluated on.",
    details=(
        "Every variable is a normal, stated as `MEAN+SIGMA+LOW+HIGH`: mean and sigma are those before the cut to "
        "low..high, and draws outside are drawn again. `MEAN+SIGMA` keeps the bounds that stand here, `MEAN` alone "
        "means a sigma as large. Demands are rounded to whole numbers. They are alike in both classes; trial jobs "
        "that are small beside the others: `fitgpp:te_memory_gib=64,be_cpu=16,be_memory_gib=96,be_gpu=4`. All jobs "
        "are submitted at 0, and the notes say on which machine which load is to be kept."
    ),
    source="FitGpp (OpML'19), section 3 and appendix A; sigmas, lower bounds and demands are Betimes's choices",
    parameters=(
        Parameter("jobs", "int", 8192, "number of jobs; 524288 in the paper", minimum=1, maximum=10_000_000),
        Parameter("te_share", "float", 0.3, "probability that a job is a trial", minimum=0, maximum=1),
        Parameter("te_run_s", "text", "300+300+60+1800", "run time of trial jobs, s"),
        Parameter("be_run_s", "text", "1800+1800+60+86400", "run time of best-effort jobs, s"),
        Parameter("grace_s", "text", "180+180+0+1200", "grace period, s"),
        Parameter("te_cpu", "text", "8+8+1+32", "cores of trial jobs"),
        Parameter("be_cpu", "text", "8+8+1+32", "cores of best-effort jobs"),
        Parameter("te_memory_gib", "text", "32+32+1+256", "memory of trial jobs, GiB"),
        Parameter("be_memory_gib", "text", "32+32+1+256", "memory of best-effort jobs, GiB"),
        Parameter("te_gpu", "text", "2+2+0+8", "GPUs of trial jobs"),
        Parameter("be_gpu", "text", "2+2+0+8", "GPUs of best-effort jobs"),
        Parameter("resolution_s", "float", 0.0, "round times to multiples of this; 0: not", minimum=0),
        Parameter(
            "load",
            "float",
            2.0,
            "load to keep under FIFO: what all jobs in the system need over what the machine has, of the scarcest "
            "resource",
            minimum=0,
            above=True,
        ),
        Parameter("nodes", "int", 84, "nodes on which it is kept", minimum=1, maximum=1_000_000),
        Parameter("node_gpu", "float", 8.0, "GPUs of each", minimum=0, maximum=1e9),
        Parameter("node_cpu", "float", 32.0, "cores of each", minimum=0, above=True, maximum=1e9),
        Parameter(
            "node_memory_gib", "float", 256.0, "memory of each, GiB", minimum=0, above=True, maximum=1e9
        ),
    ),
    function=fitgpp,
)
