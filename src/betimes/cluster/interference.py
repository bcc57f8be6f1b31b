"""The speed of tasks next to others on one machine: `Interference`, a table of pairs, and its reader.

The table that ships as `eva` is that of Eva (EuroSys'25, figure 1): nine workloads measured on EC2.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from betimes.cluster.checks import file_text, shown
from betimes.errors import ClusterError, did_you_mean

UNRECORDED = 0.95
_FOLDER = Path(__file__).with_name("interference_tables")
_MOST_WORKLOADS = 1000


@dataclass(frozen=True)
class Interference:
    """Normalised throughput of each workload (row) next to one task of another (column): 1 is that of the task alone.

    None where it was not measured: `unrecorded` then. A task's kind is its workload's name, or that and a number in
    brackets, `resnet18[3]`. Raises ClusterError for a table that is not square, a name that stands twice, and a
    throughput outside 0 to 1.
    """

    workloads: tuple[str, ...]
    throughput: tuple[tuple[float | None, ...], ...]
    unrecorded: float = UNRECORDED

    def __post_init__(self) -> None:
        if twice := sorted({name for name in self.workloads if self.workloads.count(name) > 1}):
            raise ClusterError(f"interference: workload {twice[0]} stands twice")
        size = len(self.workloads)
        if len(self.throughput) != size or any(len(row) != size for row in self.throughput):
            raise ClusterError(f"interference: expected a row and a column for each of {size} workloads")
        _check("what is not recorded", self.unrecorded)
        for name, row in zip(self.workloads, self.throughput, strict=True):
            for other, value in zip(self.workloads, row, strict=True):
                if value is not None:
                    _check(f"{name} next to {other}", value)

    def pair(self, kind: str, other: str) -> float:
        """The throughput of a kind next to one neighbour; raises ClusterError for a workload that is not here."""
        value = self.throughput[self.row(kind)][self.row(other)]
        return self.unrecorded if value is None else value

    def of(self, kind: str, others: Sequence[str]) -> float:
        """The throughput of a kind next to neighbours: the product of the pairs, 1 alone."""
        self.row(kind)
        return math.prod(self.pair(kind, other) for other in sorted(others))

    def combinations(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        """Nothing is known beyond pairs."""
        return ()

    def row(self, kind: str) -> int:
        """The row of a kind's workload; raises ClusterError for a workload that is not here."""
        name = workload_of(kind)
        row = self._place.get(name)
        if row is None:
            hint = did_you_mean(name, self.workloads)
            raise ClusterError(
                f"workload {shown(name)} is not in the table of interference{hint}; it has {', '.join(self.workloads)}"
            )
        return row

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.workloads)}


def workload_of(kind: str) -> str:
    """The workload of a kind of tasks: its name without a number in brackets, if anything is left of it then."""
    name, bracket, number = kind.rpartition("[")
    is_numbered = bracket and number.endswith("]") and number[:-1].isdigit()
    return (name.strip() or kind) if is_numbered else kind


def interference_tables() -> list[str]:
    """The names of the tables that ship with Betimes, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.csv"))


def read_interference(path: str | os.PathLike[str], unrecorded: float = UNRECORDED) -> Interference:
    """The table of a CSV file, plain or gzip, or one that ships, by its name (`eva`).

    The first line has the names of the columns' workloads after one cell, each other line a workload's name and its
    throughput next to each of them; an empty cell was not measured. Raises ClusterError naming file, line and field.
    """
    if isinstance(path, str) and path in interference_tables():
        path = _FOLDER / f"{path}.csv"
    path = Path(path)
    rows = _rows(path)
    if not rows:
        raise ClusterError(f"{path}: empty; expected a line with the names of workloads")
    header_line, (_, *names) = rows[0]
    if not 0 < len(names) <= _MOST_WORKLOADS or not all(names):
        raise ClusterError(
            f"{path}, line {header_line}: expected 1 to {_MOST_WORKLOADS} names of workloads after the first cell"
        )
    found: dict[str, tuple[float | None, ...]] = {}
    for line, (name, *cells) in rows[1:]:
        where = f"{path}, line {line}"
        if name not in names or name in found:
            problem = "stands twice" if name in found else "has no column"
            raise ClusterError(f"{where}: workload {shown(name)} {problem}; columns are {', '.join(names)}")
        if len(cells) != len(names):
            raise ClusterError(f"{where}: expected {len(names)} throughputs, found {len(cells)}")
        found[name] = tuple(
            _value(cell, f"{where}, field {column}") for cell, column in zip(cells, names, strict=True)
        )
    if missing := [name for name in names if name not in found]:
        raise ClusterError(f"{path}: workload {missing[0]} has a column but no line")
    try:
        return Interference(tuple(names), tuple(found[name] for name in names), unrecorded)
    except ClusterError as error:
        raise ClusterError(f"{path}: {error}") from None


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    rows: list[tuple[int, list[str]]] = []
    for line, text in enumerate(file_text(path).splitlines(), start=1):
        if text.strip():
            try:
                rows.append((line, [cell.strip() for cell in next(csv.reader([text], strict=True))]))
            except csv.Error as error:
                raise ClusterError(f"{path}, line {line}: not a CSV line ({error})") from None
    return rows


def _value(cell: str, where: str) -> float | None:
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ClusterError(f"{where}: expected a throughput from 0 to 1 or nothing, found {shown(cell)}")
    return value


def _check(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ClusterError(f"interference of {what}: expected a throughput from 0 to 1, found {value:g}")
