"""Which runs are golden, what is kept of them, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from betimes import read_trace, simulate
from betimes.workload import samples
from tests.golden import on_nodes, rented

Outcome = dict[str, list[float] | list[int]]

HERE = Path(__file__).parent

UNITS = {"tiny": 8, "elastic": 32}

POLICIES = (
    "fifo",
    "srsf",
    "srtf",
    "las:quantum=120",
    "themis:lease=120",
    "afs",
    "max-min",
    "wfq",
    "wfq:thresholds=600+3600,weights=3/5+3/10+1/10,zeta_min=0.7,delta=0.1",
)

MODES: dict[str, dict[str, Any]] = {
    "whole": {},
    "fractional": {"fractional": True},
    "whole, restarts, estimates": {"restart_s": 30.0, "sizes": "estimate"},
}

NODES, RENTED = "nodes", "rented"
FILES = (*UNITS, NODES, RENTED)
"""One a sample in a pool, one of all that runs on nodes, and one of those that rent."""


def file_of(name: str) -> Path:
    return HERE / f"{name}.json"


def run(file: str, policy: str, mode: str) -> Outcome:
    """Finish times, promised finish times and counts of every job, in order of submission."""
    if file == RENTED:
        return rented.run(policy)
    return on_nodes.run(policy, mode) if file == NODES else _in_a_pool(file, policy, mode)


def _in_a_pool(sample: str, policy: str, mode: str) -> Outcome:
    workload = read_trace(samples.path(sample))
    jobs = simulate(workload, policy, units=UNITS[sample], predict=True, **MODES[mode]).jobs
    return {
        "finish_s": jobs.finish_s.tolist(),
        "predicted_finish_s": jobs.predicted_finish_s.tolist(),
        "preemptions": jobs.preemptions.tolist(),
        "resizes": jobs.resizes.tolist(),
    }


def runs() -> list[tuple[str, str, str]]:
    """All (file, policy, mode). The larger sample is kept in one mode: the file is for people to read, too."""
    pool = [(s, p, m) for s in UNITS for p in POLICIES for m in MODES if s == "tiny" or m == "whole"]
    nodes = [(NODES, p, m) for p in on_nodes.POLICIES for m in on_nodes.MODES]
    return pool + nodes + [(RENTED, p, "estimates") for p in rented.POLICIES]


def load(file: str) -> dict[str, Outcome]:
    return json.loads(file_of(file).read_text())


def name_of(policy: str, mode: str) -> str:
    return f"{policy} ({mode})"


def write(file: str) -> None:
    """Run everything again and write it down, a line a column: floats in full, so that a file shows a change."""
    parts: list[str] = []
    for _, policy, mode in (key for key in runs() if key[0] == file):
        columns = ",\n".join(
            f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in run(file, policy, mode).items()
        )
        parts.append(f"{json.dumps(name_of(policy, mode))}: {{\n{columns}\n}}")
    file_of(file).write_text("{\n" + ",\n".join(parts) + "\n}\n")
