"""Profiles of workloads: demand by instance family, iterations a second, migration delays.

`profiles.csv` has those of Eva (EuroSys'25, table 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from betimes.errors import TraceError
from betimes.workload.small_table import Row, SmallTable

EVA = Path(__file__).with_name("profiles.csv")
_AMOUNTS = ("gpus", "cpus", "ram_gib")
_DELAYS = ("init_delay_s", "fetch_delay_s", "build_image_delay_s", "kill_delay_s", "upload_delay_s")
_NUMBERS = ("num_tasks", *_AMOUNTS, "full_throughput_iter_per_s", *_DELAYS)


@dataclass(frozen=True)
class Profile:
    """A workload: `tasks` equal tasks, each with its demand (GPUs, cores, GiB) by instance family (`any`: all others).

    Moving a task takes `kill_s`, `upload_s` to store its state, `fetch_s` to load it, `build_s` the first time that its
    image is used on a machine, and the job starts for `init_s` once all its tasks are up. Alone it makes
    `iterations_per_s`.
    """

    name: str
    tasks: int
    demand: Mapping[str, tuple[float, float, float]]
    iterations_per_s: float
    init_s: float
    fetch_s: float
    build_s: float
    kill_s: float
    upload_s: float


def read_profiles(path: Path = EVA) -> dict[str, Profile]:
    """The workloads of a CSV file, plain or gzip, by their names; by default those of Eva.

    A line is a task of a workload on an instance family; tasks of one workload are equal. Raises TraceError naming
    file, line and field.
    """
    table = SmallTable(path, TraceError)
    for name in ("workload", "instance_family", *_NUMBERS):
        if name not in table.columns:
            raise table.fail("the column is missing", 1, name)
    by_name: dict[str, list[Row]] = {}
    for row in table.rows:
        by_name.setdefault(row.cells["workload"], []).append(row)
    return {name: _profile(table, name, rows) for name, rows in by_name.items()}


def _profile(table: SmallTable, name: str, rows: list[Row]) -> Profile:
    demand: dict[str, tuple[float, float, float]] = {}
    first = {field: _amount(table, rows[0], field) for field in _NUMBERS}
    for row in rows:
        for field in ("num_tasks", "full_throughput_iter_per_s", *_DELAYS):
            if _amount(table, row, field) != first[field]:
                raise table.fail(f"another line of workload {name} has {first[field]:g}", row.line, field)
        gpu, cpu, memory_gib = (_amount(table, row, field) for field in _AMOUNTS)
        family = row.cells["instance_family"]
        if demand.setdefault(family, (gpu, cpu, memory_gib)) != (gpu, cpu, memory_gib):
            raise table.fail(f"a task of workload {name} needs something else on {family}", row.line, "cpus")
    if first["num_tasks"] < 1 or first["num_tasks"] % 1:
        raise table.fail("expected a whole number from 1", rows[0].line, "num_tasks")
    delays = (first[field] for field in _DELAYS)
    return Profile(name, int(first["num_tasks"]), demand, first["full_throughput_iter_per_s"], *delays)


def _amount(table: SmallTable, row: Row, field: str) -> float:
    value = table.number(row, field)
    if value < 0:
        raise table.fail(f"expected a number from 0, got {row.cells[field]!r}", row.line, field)
    return value
