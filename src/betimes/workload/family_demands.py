"""A unit's demand on each family of machines: columns `gpu.FAMILY`, `cpu.FAMILY` and `memory_gib.FAMILY`.

Columns `speed.FAMILY` have how fast the job works there: its run time is that at speed 1, as where none is given.

A job with all of them empty has the demand of its columns `gpu`, `cpu` and `memory_gib` on all machines. Else it runs
only on the families with a non-empty column; a resource that they leave out there is that of the column without a
family, or none. Source: spec/eva.md 2.1, a vector a family, or one for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.workload.columns import AnyColumn, Floats, Integers
from betimes.workload.validation import DEMANDS

if TYPE_CHECKING:
    from betimes.workload.workload import Workload


SAME_IN_A_POOL = (
    "a unit of a pool needs the same on all nodes; choose a policy for nodes, such as nodes:fifo, or leave the columns "
    "out"
)
_ANY = "any"
SPEED = "speed"
_UNKNOWN = (np.nan,) * len(DEMANDS)


@dataclass(frozen=True, eq=False)
class FamilyDemands:
    """The demands of the jobs, by row of the workload, that have separate demands for families.

    `rows` (m,) in order; `amounts` (m, families, 3): GPUs, cores and GiB of a unit, NaN on families where the job
    cannot run; `speeds` (m, families). `families` are those that the columns name.
    """

    rows: NDArray[np.intp]
    families: tuple[str, ...]
    amounts: Floats
    speeds: Floats

    def on(self, families: tuple[str, ...]) -> Floats:
        """(m, families, 3) the same for these families; NaN for one that no column names."""
        found = np.full((len(self.rows), len(families), len(DEMANDS)), np.nan)
        for at, family in enumerate(families):
            if family in self.families:
                found[:, at] = self.amounts[:, self.families.index(family)]
        return found

    def speeds_on(self, families: tuple[str, ...]) -> Floats:
        """(m, families) the speeds on these families; 1 on one that no column names."""
        found = np.ones((len(self.rows), len(families)))
        for at, family in enumerate(families):
            if family in self.families:
                found[:, at] = self.speeds[:, self.families.index(family)]
        return found

    def named(self, at: int) -> list[str]:
        """The families on which the job of rows[at] can run."""
        runs = ~np.isnan(self.amounts[at, :, 0])
        return [family for family, can in zip(self.families, runs.tolist(), strict=True) if can]


def family_of_column(name: str) -> str | None:
    """The family in a column's name; null: the column is no demand on a family."""
    resource, dot, family = name.partition(".")
    return family if resource in (*DEMANDS, SPEED) and dot and family else None


def family_demands(workload: Workload) -> FamilyDemands | None:
    """The demands by family of a workload; null where no job has any.

    Raises InputError, naming job and field, for anything but a number of 0 or more, and for a demand of nothing. On a
    family on which its speed is 0 a job cannot run.
    """
    families = tuple(sorted({family for name in workload.extra if (family := family_of_column(name))}))
    if not families:
        return None
    given = np.full((len(workload), len(families), len(DEMANDS)), np.nan)
    for at, family in enumerate(families):
        for resource, name in enumerate(DEMANDS):
            if f"{name}.{family}" in workload.extra:
                given[:, at, resource] = _numbers(workload, f"{name}.{family}")
    speeds = np.full(given.shape[:2], np.nan)
    for at, family in enumerate(families):
        if f"{SPEED}.{family}" in workload.extra:
            speeds[:, at] = _numbers(workload, f"{SPEED}.{family}")
    named = ((~np.isnan(given)).sum(axis=2) > 0) | ~np.isnan(speeds)
    rows = np.flatnonzero(named.any(axis=1))
    if not len(rows):
        return None
    runs = named & (speeds != 0.0)
    if len(nowhere := rows[~runs[rows].any(axis=1)]):
        raise InputError(
            f"{workload.name}: job {workload.job_id[nowhere[0]]}, fields {SPEED}.FAMILY: 0 on every family that is "
            "named, so that it can run nowhere; give one of them a speed, or leave them empty"
        )
    given, runs, speeds = given[rows], runs[rows], speeds[rows]
    plain = np.nan_to_num(np.stack([getattr(workload, name)[rows] for name in DEMANDS], axis=1))
    amounts = np.where(np.isnan(given), plain[:, None, :], given)
    nothing = np.argwhere(runs & (amounts == 0).all(axis=2))
    if len(nothing):
        at, family = nothing[0]
        raise InputError(
            f"{workload.name}: job {workload.job_id[rows[at]]}, field cpu.{families[family]}: expected some demand of "
            "gpu, cpu or memory_gib above 0 on a family where any is given; leave it empty where the job cannot run"
        )
    amounts[~runs] = np.nan
    return FamilyDemands(rows, families, amounts, np.where(np.isnan(speeds), 1.0, speeds))


def family_columns(
    demands: Sequence[Mapping[str, tuple[float, float, float]]], units: Integers
) -> dict[str, Floats]:
    """The columns of jobs whose `units` together need these GPUs, cores and GiB by family; `any`: on all.

    Those for any family are `gpu`, `cpu` and `memory_gib`. Raises InputError for a job with a demand on any family and
    on another.
    """
    families = sorted({family for each in demands for family in each} - {_ANY})
    for row, each in enumerate(demands):
        if _ANY in each and len(each) > 1:
            raise InputError(
                f"row {row}: it has a demand on any family and on {', '.join(sorted(each.keys() - {_ANY}))}; name all "
                "families on which it can run, or none"
            )
    found: dict[str, Floats] = {}
    for family in (_ANY, *families):
        amounts = np.array([each.get(family, _UNKNOWN) for each in demands], np.float64).reshape(-1, 3)
        for resource, name in enumerate(DEMANDS):
            column = name if family == _ANY else f"{name}.{family}"
            found[column] = amounts[:, resource] / units
    return found


def refuse_family_demands(workload: Workload, why: str) -> None:
    """Raises InputError for a job with a demand for a family, where that cannot be heeded."""
    found = family_demands(workload)
    if found is not None:
        raise InputError(
            f"{workload.name}: job {workload.job_id[found.rows[0]]}, demand on family {found.named(0)[0]}: {why}"
        )


def _numbers(workload: Workload, name: str) -> Floats:
    column: AnyColumn = workload.extra[name]
    if column.dtype.kind == "U":
        bad = np.flatnonzero(column != "")
        if not len(bad):
            return np.full(len(column), np.nan)
        raise _bad(workload, name, int(bad[0]))
    values = column.astype(np.float64)
    wrong = np.flatnonzero(~(np.isnan(values) | ((values >= 0) & np.isfinite(values))))
    if len(wrong):
        raise _bad(workload, name, int(wrong[0]))
    return values


def _bad(workload: Workload, name: str, row: int) -> InputError:
    return InputError(
        f"{workload.name}: job {workload.job_id[row]}, field {name}: expected a number of 0 or more, or nothing where "
        f"the job cannot run, found {workload.extra[name][row]}"
    )
