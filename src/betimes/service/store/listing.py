"""The query behind a filtered list of jobs, page by page, as quick at a million jobs as at a hundred."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, exists, or_, select, union_all

from betimes.service.store.databases.schema import LIVE, OVER, job_labels, jobs, runs

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter


def listing(wanted: JobFilter) -> Select[Any]:
    """The rows of the jobs selected by `wanted`, newest first.

    A page begins where the last one ended (`job_id < after`), never at an offset. An index on (user, status, job_id)
    is in the order of job_id within one status only, so each status is a separate short read, of which the newest
    jobs are taken.
    """
    conditions = (wanted.user, wanted.name, wanted.array_id)
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
    if wanted.after is not None:
        conditions.append(jobs.c.job_id < wanted.after)
    conditions += [_has(jobs.c.job_id, key, value) for key, value in wanted.label.items()]
    return select(jobs.c.job_id).where(*conditions).order_by(jobs.c.job_id.desc()).limit(wanted.limit)


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


def runs_between(from_at: float, to_at: float, most: int) -> Select[Any]:
    """Runs that overlap a window of time, the latest first, with name, user and status of their jobs.

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
        )
        .order_by(runs.c.started_at.desc())
        .limit(most)
    )
