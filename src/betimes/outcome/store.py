"""Results as a directory of files: `jobs.parquet`, `timeline.parquet`, `absences.parquet`,
`leases.parquet`, `decisions.parquet`, `portfolio.parquet` and `summary.json`.

Equal results give equal bytes, but for the value of `timing` in `summary.json`, so Parquet files carry no
time, path or name. `summary.json` has the digests of the others, so that `load` notices files that do not belong
together.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.errors import InputError
from betimes.files import sync
from betimes.outcome.result import (
    AbsenceColumns,
    Array,
    DecisionColumns,
    IntervalColumns,
    JobColumns,
    LeaseColumns,
    ResourceUse,
    Result,
    SegmentColumns,
    SelectionColumns,
    Timing,
)
from betimes.outcome.summary import WHOLE, summarise, to_json

if TYPE_CHECKING:
    import pyarrow as pa

JOBS, TIMELINE, ABSENCES = "jobs.parquet", "timeline.parquet", "absences.parquet"
LEASES, DECISIONS, PORTFOLIO = "leases.parquet", "decisions.parquet", "portfolio.parquet"
OPTIONAL = (TIMELINE, ABSENCES, LEASES, DECISIONS, PORTFOLIO)  # not every result has them
SUMMARY = "summary.json"
FORMAT = "betimes-result-1"
# The columns that people look for first; the rest follows in the order of declaration.
_FIRST = ("job_id", "submit_s", "start_s", "finish_s", "predicted_finish_s", "preemptions", "cost_usd")
_FAIR = "fair_finish_s"
_CODES = {
    "qos": "0 best effort, 1 trial",
    "status": "of the trace: 1 completed, 0 failed, 5 cancelled, -1 unknown",
    "state": "in this run: 0 finished, 1 unfinished, 2 refused, 3 killed at its time limit",
    "user": "-1 unknown",
}


def save(
    result: Result, directory: str | Path, measure: tuple[float, float] = WHOLE, status: str = "all"
) -> Path:
    """Write a result to `directory`, made where missing; returns the directory.

    `measure` and `status` say which jobs `summary.json` counts; the Parquet files hold all of them.
    `timeline.parquet` is written where the result has segments, `absences.parquet` where it has absences,
    `leases.parquet` where machines could be rented, `decisions.parquet` where they were recorded,
    `portfolio.parquet` where policies were selected. An
    earlier result there is replaced, other files beside it stay. Files get their names only when complete. Raises
    InputError where the directory holds something else or cannot be written.
    """
    target = Path(directory).resolve()
    summary = summarise(result, measure, status)
    try:
        _check_ours(target)
        _write(result, target, summary, measure, status)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{directory}: cannot write the result ({reason}); choose another directory"
        ) from error
    return target


def load(directory: str | Path) -> Result:
    """Read what `save` wrote: an equal result, with its timing.

    Raises InputError where the directory holds no result, a part of one, or files of different ones.
    """
    folder = Path(directory)
    summary = _read_summary(folder)
    if summary is None:
        raise InputError(f"{directory}: holds no result of Betimes (no {SUMMARY} of format {FORMAT})")
    run: dict[str, Any] = summary["run"]
    tables: dict[str, dict[str, Array]] = {}
    for name, digest in run["files"].items():
        path = folder / name
        if not path.is_file() or _sha256(path) != digest:
            raise InputError(f"{path}: missing, or not the file that {SUMMARY} describes; simulate again")
        tables[name] = _read_parquet(path)
    columns = tables[JOBS]
    fair = columns.pop(_FAIR, None)
    promises = {name: columns.pop(name) for name in IntervalColumns._kinds() if name in columns}
    segments, absences = tables.get(TIMELINE), tables.get(ABSENCES)
    for table in (segments, absences):
        if table is not None:
            del table["job_id"]
    timing = {key: summary["timing"][key] for key in ("load_s", "compile_s", "wall_s", "events")}
    return Result(
        policy=summary["policy"],
        units=run["units"],
        seed=run["seed"],
        fractional=run["fractional"],
        sizes=run["sizes"],
        workload_name=run["workload_name"],
        fingerprint=run["fingerprint"],
        jobs=JobColumns(**columns),
        segments=None if segments is None else SegmentColumns(**segments),
        timing=Timing(**timing),
        fair_finish_s=fair,
        absences=None if absences is None else AbsenceColumns(**absences),
        resources=tuple(ResourceUse(**resource) for resource in run.get("resources", ())),
        decisions=None if DECISIONS not in tables else DecisionColumns(**tables[DECISIONS]),
        leases=None if LEASES not in tables else LeaseColumns(**tables[LEASES]),
        fixed_usd=run.get("fixed_usd"),
        migrations=run.get("migrations", 0),
        selections=None if PORTFOLIO not in tables else SelectionColumns(**tables[PORTFOLIO]),
        intervals=IntervalColumns(**promises) if promises else None,
        interval_frac=run.get("interval_frac"),
    )


def _check_ours(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target}: is a file; results go into a directory of their own")
    if any(target.iterdir()) and _read_summary(target) is None:
        raise InputError(f"{target}: holds files that are no result of Betimes; choose another directory")


def _read_summary(folder: Path) -> dict[str, Any] | None:
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return None
    ours = isinstance(summary, dict) and isinstance(summary.get("run"), dict)
    return summary if ours and summary["run"].get("format") == FORMAT else None


def _write(
    result: Result, target: Path, summary: dict[str, Any], measure: tuple[float, float], status: str
) -> None:
    """Write a new directory atomically; in an existing one each file replaces its predecessor."""
    fresh = not target.exists()
    home = target.parent if fresh else target
    home.mkdir(parents=True, exist_ok=True)
    stage = home / f".betimes-{secrets.token_hex(8)}"
    stage.mkdir()
    try:
        names = [JOBS]
        _write_parquet(_jobs_table(result), stage / JOBS)
        if result.segments is not None:
            names.append(TIMELINE)
            _write_parquet(_timeline_table(result.segments, result.jobs), stage / TIMELINE)
        if result.absences is not None:
            names.append(ABSENCES)
            _write_parquet(_timeline_table(result.absences, result.jobs), stage / ABSENCES)
        if result.leases is not None:
            names.append(LEASES)
            _write_parquet(_table(result.leases.columns()), stage / LEASES)
        if result.decisions is not None:
            names.append(DECISIONS)
            _write_parquet(_table(result.decisions.columns()), stage / DECISIONS)
        if result.selections is not None:
            names.append(PORTFOLIO)
            _write_parquet(_table(result.selections.columns()), stage / PORTFOLIO)
        summary["run"] = {
            "format": FORMAT,
            "workload_name": result.workload_name,
            "fingerprint": result.fingerprint,
            "units": result.units,
            "fractional": result.fractional,
            "sizes": result.sizes,
            "seed": result.seed,
            "measure": list(measure),
            "status": status,
            "resources": list(result.resources),
            "fixed_usd": result.fixed_usd,
            "migrations": result.migrations,
            "files": {name: _sha256(stage / name) for name in names},
        }
        if result.interval_frac is not None:
            summary["run"]["interval_frac"] = result.interval_frac
        (stage / SUMMARY).write_text(to_json(summary) + "\n", encoding="utf-8")
        for name in [*names, SUMMARY]:
            sync(stage / name)  # before the rename: a power failure must not leave an empty file
        if fresh:
            stage.rename(target)
        else:
            for name in [*names, SUMMARY]:
                (stage / name).replace(target / name)
            for name in set(OPTIONAL).difference(names):
                (target / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _jobs_table(result: Result) -> pa.Table:
    columns = result.jobs.columns()
    ordered = {name: columns[name] for name in (*_FIRST, *columns)}
    if result.fair_finish_s is not None:
        ordered[_FAIR] = result.fair_finish_s
    if result.intervals is not None:
        ordered |= result.intervals.columns()
    return _table(ordered)


def _timeline_table(stretches: SegmentColumns | AbsenceColumns, jobs: JobColumns) -> pa.Table:
    return _table({"job_id": jobs.job_id[stretches.row], **stretches.columns()})


def _table(columns: dict[str, Array]) -> pa.Table:
    """A table with null for NaN, so that every reader of Parquet takes it as unknown."""
    import pyarrow as pa

    arrays = [pa.array(column, from_pandas=True) for column in columns.values()]
    notes = ({"codes": _CODES[name]} if name in _CODES else None for name in columns)
    schema = [
        pa.field(name, array.type, metadata=note)
        for name, array, note in zip(columns, arrays, notes, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def _write_parquet(table: pa.Table, path: Path) -> None:
    """Write with every option that shapes the bytes spelled out, so that new defaults of the library change nothing."""
    import pyarrow.parquet as pq

    pq.write_table(
        table,
        path,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_statistics=True,
        row_group_size=1 << 20,
        data_page_size=1 << 20,
    )


def _read_parquet(path: Path) -> dict[str, Array]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns: dict[str, Array] = {}
    for name in table.column_names:
        column = table.column(name).to_numpy()
        columns[name] = column.astype(np.str_) if column.dtype.kind == "O" else column
    return columns


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
