"""The columnar `Workload`: what is to run, one array a property, in order of submission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.errors import InputError
from betimes.workload.columns import (
    BEST_EFFORT,
    CANONICAL,
    CANONICAL_NAMES,
    LINEAR,
    UNKNOWN,
    AnyColumn,
    Floats,
    Integers,
    Texts,
    coded,
    identifiers,
    users,
)
from betimes.workload.identity import fingerprint, same
from betimes.workload.job import Job
from betimes.workload.joining import concatenate
from betimes.workload.notes import Notes
from betimes.workload.validation import validate


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Workload:
    """Jobs as columns of equal length, sorted by `submit_s` (ties keep the order of the trace).

    The columns, their units and what unknown values look like are declared in `columns.CANONICAL`. `curve`
    and `user` are codes into `curve_names` and `user_names` (an empty `user_names`: `user` holds the trace's
    own numbers). `machine_units` is the size of the traced machine where the trace says it, `extra` holds
    every further column. The arrays are read-only. Build one with `from_columns`, which validates.
    """

    job_id: Integers | Texts
    submit_s: Floats
    work_s: Floats
    min_units: Integers
    max_units: Integers
    curve: NDArray[np.int32]
    estimate_s: Floats
    user: Integers
    status: NDArray[np.int8]
    qos: NDArray[np.int8]
    priority: Integers
    grace_s: Floats
    cpu: Floats
    memory_gib: Floats
    gpu: Floats
    units_per_task: Integers
    require: Texts
    curve_names: tuple[str, ...] = (LINEAR,)
    user_names: tuple[str, ...] = ()
    name: str = "workload"
    machine_units: int | None = None
    extra: dict[str, AnyColumn] = field(default_factory=dict[str, AnyColumn])
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        for values in (*(getattr(self, name) for name in CANONICAL_NAMES), *self.extra.values()):
            values.flags.writeable = False

    @classmethod
    def from_columns(
        cls,
        *,
        submit_s: ArrayLike,
        work_s: ArrayLike,
        max_units: ArrayLike = 1,
        min_units: ArrayLike = 1,
        job_id: ArrayLike | None = None,
        curve: str | Sequence[str] | Sequence[int] | Texts | NDArray[np.integer[Any]] = LINEAR,
        curve_names: Sequence[str] | None = None,
        estimate_s: ArrayLike = np.nan,
        user: int | Sequence[str] | Sequence[int] | Texts | NDArray[np.integer[Any]] = UNKNOWN,
        user_names: Sequence[str] = (),
        status: ArrayLike = UNKNOWN,
        qos: ArrayLike = BEST_EFFORT,
        priority: ArrayLike = 0,
        grace_s: ArrayLike = 0.0,
        cpu: ArrayLike = np.nan,
        memory_gib: ArrayLike = np.nan,
        gpu: ArrayLike = np.nan,
        units_per_task: ArrayLike = 0,
        require: ArrayLike = "",
        name: str = "workload",
        machine_units: int | None = None,
        extra: Mapping[str, ArrayLike] | None = None,
        notes: Notes | None = None,
    ) -> Workload:
        """Build a workload from arrays or single values (which hold for every job), validated and sorted.

        `job_id` defaults to 0, 1, ... in the order given; ids and users that are all whole numbers written as
        text become numbers. `curve` is one name, a name a job, or codes with
        `curve_names`; `user` likewise numbers, names, or codes with `user_names`. Raises InputError, naming
        job and field.
        """
        n = np.size(np.asarray(submit_s))

        def column(field: str, values: ArrayLike, dtype: type[np.generic]) -> AnyColumn:
            return _column(field, values, dtype, n)

        curve_codes, its_curve_names = _named("curve", curve, curve_names, n, np.int32)
        user_codes, its_user_names = _named("user", user, user_names, n, np.int64)
        built = cls(
            job_id=_identifiers(np.arange(n) if job_id is None else job_id, n),
            submit_s=column("submit_s", submit_s, np.float64),
            work_s=column("work_s", work_s, np.float64),
            min_units=column("min_units", min_units, np.int64),
            max_units=column("max_units", max_units, np.int64),
            curve=curve_codes,
            estimate_s=column("estimate_s", estimate_s, np.float64),
            user=user_codes,
            status=column("status", status, np.int8),
            qos=column("qos", qos, np.int8),
            priority=column("priority", priority, np.int64),
            grace_s=column("grace_s", grace_s, np.float64),
            cpu=column("cpu", cpu, np.float64),
            memory_gib=column("memory_gib", memory_gib, np.float64),
            gpu=column("gpu", gpu, np.float64),
            units_per_task=column("units_per_task", units_per_task, np.int64),
            require=_further("require", require, n),
            curve_names=its_curve_names or (LINEAR,),
            user_names=its_user_names,
            name=name,
            machine_units=machine_units,
            extra={key: _further(key, values, n) for key, values in (extra or {}).items()},
            notes=notes or Notes(),
        )
        built = built._sorted()
        validate(built)
        return built

    def __len__(self) -> int:
        return len(self.job_id)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Job: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> Workload: ...
    def __getitem__(
        self, key: int | np.integer[Any] | slice | Sequence[int] | NDArray[Any]
    ) -> Job | Workload:
        """One job, or the workload of the rows that a slice, a mask or an array of row numbers selects.

        Rows keep the order of submission whatever the order in which they are asked for; asking for a row
        twice raises InputError.
        """
        if isinstance(key, (int, np.integer)):
            return self._job(int(key))
        rows = np.arange(len(self))[key if isinstance(key, slice) else _selection(key)]
        if rows.size > 1 and not bool((np.diff(rows) > 0).all()):
            rows = np.sort(rows)
            if not bool((np.diff(rows) > 0).all()):
                raise InputError(f"workload {self.name}: a row was selected twice, and job ids must differ")
        return self._rows(rows)

    def __iter__(self) -> Iterator[Job]:
        return (self._job(row) for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """The same jobs (every column, names instead of codes) on the same machine; name and notes may
        differ.
        """
        return same(self, other) if isinstance(other, Workload) else NotImplemented

    def __hash__(self) -> int:
        return int(fingerprint(self)[:15], 16)

    def __repr__(self) -> str:
        span = f", submitted {self.submit_s[0]:g} to {self.submit_s[-1]:g} s" if len(self) else ""
        return f"Workload({self.name!r}, {len(self)} jobs{span})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy in another process is read-only as well.
        return type(self), tuple(getattr(self, entry.name) for entry in fields(self))

    def head(self, n: int) -> Workload:
        """The first n jobs in order of submission (all of them where there are fewer)."""
        if n < 0:
            raise InputError(f"expected a number of jobs of 0 or more, found {n}")
        return self[:n]

    def sample(self, n: int, seed: int) -> Workload:
        """A random choice of n different jobs (all of them where there are fewer), the same for the same
        seed.
        """
        if n < 0:
            raise InputError(f"expected a number of jobs of 0 or more, found {n}")
        chosen = np.random.default_rng(seed).permutation(len(self))[:n]
        return self[np.sort(chosen)]

    def concatenate(self, *others: Workload) -> Workload:
        """All jobs of these workloads on one time axis; ids that collide are moved, which the notes say.

        `Workload.concatenate(a, b)` and `a.concatenate(b)` are the same. To let one follow the other, shift
        it first.
        """
        return concatenate(self, *others)

    def shift(self, to_s: float = 0.0) -> Workload:
        """The same jobs, moved in time so that the first is submitted at `to_s`."""
        if not len(self):
            return self
        return self._resubmitted(self.submit_s - self.submit_s[0] + to_s)

    def scale_load(self, load_frac: float, units: int, speedup_at_max: ArrayLike | None = None) -> Workload:
        """The same jobs with the gaps between submissions stretched so that the offered load on `units` is
        `load_frac`.
        """
        if not (load_frac > 0 and np.isfinite(load_frac)):
            raise InputError(f"expected a load above 0, found {load_frac}")
        offered = self.offered_load(units, speedup_at_max)
        if not (offered > 0 and np.isfinite(offered)):
            raise InputError(
                f"workload {self.name}: its jobs are submitted at one time, so its load cannot be scaled"
            )
        first = self.submit_s[0]
        return self._resubmitted(first + (self.submit_s - first) * (offered / load_frac))

    def offered_load(self, units: int, speedup_at_max: ArrayLike | None = None) -> float:
        """Unit-seconds wanted at full width over units x the span of the submissions (infinite for no span).

        `speedup_at_max` is each job's speed-up at `max_units`; linear, so `max_units`, by default.
        """
        if units < 1:
            raise InputError(f"expected a machine of at least 1 unit, found {units}")
        if not len(self):
            return 0.0
        wanted = self.work_s
        if speedup_at_max is not None:
            wanted = self.work_s / np.asarray(speedup_at_max, np.float64) * self.max_units
        span = float(self.submit_s[-1] - self.submit_s[0])
        return float(wanted.sum()) / (units * span) if span > 0 else float("inf")

    @property
    def stated_names(self) -> tuple[str, ...]:
        """The canonical columns without the optional ones in which every job has the default."""
        return tuple(
            column.name
            for column in CANONICAL
            if not (column.is_optional and bool((getattr(self, column.name) == column.default).all()))
        )

    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) over the canonical columns, the same on every machine and for every file
        format.
        """
        return fingerprint(self)

    def validate(self) -> None:
        """Raise InputError, naming job and field, at the first rule of a workload that does not hold."""
        validate(self)

    def to_csv(self, path: str | Path) -> None:
        """Write Betimes's own CSV (gzip where the name ends in .gz); `read_trace` gives an equal workload
        back.
        """
        from betimes.workload.writing import to_csv

        to_csv(self, path)

    def to_parquet(self, path: str | Path) -> None:
        """Write Betimes's own Parquet; `read_trace` gives an equal workload back."""
        from betimes.workload.writing import to_parquet

        to_parquet(self, path)

    def _resubmitted(self, submit_s: Floats) -> Workload:
        moved = replace(self, submit_s=submit_s)
        validate(moved)
        return moved

    def _rows(self, rows: NDArray[np.intp]) -> Workload:
        columns = {name: getattr(self, name)[rows] for name in CANONICAL_NAMES}
        return replace(self, **columns, extra={name: values[rows] for name, values in self.extra.items()})

    def _sorted(self) -> Self | Workload:
        if len(self) < 2 or not bool((np.diff(self.submit_s) < 0).any()):
            return self
        return self._rows(np.argsort(self.submit_s, kind="stable"))

    def _job(self, row: int) -> Job:
        user = int(self.user[row])
        return Job(
            job_id=self.job_id[row].item(),
            submit_s=float(self.submit_s[row]),
            work_s=float(self.work_s[row]),
            min_units=int(self.min_units[row]),
            max_units=int(self.max_units[row]),
            curve=self.curve_names[int(self.curve[row])],
            estimate_s=float(self.estimate_s[row]),
            user=self.user_names[user] if self.user_names and user >= 0 else user,
            status=int(self.status[row]),
            qos=int(self.qos[row]),
            priority=int(self.priority[row]),
            grace_s=float(self.grace_s[row]),
            cpu=float(self.cpu[row]),
            memory_gib=float(self.memory_gib[row]),
            gpu=float(self.gpu[row]),
            units_per_task=int(self.units_per_task[row]),
            require=str(self.require[row]),
        )


def _selection(key: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    chosen = np.asarray(key)
    return chosen.astype(np.intp) if chosen.size == 0 and chosen.dtype.kind != "b" else chosen


def _column(field: str, values: ArrayLike, dtype: type[np.generic], n: int) -> AnyColumn:
    """A fresh array of n values of this type; whole numbers must be whole and must fit."""
    given = np.asarray(values)
    if given.shape not in ((), (n,)):
        raise InputError(f"field {field}: expected one value or {n}, found an array of shape {given.shape}")
    try:
        with np.errstate(invalid="ignore"):
            made = np.array(np.broadcast_to(given, (n,)), dtype)
        unchanged = np.issubdtype(dtype, np.floating) or bool((made == given).all())
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"field {field}: expected numbers ({np.dtype(dtype)}): {error}") from error
    if not unchanged:
        row = int(np.argmin(made == np.broadcast_to(given, (n,))))
        found = given[row] if given.ndim else given
        raise InputError(
            f"row {row}, field {field}: expected a whole number ({np.dtype(dtype)}), found {found}"
        )
    return made


def _named(
    field: str,
    values: str | int | Sequence[str] | Sequence[int] | NDArray[Any],
    names: Sequence[str] | None,
    n: int,
    dtype: type[np.generic],
) -> tuple[AnyColumn, tuple[str, ...]]:
    """Codes and the table they point to, from names or from codes."""
    given = np.asarray(values)
    if n == 0 and given.ndim:
        return np.empty(0, dtype), tuple(names or ())
    if given.dtype.kind not in "UOT":
        return _column(field, given, dtype, n), tuple(names or ())
    if given.shape not in ((), (n,)):
        raise InputError(f"field {field}: expected one name or {n}, found an array of shape {given.shape}")
    texts: list[str] = np.atleast_1d(given).astype(np.str_).tolist()
    codes, table = users(texts) if field == "user" else coded(texts)
    return np.array(np.broadcast_to(codes, (n,)), dtype), table


def _identifiers(values: ArrayLike, n: int) -> Integers | Texts:
    given = np.asarray(values)
    if (
        given.shape == (n,)
        and given.dtype.kind in "UO"
        and not all(isinstance(v, (int, np.integer)) for v in given)
    ):
        return identifiers(np.array(given, np.str_).tolist())
    return cast(Integers, _column("job_id", given, np.int64, n))


def _further(name: str, values: ArrayLike, n: int) -> AnyColumn:
    given = np.asarray(values)
    if given.shape not in ((), (n,)):
        raise InputError(f"field {name}: expected one value or {n}, found an array of shape {given.shape}")
    kind = {"i": np.int64, "u": np.int64, "b": np.int64, "f": np.float64}.get(given.dtype.kind, np.str_)
    return np.array(np.broadcast_to(given, (n,)), kind)
