"""The query behind a filtered list of jobs, page by page, as quick at a million jobs as at a hundred."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, exists, func, literal, or_, select, tuple_, union_all

from betimes.service.store.databases.schema import LIVE, OVER, job_labels, jobs, runs

if TYPE_CHECKING:
    from collections.abc import Sequence

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


Place = tuple[float | None, int]
"""Of a row in the queue: promised end, and number of the job; jobs without a promise come last."""


def queue(wanted: JobFilter, after: Place | None, promised: bool) -> Select[Any]:
    """Live jobs in the order of their promised ends, of each array only the first; or those without a promise.

    wanted: its `after` has no meaning here; of one array (`array_id`) all jobs are listed. Read along an index, so that
    a page takes as long at the head of a queue of 50,000 as of 50.
    """
    due_at = jobs.c.promised_finish_at
    conditions = [*_live(wanted), due_at.is_not(None) if promised else due_at.is_(None)]
    if wanted.array_id is None:
        conditions.append(or_(jobs.c.array_id.is_(None), jobs.c.job_id == _first_of_array(wanted)))
    if after is not None and promised:
        conditions.append(tuple_(due_at, jobs.c.job_id) > tuple_(literal(after[0]), literal(after[1])))
    elif after is not None:
        conditions.append(jobs.c.job_id > after[1])
    order = (due_at, jobs.c.job_id) if promised else (jobs.c.job_id,)
    return select(jobs).where(*conditions).order_by(*order).limit(wanted.limit)


def _first_of_array(wanted: JobFilter) -> Any:
    """The job of the same array, all of which are of one user, name and labels, that comes first in the queue."""
    other = jobs.alias()
    found = select(other.c.job_id).where(
        other.c.array_id == jobs.c.array_id,
        other.c.finished_at.is_(None),
        other.c.status.in_(_statuses(wanted)),
    )
    due_at = other.c.promised_finish_at
    first = found.where(due_at.is_not(None)).order_by(due_at, other.c.job_id).limit(1).scalar_subquery()
    return func.coalesce(first, found.order_by(other.c.job_id).limit(1).scalar_subquery())


def arrays(wanted: JobFilter, array_ids: Sequence[int]) -> Select[Any]:
    """Of arrays in the queue: number of live jobs by status, and the first and last promised end."""
    due_at = jobs.c.promised_finish_at
    counted, last_at = func.count().label("jobs"), func.max(due_at).label("last_at")
    columns: list[ColumnElement[Any]] = [jobs.c.array_id, jobs.c.status, counted, last_at]
    return (
        select(*columns)
        .where(*_live(wanted), jobs.c.array_id.in_(array_ids))
        .group_by(jobs.c.array_id, jobs.c.status)
    )


def standing(wanted: JobFilter) -> Select[Any, int]:
    """Numbers of the live jobs that `queue` lists on all its pages, by status."""
    conditions = jobs.c.status.in_(_statuses(wanted)), *_chosen(wanted)
    return select(jobs.c.status, func.count()).where(*conditions).group_by(jobs.c.status)


def _statuses(wanted: JobFilter) -> list[str]:
    return [str(status) for status in wanted.status if str(status) in LIVE] or [*LIVE]


def _live(wanted: JobFilter) -> list[ColumnElement[bool]]:
    status = _looked_up(jobs.c.status)  # so that the index on promised ends is walked
    return [jobs.c.finished_at.is_(None), status.in_(_statuses(wanted)), *_chosen(wanted)]


def _chosen(wanted: JobFilter) -> list[ColumnElement[bool]]:
    columns = ((jobs.c.user, wanted.user), (jobs.c.name, wanted.name), (jobs.c.array_id, wanted.array_id))
    equal = [column == value for column, value in columns if value is not None]
    return equal + [_has(jobs.c.job_id, key, value) for key, value in wanted.label.items()]


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
