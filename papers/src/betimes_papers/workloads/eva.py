"""`eva`: the trace on which Eva was evaluated, from Alibaba's public pods, draw for draw.

Its released generator draws arrivals from NumPy's legacy generator, and durations and then workloads from Python's:
both streams are frozen for good. Each distinct demand gets one workload, whose interference and delays its jobs have.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError, TraceError
from betimes.workload.generators.parameters import Generator, Parameter
from betimes.workload.small_table import Row, SmallTable
from betimes.workload.workload import Notes, Workload
from betimes_papers.workloads.profiles import read_profiles

# In the order in which the released generator chooses among them.
WORKLOADS = ("a3c", "cyclegan", "gcn", "gpt2", "openfoam", "sage", "seq", "resnet18", "vit")

# What the 21 instance types hold at most: p3 by GPUs, and the largest r7i, which holds what all without GPUs do.
_GPU_TYPES = ((1, 8, 61), (4, 32, 244), (8, 64, 488))
_LARGEST_CPU, _LARGEST_GIB = 192, 1536
_WITHOUT_GPUS = ("c7i", "r7i")
_VCPUS = {"vcpu": 1, "physical": 2}  # vCPUs that one of the cores stands for in capacities
_MOST_SEED = 2**32 - 1
_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "pod_phase", "creation_time", "deletion_time")


def eva(
    *, units: int, seed: int, pods: str, jobs: int, mean_gap_s: float, durations: str, cores: str, demand: str
) -> Workload:
    """Jobs of one task each as the parameters of `GENERATOR` say; raises InputError.

    Source: Eva (EuroSys'25), section 6.1; uw-mad-dash/Eva, `src/pai_trace/trace_generator.py`.
    """
    if seed > _MOST_SEED:
        raise InputError(f"generator eva takes a seed from 0 to {_MOST_SEED}, got {seed}")
    kept = [pod for pod in _pods(Path(pods)) if _fits(pod, _VCPUS[cores])]
    rng = random.Random(seed)
    if durations == "gavel":
        run_s = [_gavel_s(rng) for _ in kept]
    else:
        run_s = [pod.lived_s for pod in kept]
    arrival_s = np.random.RandomState(seed).exponential(mean_gap_s, len(kept)).cumsum().astype(np.int64)
    variants = _variants(kept, rng)
    # All are drawn, however many are kept: the first jobs are the same.
    drawn = min(jobs, len(kept)) if jobs else len(kept)
    taken = [n for n in range(drawn) if run_s[n] > 0]
    profiles = read_profiles()
    profile = [profiles[variants[kept[n].demand].partition("[")[0]] for n in taken]
    tasks = np.array([kept[n].demand for n in taken], np.float64).reshape(-1, 3)
    width = np.maximum(1, tasks[:, 0])
    lasts_s = np.array([run_s[n] for n in taken], np.float64)
    return Workload.from_columns(
        job_id=taken,
        submit_s=arrival_s[taken],
        work_s=lasts_s * width,
        min_units=width,
        max_units=width,
        gpu=np.minimum(1, tasks[:, 0]),
        cpu=tasks[:, 1] / width,
        memory_gib=tasks[:, 2] / width,
        name="eva",
        machine_units=units,
        extra={
            "workload_variant": [variants[kept[n].demand] for n in taken],
            "full_throughput_iter_per_s": [each.iterations_per_s for each in profile],
            "total_iters": [
                int(run_s[n] * each.iterations_per_s) for n, each in zip(taken, profile, strict=True)
            ],
            "init_delay_s": [each.init_s for each in profile],
            "fetch_delay_s": [each.fetch_s for each in profile],
            "build_image_delay_s": [each.build_s for each in profile],
            "kill_delay_s": [each.kill_s for each in profile],
            "upload_delay_s": [each.upload_s for each in profile],
            **(_by_family(tasks) if demand == "family" else {}),
        },
        notes=Notes(skipped={"no run time": drawn - len(taken)} if drawn > len(taken) else {}),
    )


@dataclass(frozen=True)
class _Pod:
    demand: tuple[int, int, int]  # whole GPUs, cores and GiB, rounded up
    lived_s: int


def _pods(path: Path) -> list[_Pod]:
    """The pods of a list that have not failed, in its order."""
    table = SmallTable(path, TraceError)
    for name in _COLUMNS:
        if name not in table.columns:
            raise table.fail("the column is missing: expected Alibaba's openb_pod_list_default.csv", 1, name)
    return [_pod(table, row) for row in table.rows if row.cells["pod_phase"] != "Failed"]


def _pod(table: SmallTable, row: Row) -> _Pod:
    scales = {"num_gpu": 1.0, "cpu_milli": 1000.0, "memory_mib": 1024.0}
    amounts = {name: table.number(row, name) / scale for name, scale in scales.items()}
    for name, amount in amounts.items():
        if amount < 0:
            raise table.fail(f"expected a number from 0, got {row.cells[name]!r}", row.line, name)
    gpu, cpu, memory_gib = (math.ceil(amount) for amount in amounts.values())
    lived_s = table.number(row, "deletion_time") - table.number(row, "creation_time")
    return _Pod((gpu, cpu, memory_gib), int(lived_s))


def _fits(pod: _Pod, vcpus: int) -> bool:
    """Whether some instance type holds a pod. A pod without GPUs needs half the cores on types without GPUs."""
    gpu, cpu, memory_gib = pod.demand
    on_gpus = any(gpu <= g and cpu * vcpus <= c and memory_gib <= m for g, c, m in _GPU_TYPES)
    return on_gpus or (gpu == 0 and cpu * vcpus <= 2 * _LARGEST_CPU and memory_gib <= _LARGEST_GIB)


def _by_family(tasks: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Cores by family (`workload.family_demands`) of pods without GPUs: half as many on types without GPUs."""
    cpu = np.where(tasks[:, 0] == 0, tasks[:, 1], np.nan)
    return {"cpu.p3": cpu} | {f"cpu.{family}": cpu / 2 for family in _WITHOUT_GPUS}


def _gavel_s(rng: random.Random) -> int:
    """Gavel's durations: 10**U(1.5, 3) minutes four times of five, else 10**U(3, 4)."""
    bounds = (1.5, 3) if rng.random() < 0.8 else (3, 4)
    return int(60 * 10 ** rng.uniform(*bounds))


def _variants(pods: list[_Pod], rng: random.Random) -> dict[tuple[int, int, int], str]:
    """The workload of each distinct demand, with the number of the demand among that workload's."""
    variants: dict[tuple[int, int, int], str] = {}
    counts = dict.fromkeys(WORKLOADS, 0)
    for pod in pods:
        if pod.demand not in variants:
            workload = rng.choice(WORKLOADS)
            variants[pod.demand] = f"{workload}[{counts[workload]}]"
            counts[workload] += 1
    return variants


GENERATOR = Generator(
    name="eva",
    description="Eva's trace: Alibaba's pods with drawn arrivals and workloads; 6,274 jobs of one task.",
    details=(
        "The published trace is `eva:pods=openb_pod_list_default.csv` with seed 3; its first 200 jobs are `jobs=200`. "
        "Failed pods and those that no EC2 instance type of the ec2-2023 catalogues holds are left out. Each distinct "
        "demand gets one of nine workloads, whose delays stand in further columns, as in Eva's trace files."
    ),
    source="Eva (EuroSys'25), section 6.1",
    parameters=(
        Parameter("pods", "path", None, "Alibaba's list of pods, openb_pod_list_default.csv, plain or gzip"),
        Parameter("jobs", "int", 0, "how many of the first jobs; 0: all", minimum=0, maximum=10_000_000),
        Parameter("mean_gap_s", "float", 1200.0, "mean time between arrivals, s", minimum=0, above=True),
        Parameter(
            "durations",
            "choice",
            "gavel",
            "as Gavel draws them, or the pods' own",
            choices=("gavel", "alibaba"),
        ),
        Parameter(
            "cores",
            "choice",
            "vcpu",
            "whether a core is a vCPU or a physical core; instances have half as many of these",
            choices=("vcpu", "physical"),
        ),
        Parameter(
            "demand",
            "choice",
            "any",
            "whether a pod needs the same on all machines, as in the published trace, or by family: without GPUs half "
            "the cores on c7i and r7i, as the choice of pods has it",
            choices=("any", "family"),
        ),
    ),
    function=eva,
    needs_units=False,
)
