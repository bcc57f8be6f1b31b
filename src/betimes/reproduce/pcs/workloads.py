"""The generated workloads of the PCS study, drawn as its published generator does, number for number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from betimes.reproduce.pcs.runs import TABLES

if TYPE_CHECKING:
    from betimes.workload import Workload

SEED = 4567  # the published generator's own


def workload_1(
    data: Path, *, jobs: int, load: float, units: int, seed: int = SEED, table: str = "themis1"
) -> Workload:
    """AutoML jobs: as many trials as the table draws, work shared evenly among them, none sped up by more units.

    As in the published simulator a job is one that can use a unit, or two or three, for each of its trials, along a
    straight line. Those wider than the machine are narrowed.
    """
    from betimes.workload.generators.registry import generate

    spec = f"workload-1:cdf={data / TABLES},table={table},jobs={jobs},load={load},published=true"
    return generate(spec, units=units, seed=seed)


def workload_3(*, jobs: int, load: float, units: int, seed: int = SEED) -> Workload:
    """Gavel's continuous-multiple trace; the published simulator takes its minutes for seconds, and so do we."""
    from betimes.workload.generators.registry import generate

    spec = f"workload-3:jobs={jobs},load={load},unit_s=1,published=true"
    return generate(spec, units=units, seed=seed)
