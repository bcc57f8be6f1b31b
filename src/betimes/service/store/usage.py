"""Queries for what jobs have used: sums in the database, one row a group and a shape of jobs."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import ColumnElement, Double, Select, and_, case, cast, distinct, func, literal, or_, select

from betimes.service.store.databases.schema import job_labels, jobs, runs

By = Literal["user", "name", "label", "account"]


def usage(since_at: float, until_at: float, by: By | None, is_postgres: bool) -> Select[Any]:
    """Use of runs within a period, by group and by the demand of a unit of their jobs.

    Columns: `group`, `cpu`, `gpu`, `memory_gib` of a unit; `jobs`, `unit_s`; of jobs that started in the period
    `started` and `wait_s` in total. Of labels, a job counts in the group of each (`team=vision`); an account is the
    label that `sbatch --account` gives, and jobs without one are in no group.
    """
    began_at, ended_at = runs.c.started_at, func.coalesce(runs.c.ended_at, until_at)
    from_at = case((began_at < since_at, since_at), else_=began_at)
    to_at = case((ended_at > until_at, until_at), else_=ended_at)
    begins = and_(runs.c.number == 1, began_at >= since_at)
    group: ColumnElement[Any] = literal("")
    source = runs.join(jobs, jobs.c.job_id == runs.c.job_id)
    if by in ("label", "account"):
        group, labelled = job_labels.c.key + "=" + job_labels.c.value, job_labels.c.job_id == jobs.c.job_id
        if by == "account":
            group, labelled = job_labels.c.value, and_(labelled, job_labels.c.key == by)
        source = source.join(job_labels, labelled)
    elif by is not None:
        group = jobs.c.user if by == "user" else jobs.c.name
    amounts = [
        _amount(name, usual, is_postgres) for name, usual in (("cpu", 1.0), ("gpu", 0.0), ("memory_gib", 0.0))
    ]
    grouped = select(
        group.label("group"),
        *(amount.label(name) for amount, name in zip(amounts, ("cpu", "gpu", "memory_gib"), strict=True)),
        runs.c.job_id,
        ((to_at - from_at) * runs.c.units).label("unit_s"),
        case((begins, 1), else_=0).label("begins"),
        case((begins, began_at - jobs.c.submitted_at), else_=0.0).label("wait_s"),
    )
    rows = (
        grouped.select_from(source)
        .where(
            began_at < until_at,
            ended_at > since_at,
            # A run that ended cannot have begun after its job did: the index on the ends of jobs bounds it.
            or_(jobs.c.finished_at.is_(None), jobs.c.finished_at > since_at),
        )
        .subquery()
    )
    keys = (rows.c.group, rows.c.cpu, rows.c.gpu, rows.c.memory_gib)
    sums: Any = select(  # whose type lists those of all columns
        *keys,
        func.count(distinct(rows.c.job_id)).label("jobs"),
        func.sum(rows.c.unit_s, type_=Double).label("unit_s"),
        func.sum(rows.c.begins).label("started"),
        func.sum(rows.c.wait_s, type_=Double).label("wait_s"),
    )
    return sums.group_by(*keys)


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
