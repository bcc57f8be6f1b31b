"""The columnar `Workload`: jobs to run, one array a property, in order of submission."""

from __future__ import annotations

import hashlib
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
    recoded,
    users,
)
from betimes.workload.family_demands import family_of_column
from betimes.workload.validation import validate


@dataclass(frozen=True, slots=True)
class Job:
    """One row of a `Workload`; the units are those of the columns of the same name."""

    job_id: int | str
    submit_s: float
    work_s: float
    min_units: int
    max_units: int
    curve: str
    estimate_s: float
    user: int | str
    status: int
    qos: int
    priority: int
    grace_s: float
    cpu: float
    memory_gib: float
    gpu: float
    units_per_task: int = 0
    require: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """The origin of a workload, and what was left out of it.

    `skipped` counts rows of the file that are not in the workload, by reason: jobs that never ran (no error)
    and, under `on_bad_rows="skip"`, malformed rows. `header` holds the file's own header, a repeated key's
    values joined by line feeds (copyright and acknowledgement notices travel with converted traces in it).
    """

    format: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()
    header: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Workload:
    """Jobs as columns of equal length, sorted by `submit_s` (ties keep the order of the trace).

    The columns, their units and what unknown values look like are declared in `columns.CANONICAL`. `curve`
    and `user` are codes into `curve_names` and `user_names` (an empty `user_names`: `user` holds the trace's
    own numbers). `machine_units` is the size of the traced machine where the trace has it, `extra` holds
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
        if not isinstance(other, Workload):
            return NotImplemented
        if (
            len(self) != len(other)
            or self.machine_units != other.machine_units
            or self.extra.keys() != other.extra.keys()
        ):
            return False
        for name in CANONICAL_NAMES:
            (mine, names), (theirs, other_names) = _resolved(self, name), _resolved(other, name)
            if names != other_names or not _equal(mine, theirs):
                return False
        return all(_equal(values, other.extra[name]) for name, values in self.extra.items())

    def __hash__(self) -> int:
        return int(self.fingerprint()[:15], 16)

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
        """SHA-256 (hexadecimal) over the canonical columns that `stated_names` lists, the same on every machine and
        for every file format: little-endian, names instead of codes, one NaN, one zero.
        """
        digest = hashlib.sha256(b"betimes workload 2\n")
        for name in self.stated_names:
            values, names = _resolved(self, name)
            digest.update(f"{name} {values.dtype.kind} {len(values)}\n".encode())
            if values.dtype.kind == "U":
                for value in values:
                    digest.update(f"{len(value)}:{value}".encode())
            else:
                digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
            for entry in names:
                digest.update(f"{len(entry)}:{entry}".encode())
        return digest.hexdigest()

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

    def submitted(self, submit_s: ArrayLike) -> Workload:
        """The same jobs submitted at these instants, a row each; the rows are in their order then."""
        at = _column("submit_s", submit_s, np.float64, len(self))
        return replace(self, submit_s=at)._sorted()

    def _sorted(self) -> Self | Workload:
        if len(self) < 2 or not bool((np.diff(self.submit_s) < 0).any()):
            return self
        return self._rows(np.argsort(self.submit_s, kind="stable"))

    def _job(self, row: int) -> Job:
        values: dict[str, Any] = {name: getattr(self, name)[row].item() for name in CANONICAL_NAMES}
        user = values["user"]
        values["curve"] = self.curve_names[values["curve"]]
        values["user"] = self.user_names[user] if self.user_names and user >= 0 else user
        return Job(**values)


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


def _equal(a: AnyColumn, b: AnyColumn) -> bool:
    return a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _resolved(workload: Workload, name: str) -> tuple[AnyColumn, tuple[str, ...]]:
    """A canonical column in the one form that does not depend on how its codes were dealt."""
    values: AnyColumn = getattr(workload, name)
    if name == "curve":
        return recoded(values, workload.curve_names)
    if name == "user" and workload.user_names:
        codes, names = recoded(values, workload.user_names)
        numbers = identifiers(list(names))
        # A part of a workload may have kept only those names that are numbers.
        return (np.append(numbers, UNKNOWN)[codes], ()) if numbers.dtype.kind == "i" else (codes, names)
    if values.dtype.kind == "U":
        return identifiers(values.tolist()), ()
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), np.nan, values + 0.0), ()
    return values, ()


_PLAIN = tuple(name for name in CANONICAL_NAMES if name not in ("job_id", "curve", "user"))


def concatenate(*workloads: Workload) -> Workload:
    """All jobs of these workloads on one time axis, sorted by submission; ids that collide are moved.

    Whole-number ids of a workload that collides are raised above those before it; text ids get the workload's
    number in front. A further column that a workload lacks is NaN, -1 or empty there. The machine size stays
    where all agree.
    """
    if len(workloads) == 1:
        return workloads[0]
    ids, warnings = _distinct_ids(workloads)
    sizes = {w.machine_units for w in workloads}
    skipped: dict[str, int] = {}
    for w in workloads:
        for reason, count in w.notes.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    formats = list(dict.fromkeys(w.notes.format for w in workloads if w.notes.format))
    keys = dict.fromkeys(key for w in workloads for key in w.notes.header)
    users, user_names = _users(workloads)
    plain: dict[str, Any] = {name: np.concatenate([getattr(w, name) for w in workloads]) for name in _PLAIN}
    return Workload.from_columns(
        job_id=ids,
        curve=np.concatenate([np.array(w.curve_names, np.str_)[w.curve] for w in workloads]),
        user=users,
        user_names=user_names,
        **plain,
        name="+".join(w.name for w in workloads),
        machine_units=sizes.pop() if len(sizes) == 1 else None,
        extra=_extras(workloads),
        notes=Notes(
            format="+".join(formats),
            skipped=skipped,
            warnings=(*(warning for w in workloads for warning in w.notes.warnings), *warnings),
            header={
                key: "\n".join(w.notes.header[key] for w in workloads if key in w.notes.header)
                for key in keys
            },
        ),
    )


def _distinct_ids(workloads: Sequence[Workload]) -> tuple[AnyColumn, list[str]]:
    as_text = any(w.job_id.dtype.kind == "U" for w in workloads if len(w))
    seen: AnyColumn = np.empty(0, np.str_ if as_text else np.int64)
    warnings: list[str] = []
    for number, w in enumerate(workloads, 1):
        ids: AnyColumn = w.job_id.astype(np.str_) if as_text else w.job_id.astype(np.int64)
        if len(np.intersect1d(ids, seen)):
            if as_text:
                ids = np.array([f"{number}/{job_id}" for job_id in ids], np.str_)
                warnings.append(
                    f"job ids of workload {number} ({w.name}) collided and begin with {number}/ now"
                )
            else:
                offset = int(seen.max()) + 1 - int(ids.min())
                ids = ids + offset
                warnings.append(
                    f"job ids of workload {number} ({w.name}) collided and were raised by {offset}"
                )
        seen = np.concatenate([seen, ids])
    return seen, warnings


def _users(workloads: Sequence[Workload]) -> tuple[AnyColumn, tuple[str, ...]]:
    if not any(w.user_names for w in workloads):
        return np.concatenate([w.user for w in workloads]), ()
    table: dict[str, int] = {}
    columns: list[AnyColumn] = []
    for w in workloads:
        labels = w.user_names or tuple(str(user) for user in np.unique(w.user[w.user >= 0]))
        places = [table.setdefault(label, len(table)) for label in labels]
        lookup = np.array([*places, UNKNOWN], np.int64)
        rows = w.user if w.user_names else np.searchsorted(np.unique(w.user[w.user >= 0]), w.user)
        columns.append(lookup[np.where(w.user >= 0, rows, len(labels))])
    return np.concatenate(columns), tuple(table)


def _extras(workloads: Sequence[Workload]) -> dict[str, AnyColumn]:
    extra: dict[str, AnyColumn] = {}
    for key in dict.fromkeys(key for w in workloads for key in w.extra):
        kinds = {w.extra[key].dtype.kind for w in workloads if key in w.extra}
        if kinds == {"i"} and family_of_column(key) and not all(key in w.extra for w in workloads):
            kinds = {"f"}  # -1 is no demand
        parts = [_part(w, key, kinds) for w in workloads]
        extra[key] = np.concatenate(parts)
    return extra


def _part(w: Workload, key: str, kinds: set[str]) -> AnyColumn:
    if key not in w.extra:
        if "U" in kinds:
            return np.full(len(w), "")
        return np.full(len(w), np.nan) if "f" in kinds else np.full(len(w), UNKNOWN, np.int64)
    values = w.extra[key]
    if "U" in kinds:
        texts: Texts = values.astype(np.str_)
        return texts
    return values.astype(np.float64) if "f" in kinds else values
