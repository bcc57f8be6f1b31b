"""Shared by the experiments of portfolio scheduling: logs, machines, and the measures of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from betimes.processes import Do, Say

if TYPE_CHECKING:
    from pathlib import Path

    from betimes.cluster import Cluster
    from betimes.outcome import Result
    from betimes.workload import Workload

WIDEST = 64  # processors; wider jobs are left out, as published


@dataclass(frozen=True)
class Log:
    """A log, and the start of the stretch that stands for it, after the first, sparse weeks."""

    name: str
    file: str
    first: int


LOGS = {
    log.name: log
    for log in (
        Log("kth-sp2", "swf/KTH-SP2-1996-2.swf.gz", 8_000),
        Log("sdsc-sp2", "swf/SDSC-SP2-1998-4.2-cln.swf.gz", 8_000),
        Log("das2-fs1", "swf/DAS2-fs1-2003-1.swf.gz", 8_000),
        Log("lcg", "swf/LCG-2005-1.swf.gz", 20_000),
    )
}

Figures = dict[str, float]
"""Of one run: utility, mean bounded slowdown, charged machine hours, and selections."""

UNITS = {"utility": "", "bounded slowdown": "ratio", "charged cost": "machine h", "selections": ""}


def stretch(log: Log, data: Path, jobs: int | None) -> Workload:
    """`jobs` jobs of the log from the start of its stretch on, submitted from 0 on; None: the whole log."""
    import numpy as np

    from betimes.workload import read_trace

    workload = read_trace(str(data / log.file))
    narrow = workload[np.flatnonzero(workload.max_units <= WIDEST)]
    if jobs is not None:
        narrow = narrow[np.arange(log.first, min(log.first + jobs, len(narrow)))]
    return replace(narrow, submit_s=narrow.submit_s - narrow.submit_s[0])


def machines() -> Cluster:
    """At most 256 machines of one processor, up after two minutes, charged by the hour from the request on."""
    from betimes.cluster import Cluster, Offer

    return Cluster(
        "machines",
        (),
        offers=(
            Offer(
                type="vm",
                cpu=1.0,
                memory_gib=0.0,
                usd_per_h=1.0,
                boot_s=120.0,
                bill_step_s=3600.0,
                min_bill_s=3600.0,
                bill_from="request",
                capacity=256,
            ),
        ),
    )


@dataclass(frozen=True)
class Run:
    """A policy on the stretch, with beliefs about sizes and the exponents of the reported utility."""

    label: str
    policy: str
    sizes: str = "true"
    alpha: float = 1.0
    beta: float = 1.0


def simulates(workload: Workload) -> Do:
    """A worker's function from a run to its figures and the names of the selected members, in order."""

    def do(run: Run, say: Say) -> tuple[Figures, list[str]]:
        from betimes.foresight.nodes.simulate import simulate_nodes

        result = simulate_nodes(workload, run.policy, cluster=machines(), sizes=run.sizes)
        say(len(workload))
        found = result.selections
        selected: list[str] = [] if found is None else found.member[found.chosen].tolist()
        return figures_of(result, run.alpha, run.beta), selected

    return do


def figures_of(result: Result, alpha: float = 1.0, beta: float = 1.0) -> Figures:
    """The figures of a whole run, with the true run times."""
    import numpy as np

    from betimes.foresight.portfolio.utility import LEAST_RUN_S, Utility
    from betimes.outcome import job_metric

    assert result.leases is not None
    jobs = result.jobs
    run_s = np.maximum(jobs.run_alone_s, LEAST_RUN_S)
    slowdown = float(np.mean((job_metric(result, "wait_s") + run_s) / run_s))
    charged_h = float(result.leases.cost_usd.sum())
    return {
        "utility": Utility(alpha, beta).of(float(jobs.work_s.sum()), 3600.0 * charged_h, slowdown),
        "bounded slowdown": slowdown,
        "charged cost": charged_h,
        "selections": 0.0 if result.selections is None else float(result.selections.chosen.sum()),
    }


def alone(name: str) -> str:
    """A member PROVISIONING/ORDER/PLACEMENT as a single policy."""
    provisioning, order, placement = name.split("/")
    return f"{provisioning}:order={order},placement={placement}"
