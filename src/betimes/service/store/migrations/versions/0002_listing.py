"""Labels as rows of their own, and the indexes that long lists are read along."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PAGE = 10_000  # jobs


def upgrade() -> None:
    """From the tables of revision 0001."""
    labels = op.create_table(
        "job_labels",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("job_id", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("key", "value", "job_id", name="pk_job_labels"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_job_labels_job_id", ondelete="CASCADE"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    _fill(labels)
    op.create_index("ix_job_labels_job", "job_labels", ["job_id"])
    op.create_index("ix_jobs_status", "jobs", ["status", "job_id"])
    op.create_index("ix_jobs_user", "jobs", ["user", "status", "job_id"])
    op.create_index("ix_jobs_name", "jobs", ["name", "status", "job_id"])
    _create_partial_index("ix_jobs_array", "jobs", ["array_id", "status", "job_id"])
    _create_partial_index("ix_jobs_finished", "jobs", ["finished_at", "job_id"])
    op.create_index("ix_quotes_job", "quotes", ["job_id"])
    _create_partial_index("ix_events_job", "events", ["job", "event_id"])
    op.create_index("ix_answers_at", "answers", ["at_s"])


def _create_partial_index(name: str, table: str, columns: list[str]) -> None:
    only = sa.column(columns[0]).is_not(None)
    op.create_index(name, table, columns, sqlite_where=only, postgresql_where=only)


def _fill(labels: sa.Table) -> None:
    """The labels of the jobs that are there."""
    connection, after = op.get_bind(), 0
    page = sa.text(
        "SELECT job_id, CAST(labels AS TEXT) FROM jobs WHERE job_id > :after ORDER BY job_id LIMIT :page"
    )
    while found := connection.execute(page, {"after": after, "page": _PAGE}).all():
        after = found[-1][0]
        rows = [
            {"key": key, "value": value, "job_id": job}
            for job, text in found
            for key, value in json.loads(text).items()
        ]
        if rows:
            connection.execute(sa.insert(labels), rows)
