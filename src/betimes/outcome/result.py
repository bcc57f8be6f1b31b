"""The result of a run: per-job columns, allocation segments, and timing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from dataclasses import dataclass, field, fields
from enum import IntEnum
from html import escape
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from betimes.outcome import metrics
from betimes.outcome.figure import draw_distribution
from betimes.units import humanise_s

Array = np.ndarray[Any, np.dtype[Any]]


class JobState(IntEnum):
    """The final state of a job in the run; its state in the trace is `status`."""

    FINISHED = 0
    UNFINISHED = 1
    REFUSED = 2
    KILLED = 3  # ended at its time limit


class _Columns(ABC):
    """Arrays of one length under names; subclasses are frozen dataclasses whose fields are the columns."""

    def __post_init__(self) -> None:
        lengths: dict[str, int] = {}
        for name, kind in self._kinds().items():
            column = np.asarray(getattr(self, name), dtype=kind)
            if column.ndim != 1:
                raise ValueError(f"column {name} has {column.ndim} dimensions; it must have one")
            object.__setattr__(self, name, column)
            lengths[name] = len(column)
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    @classmethod
    @abstractmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        """The type of each column, by name; None: any type."""

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self._kinds()))))

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # equality by value, and arrays do not hash

    def __eq__(self, other: object) -> bool:
        """Same values in every column; an unknown value (NaN) equals an unknown value."""
        if type(other) is not type(self):
            return NotImplemented
        return all(same_values(getattr(self, name), getattr(other, name)) for name in self._kinds())

    def take(self, rows: Array) -> Self:
        """The given rows (a mask or indices) of every column."""
        return type(self)(**{name: getattr(self, name)[rows] for name in self._kinds()})

    def columns(self) -> dict[str, Array]:
        """Every column by name, in the order of declaration."""
        return {name: getattr(self, name) for name in self._kinds()}

    def to_frame(self) -> Any:
        """The columns as a `pandas.DataFrame`; raises ModuleNotFoundError where pandas is not installed."""
        return import_module("pandas").DataFrame(self.columns())

    def __repr__(self) -> str:
        """The number of rows and the names of the columns: the values would fill pages."""
        return f"{type(self).__name__}({len(self):,} rows: {', '.join(self._kinds())})"


def _not_given() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False, repr=False)
class JobColumns(_Columns):
    """One row a job, in submit order; all columns have the same length.

    Times are seconds on the clock of the workload. NaN means: never started (`start_s`), not finished
    (`finish_s`), not predicted (`predicted_finish_s`), not known (`contention_mean`, `cost_usd`).
    `units_s` is unit-seconds held, `run_alone_s` the run time at `max_units`, `restart_s` the seconds lost
    to restarts, `contention_mean` the number of active jobs averaged over the events that the job saw,
    `rented` whether the job ended on a machine that was rented for it alone, and `instance_type` of which type,
    `cost_usd` what all such machines of the job cost, `status` the trace's own code (1 completed, 0 failed,
    5 cancelled, -1 unknown), `state` a `JobState`.

    Raises ValueError where lengths differ, jobs are not in submit order, or state and finish disagree.
    """

    job_id: Array
    submit_s: Array
    start_s: Array
    finish_s: Array
    predicted_finish_s: Array
    work_s: Array
    run_alone_s: Array
    min_units: Array
    max_units: Array
    units_s: Array
    preemptions: Array
    resizes: Array
    restart_s: Array
    contention_mean: Array
    user: Array
    qos: Array
    status: Array
    state: Array
    cost_usd: Array
    rented: Array = field(default_factory=_not_given)
    instance_type: Array = field(default_factory=_not_given)

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        whole, code = dict.fromkeys(_WHOLE, np.int64), dict.fromkeys(_CODES, np.int8)
        text = dict.fromkeys(("job_id", "instance_type"))
        return {
            f.name: {**text, **whole, **code, "rented": np.bool_}.get(f.name, np.float64) for f in fields(cls)
        }

    def __post_init__(self) -> None:
        for name, of in (("rented", np.bool_), ("instance_type", np.str_)):
            if len(getattr(self, name)) == 0:  # no machine was rented
                object.__setattr__(self, name, np.zeros(len(self.submit_s), dtype=of))
        super().__post_init__()
        for name in ("job_id", "instance_type"):
            if getattr(self, name).dtype.kind == "O":  # Parquet and lists of strings give objects
                object.__setattr__(self, name, getattr(self, name).astype(np.str_))
        if np.any(np.diff(self.submit_s) < 0):
            raise ValueError("jobs are not in submit order")
        ended = self.finished | (self.state == JobState.KILLED)
        if np.any(np.isnan(self.finish_s) == ended):
            raise ValueError("a job has a finish time if, and only if, it has finished or was killed")

    @property
    def finished(self) -> Array:
        """Mask of the jobs that finished."""
        return self.state == JobState.FINISHED


_WHOLE = ("min_units", "max_units", "preemptions", "resizes", "user")
_CODES = ("qos", "status", "state")


@dataclass(frozen=True, eq=False, repr=False)
class IntervalColumns(_Columns):
    """One row a job, in submit order: its promise with an interval, and those of two baselines; NaN: none was made.

    `played_finish_s` is the finish in the play-out, `predicted_low_s` and `predicted_high_s` bound the finish; the
    median is `predicted_finish_s` of the job. By the user's own estimate the job is done between `played_start_s` and
    `estimate_finish_s`; with constant ratios to the play-out, between `ratio_low_s` and `ratio_high_s`, at
    `ratio_finish_s` in the median.
    """

    played_finish_s: Array
    predicted_low_s: Array
    predicted_high_s: Array
    played_start_s: Array
    estimate_finish_s: Array
    ratio_low_s: Array
    ratio_finish_s: Array
    ratio_high_s: Array

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        return {f.name: np.float64 for f in fields(cls)}


@dataclass(frozen=True, eq=False, repr=False)
class SegmentColumns(_Columns):
    """One row a stretch of constant allocation: `row` is an index into the jobs, `units` are held from
    `start_s` to `end_s`. Ordered by start, then row.

    Raises ValueError where lengths differ, a segment ends before it starts, or the order is another.
    """

    row: Array
    start_s: Array
    end_s: Array
    units: Array

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        return {"row": np.int64, "start_s": np.float64, "end_s": np.float64, "units": np.float64}

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.any(self.end_s < self.start_s):
            raise ValueError("an allocation segment ends before it starts")
        gap, later_row = np.diff(self.start_s), np.diff(self.row) >= 0
        if np.any((gap < 0) | ((gap == 0) & ~later_row)):
            raise ValueError("allocation segments are not ordered by start and row")


@dataclass(frozen=True, eq=False, repr=False)
class AbsenceColumns(_Columns):
    """One row a preemption after which the job ran again: `row` is an index into the jobs, which was
    preempted at `preempted_s`, had vacated its nodes at `vacated_s` (its grace period was over) and ran again at
    `resumed_s`.
    """

    row: Array
    preempted_s: Array
    vacated_s: Array
    resumed_s: Array

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        return {"row": np.int64, "preempted_s": np.float64, "vacated_s": np.float64, "resumed_s": np.float64}


@dataclass(frozen=True, eq=False, repr=False)
class LeaseColumns(_Columns):
    """One row a machine that was rented, in order of request; seconds, infinity where something never came.

    `cause`: 0 released, 1 failed to boot, 2 taken away, -1 still there. `idle_s` it was up and empty, `task_s` tasks
    were on it, summed over them.
    """

    instance_type: Array
    serial: Array
    requested_s: Array
    booted_s: Array
    up_s: Array
    ended_s: Array
    idle_s: Array
    task_s: Array
    cause: Array
    job: Array  # the row of the job that it was rented for alone, -1: for any
    cost_usd: Array

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        whole = dict.fromkeys(("serial", "cause", "job"), np.int64)
        return {f.name: {"instance_type": None, **whole}.get(f.name, np.float64) for f in fields(cls)}


@dataclass(frozen=True, eq=False, repr=False)
class DecisionColumns(_Columns):
    """One row a decision about a job on a node, or about a machine, in the order in which they were taken.

    `what` is start, preempt, migrate, bind, reserve, rent, release, open or close, or double: a job has outrun its
    belief. `row` is an index into the jobs (-1: of none), `node` a machine's number (-1: of none) and `generation` how
    many machines had that number before; `offer` -1: it is owned. `value` is until when or from when: of reserve its
    start (infinity: it is taken back), of preempt when the job has left, of rent when the machine is up; of rent for
    one job alone, the end of its speculative run (infinity: it runs to its end). Of double it is all believed work, s.
    """

    at_s: Array
    what: Array
    row: Array
    node: Array
    generation: Array
    offer: Array
    tasks: Array
    value: Array

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        seconds = dict.fromkeys(("at_s", "value"), np.float64)
        return {f.name: {"what": None, **seconds}.get(f.name, np.int64) for f in fields(cls)}


@dataclass(frozen=True, eq=False, repr=False)
class SelectionColumns(_Columns):
    """One row a policy that was simulated for a selection, in order: the reflection of a portfolio.

    `selection` counts the selections of the run from 0, `at_s` is when it was, `waiting` how many jobs waited, `score`
    what the policy is expected to be worth (NaN: it failed), and `chosen` whether it was put in force.
    """

    selection: Array
    at_s: Array
    waiting: Array
    member: Array
    score: Array
    chosen: Array

    @classmethod
    def _kinds(cls) -> dict[str, type[np.generic] | None]:
        whole = dict.fromkeys(("selection", "waiting"), np.int64)
        return {
            f.name: {"member": None, "chosen": np.bool_, **whole}.get(f.name, np.float64) for f in fields(cls)
        }


@dataclass(frozen=True)
class ResourceUse:
    """One resource of a cluster of nodes: how much there is in all, and amount-seconds held by jobs."""

    name: str
    total: float
    held_s: float


@dataclass(frozen=True)
class Timing:
    """The time that the run took: seconds to load the workload, to compile, and in the warm event loop."""

    load_s: float
    compile_s: float
    wall_s: float
    events: int


@dataclass(frozen=True, eq=False)
class Result:
    """An engine's result for one workload under one policy.

    `policy` is the full specification, `sizes` what sizes the scheduler saw, `fingerprint` that of the
    workload, `segments` the allocations where they were recorded, `fair_finish_s` the finish times (NaN:
    not finished) of a max-min run of the same workload where one was made. On nodes, `resources` are those
    that the cluster has, `absences` the preemptions, and `units` counts the first of its resources; `decisions` is the
    log of what was decided, where it was recorded, `leases` are the rented machines, `fixed_usd` what the owned ones
    cost over the run, where prices are known, `migrations` the times that a job was moved, and
    `selections` what a portfolio of policies chose. `intervals` are promised at the level `interval_frac`.

    Two results are equal when everything but their timing is. Raises ValueError where lengths disagree.
    """

    policy: str
    units: int
    seed: int
    fractional: bool
    sizes: str
    workload_name: str
    fingerprint: str
    jobs: JobColumns
    segments: SegmentColumns | None
    timing: Timing
    fair_finish_s: Array | None = None
    absences: AbsenceColumns | None = None
    resources: tuple[ResourceUse, ...] = ()
    leases: LeaseColumns | None = None
    decisions: DecisionColumns | None = None
    fixed_usd: float | None = None
    migrations: int = 0
    selections: SelectionColumns | None = None
    intervals: IntervalColumns | None = None
    interval_frac: float | None = None

    def __post_init__(self) -> None:
        if self.segments is not None and len(self.segments):
            rows = self.segments.row
            if rows.min() < 0 or rows.max() >= len(self.jobs):
                raise ValueError(f"a segment names a row outside 0..{len(self.jobs) - 1}")
        if self.absences is not None and len(self.absences):
            rows = self.absences.row
            if rows.min() < 0 or rows.max() >= len(self.jobs):
                raise ValueError(f"an absence names a row outside 0..{len(self.jobs) - 1}")
        if self.fair_finish_s is not None:
            fair = np.asarray(self.fair_finish_s, dtype=np.float64)
            if fair.shape != (len(self.jobs),):
                raise ValueError(f"fair_finish_s has shape {fair.shape}; there are {len(self.jobs)} jobs")
            object.__setattr__(self, "fair_finish_s", fair)

    def _figures(self) -> dict[str, str]:
        """The figures for a first look, by name, as texts; `betimes.summarise` has all of them as numbers."""
        jobs, ended = self.jobs, self.jobs.finished
        accepted = jobs.state != JobState.REFUSED
        jct_s = metrics.jct(jobs.submit_s[ended], jobs.finish_s[ended])
        wait_s = metrics.wait(jobs.submit_s[ended], jobs.start_s[ended])
        error = np.abs(metrics.prediction_error(jobs.submit_s, jobs.finish_s, jobs.predicted_finish_s)[ended])
        known = error[~np.isnan(error)]
        figures = {
            "Workload": f"{self.workload_name}, {len(jobs):,} jobs, of which {int(ended.sum()):,} finished",
            "Machine": ", ".join(f"{of.total:g} {of.name}" for of in self.resources) or f"{self.units} units",
            "Policy": self.policy,
            "Makespan": humanise_s(metrics.makespan(jobs.submit_s[accepted], jobs.finish_s[accepted])),
            "Mean completion time": humanise_s(metrics.mean(jct_s)),
            "99th percentile": humanise_s(metrics.percentile(jct_s, 99)),
            "Mean wait": humanise_s(metrics.mean(wait_s)),
        }
        if len(known):
            figures["Median error of promises"] = f"{100 * metrics.percentile(known, 50):.1f} %"
        return figures

    def __repr__(self) -> str:
        """The figures as a paragraph."""
        return "Result: " + "; ".join(f"{name.lower()} {text}" for name, text in self._figures().items())

    def _repr_html_(self) -> str:
        """The figures as a table, and the completion times as a picture, which notebooks show."""
        rows = (
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self._figures().items()
        )
        return f"<table>{''.join(rows)}</table>{self._picture()}"

    def _picture(self) -> str:
        """The distribution of completion times as an image of HTML; empty where no job has finished."""
        jobs = self.jobs
        ended = jobs.finished
        if not ended.any():
            return ""
        jct_s = np.sort(metrics.jct(jobs.submit_s[ended], jobs.finish_s[ended]))
        title = f"{self.policy}: {self.workload_name}, {len(jct_s):,} job{'' if len(jct_s) == 1 else 's'}"
        with TemporaryDirectory() as folder:
            file = Path(folder, "completion-times.svg")
            draw_distribution(file, [jct_s], [self.policy], "time", "Job completion time", title)
            data = b64encode(file.read_bytes()).decode("ascii")
        about = "The share of jobs that were done within a time of their submission"
        return f'<img alt="{about}" src="data:image/svg+xml;base64,{data}">'

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # equality by value, and arrays do not hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        mine, theirs = self.fair_finish_s, other.fair_finish_s
        if (mine is None) != (theirs is None):
            return False
        if mine is not None and theirs is not None and not same_values(mine, theirs):
            return False
        plain = (f.name for f in fields(self) if f.name not in ("timing", "fair_finish_s"))
        return all(getattr(self, name) == getattr(other, name) for name in plain)


def same_values(a: Array, b: Array) -> bool:
    """Whether two columns hold the same values, where NaN equals NaN."""
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        return np.array_equal(a, b, equal_nan=True)
    return np.array_equal(a, b)
