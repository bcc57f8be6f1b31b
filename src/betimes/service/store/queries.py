"""Queries of more than one condition: a filtered list of jobs, page by page, and what jobs have used.

A page is as quick at a million jobs as at a hundred; use is summed up in the database, one row a group and a shape of
jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    and_,
    case,
    cast,
    distinct,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    union_all,
)

from betimes.service.scheduling.events import VANISHED
from betimes.service.store.databases.schema import LIVE, OVER, charges, job_labels, jobs, runs

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter


def listing(wanted: JobFilter) -> Select[Any]:
    """The rows of the jobs selected by `wanted`, newest first.

    A page begins where the last one ended (`job_id < after`), never at an offset. An index on (user, status, job_id)
    is in the order of job_id within one status only, so each status is a separate short read, of which the newest
    jobs are taken.
    """
    conditions = (wanted.user, wanted.name, wanted.array_id, wanted.search)
    if not (wanted.status or wanted.label or any(one is not None for one in conditions)):
        plain = select(jobs).order_by(jobs.c.job_id.desc()).limit(wanted.limit)
        return plain if wanted.after is None else plain.where(jobs.c.job_id < wanted.after)
    statuses = list(dict.fromkeys(str(status) for status in wanted.status)) or [*LIVE, *OVER]
    if wanted.label and not set(statuses) <= set(LIVE):
        ids = _by_label(wanted, statuses)
    else:
        reads = [_by_status(wanted, status).subquery() for status in statuses]
        merged = union_all(*(select(read.c.job_id) for read in reads)).subquery()
        ids = select(merged.c.job_id).order_by(merged.c.job_id.desc()).limit(wanted.limit)
    return select(jobs).where(jobs.c.job_id.in_(ids)).order_by(jobs.c.job_id.desc())


def _by_status(wanted: JobFilter, status: str) -> Select[Any]:
    conditions: list[ColumnElement[bool]] = [jobs.c.status == status]
    if wanted.user is not None:
        conditions.append(jobs.c.user == wanted.user)
    if wanted.name is not None:
        conditions.append(jobs.c.name == wanted.name)
    if wanted.array_id is not None:
        conditions.append(jobs.c.array_id == wanted.array_id)
    if wanted.search is not None:
        conditions.append(_contains(wanted.search))
    if wanted.after is not None:
        conditions.append(jobs.c.job_id < wanted.after)
    conditions += [_has(jobs.c.job_id, key, value) for key, value in wanted.label.items()]
    return select(jobs.c.job_id).where(*conditions).order_by(jobs.c.job_id.desc()).limit(wanted.limit)


def _contains(text: str) -> ColumnElement[bool]:
    """The jobs in whose name or user a text stands, in any case, or whose number it is."""
    found = or_(jobs.c.name.icontains(text, autoescape=True), jobs.c.user.icontains(text, autoescape=True))
    return (
        or_(found, jobs.c.job_id == int(text))
        if text.isascii() and text.isdigit() and len(text) < 19
        else found
    )


def _by_label(wanted: JobFilter, statuses: list[str]) -> Select[Any]:
    """Along the first label: jobs that are over are many, jobs of one label few."""
    (key, value), *others = wanted.label.items()
    label = job_labels.alias()
    conditions: list[ColumnElement[bool]] = [label.c.key == key, label.c.value == value]
    if wanted.after is not None:
        conditions.append(label.c.job_id < wanted.after)
    conditions += [_has(label.c.job_id, *other) for other in others]
    if wanted.status:
        conditions.append(_looked_up(jobs.c.status).in_(statuses))
    if wanted.user is not None:
        conditions.append(_looked_up(jobs.c.user) == wanted.user)
    if wanted.name is not None:
        conditions.append(_looked_up(jobs.c.name) == wanted.name)
    if wanted.array_id is not None:
        conditions.append(jobs.c.array_id + 0 == wanted.array_id)
    joined = label.join(jobs, jobs.c.job_id == label.c.job_id)
    return (
        select(label.c.job_id)
        .select_from(joined)
        .where(*conditions)
        .order_by(label.c.job_id.desc())
        .limit(wanted.limit)
    )


def _has(job_id: ColumnElement[int], key: str, value: str) -> ColumnElement[bool]:
    other = job_labels.alias()
    return exists().where(other.c.key == key, other.c.value == value, other.c.job_id == job_id)


def _looked_up(column: ColumnElement[str]) -> ColumnElement[str]:
    """The column, hidden from the choice of an index: SQLite would walk all jobs of a status instead."""
    return column + ""


def runs_between(from_at: float, to_at: float, most: int, user: str | None) -> Select[Any]:
    """Runs of a user, or of all, that overlap a window, the latest first, with name, user and status of their jobs.

    A run that ended cannot have begun after its job did: the index on the ends of jobs and the few live jobs bound it.
    """
    columns = (runs, jobs.c.name, jobs.c.user, jobs.c.status, jobs.c.promised_finish_at)
    return (
        select(*columns)
        .join(jobs, jobs.c.job_id == runs.c.job_id)
        .where(
            runs.c.started_at < to_at,
            or_(runs.c.ended_at.is_(None), runs.c.ended_at > from_at),
            or_(jobs.c.finished_at.is_(None), jobs.c.finished_at > from_at),
            _of(user),
        )
        .order_by(runs.c.started_at.desc())
        .limit(most)
    )


By = Literal["user", "name", "label", "account"]


def usage(
    since_at: float, until_at: float, by: By | None, user: str | None, is_postgres: bool
) -> Select[Any]:
    """Use of the runs of a user, or of all, within a period, by group and by the demand of a unit of their jobs.

    Columns: `group`, `cpu`, `gpu`, `memory_gib` of a unit; `jobs`, `unit_s`; of jobs that started in the period
    `started` and `wait_s` in total; `owned_s` is the part of `unit_s` that was not on rented machines. Of labels, a
    job counts in the group of each (`team=vision`); an account is the label that `sbatch --account` gives, and jobs
    without one are in no group.
    """
    began_at, ended_at = runs.c.started_at, func.coalesce(runs.c.ended_at, until_at)
    from_at = case((began_at < since_at, since_at), else_=began_at)
    to_at = case((ended_at > until_at, until_at), else_=ended_at)
    held_s = ended_at - began_at
    stood_s = func.coalesce(runs.c.stood_s, 0.0, type_=Double)
    stood_s += func.coalesce(ended_at - runs.c.suspended_at, 0.0, type_=Double)
    moving = case((held_s > stood_s, 1.0 - stood_s / held_s), else_=0.0)  # the part for which it ran
    begins = and_(runs.c.number == 1, began_at >= since_at)
    group, source = _grouped(runs.join(jobs, jobs.c.job_id == runs.c.job_id), by)
    amounts = [
        _amount(name, usual, is_postgres) for name, usual in (("cpu", 1.0), ("gpu", 0.0), ("memory_gib", 0.0))
    ]
    grouped = select(
        group.label("group"),
        *(amount.label(name) for amount, name in zip(amounts, ("cpu", "gpu", "memory_gib"), strict=True)),
        runs.c.job_id,
        ((to_at - from_at) * moving * runs.c.units).label("unit_s"),
        ((to_at - from_at) * moving * func.coalesce(runs.c.owned_units, runs.c.units)).label("owned_s"),
        case((begins, 1), else_=0).label("begins"),
        # A clock that was corrected since has moved the submission of a job that goes on, not its earlier runs.
        case((and_(begins, began_at > jobs.c.submitted_at), began_at - jobs.c.submitted_at), else_=0.0).label(
            "wait_s"
        ),
    )
    rows = (
        grouped.select_from(source)
        .where(
            began_at < until_at,
            ended_at > since_at,
            # A run that ended cannot have begun after its job did: the index on the ends of jobs bounds it.
            or_(jobs.c.finished_at.is_(None), jobs.c.finished_at > since_at),
            _of(user),
        )
        .subquery()
    )
    keys = (rows.c.group, rows.c.cpu, rows.c.gpu, rows.c.memory_gib)
    sums: Any = select(  # whose type lists those of all columns
        *keys,
        func.count(distinct(rows.c.job_id)).label("jobs"),
        func.sum(rows.c.unit_s, type_=Double).label("unit_s"),
        func.sum(rows.c.owned_s, type_=Double).label("owned_s"),
        func.sum(rows.c.begins).label("started"),
        func.sum(rows.c.wait_s, type_=Double).label("wait_s"),
    )
    return sums.group_by(*keys)


def charged(since_at: float, until_at: float, by: By | None) -> Select[Any]:
    """Charges for rented machines within a period, by time (`Charge.usd_in`): `group` and `usd`.

    Without `by` all of them, those that no job has to pay as well; else those of jobs, grouped as in `usage`.
    """
    began_at, ended_at = charges.c.since_at, charges.c.until_at
    from_at = case((began_at < since_at, since_at), else_=began_at)
    to_at = case((ended_at > until_at, until_at), else_=ended_at)
    whole = ended_at <= began_at
    usd = case((whole, charges.c.usd), else_=charges.c.usd * (to_at - from_at) / (ended_at - began_at))
    source: Any = charges
    group: ColumnElement[Any] = literal("")
    if by == "user":
        group = charges.c.user
    elif by is not None:
        group, source = _grouped(charges.join(jobs, jobs.c.job_id == charges.c.job_id), by)
    within = and_(began_at <= until_at, ended_at >= since_at)
    mine = true() if by is None else charges.c.job_id.is_not(None)
    rows = select(group.label("group"), usd.label("usd")).select_from(source).where(within, mine).subquery()
    total: Any = func.sum(rows.c.usd, type_=Double).label("usd")
    sums: Any = select(rows.c.group, total)
    return sums.group_by(rows.c.group)


def reached_its_limit() -> ColumnElement[bool]:
    """Whether the last run of a job was ended by its time limit."""
    last = and_(runs.c.job_id == jobs.c.job_id, runs.c.number == jobs.c.attempt)
    return exists().where(last, runs.c.outcome == "time-limit")


def _of(user: str | None) -> ColumnElement[bool]:
    """The jobs of a user; null: all."""
    return true() if user is None else jobs.c.user == user


def _grouped(source: Any, by: By | None) -> tuple[ColumnElement[Any], Any]:
    """The name of a row's group, and the rows with what that needs; source: rows joined with their jobs."""
    if by in ("label", "account"):
        group: ColumnElement[Any] = job_labels.c.key + "=" + job_labels.c.value
        labelled = job_labels.c.job_id == jobs.c.job_id
        if by == "account":
            group, labelled = job_labels.c.value, and_(labelled, job_labels.c.key == by)
        return group, source.join(job_labels, labelled)
    return literal("") if by is None else jobs.c.user if by == "user" else jobs.c.name, source


def ran_s(row: Mapping[str, Any]) -> float:
    """Seconds for which a run that is over has run, by its row."""
    return max(0.0, row["ended_at"] - row["started_at"] - (row["stood_s"] or 0.0))


def vanished(row: Mapping[str, Any]) -> bool:
    """Whether a run went without a chance to save anything, by its row."""
    return row["outcome"] in VANISHED


def runs_of(number: int) -> Select[Any]:
    """The runs of a job, or of all of an array by its number, with the specification of each run's job."""
    return (
        select(runs, jobs.c.spec)
        .join(jobs, jobs.c.job_id == runs.c.job_id)
        .where(or_(jobs.c.job_id == number, jobs.c.array_id == number))
        .order_by(runs.c.job_id, runs.c.number)
    )


def _amount(name: str, usual: float, is_postgres: bool) -> ColumnElement[Any]:
    """A field of a job's specification, which is left out where it is as usual."""
    if is_postgres:
        found: ColumnElement[Any] = cast(func.json_extract_path_text(jobs.c.spec, name), Double)
    else:
        found = func.json_extract(jobs.c.spec, f"$.{name}", type_=Double)
    return func.coalesce(found, usual, type_=Double)
