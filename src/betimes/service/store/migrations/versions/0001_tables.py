"""The event log and the tables derived from it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

# A migration stays as it is when `schema` moves on, so it has its own words for everything.
WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NUMBER = sa.Double().with_variant(sa.REAL(), "sqlite")
TEXT = sa.Text()
DOCUMENT = sa.Text().with_variant(postgresql.JSON(), "postgresql")


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "events",
        sa.Column("event_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("at_s", NUMBER, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("cause", TEXT, nullable=False),
        sa.Column("job", WHOLE, nullable=True),
        sa.Column("node", TEXT, nullable=True),
        sa.Column("data", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_events"),
        sqlite_strict=True,
    )
    op.create_table(
        "jobs",
        sa.Column("job_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("array_id", WHOLE, nullable=True),
        sa.Column("array_index", WHOLE, nullable=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("qos", TEXT, nullable=False),
        sa.Column("units", WHOLE, server_default="0", nullable=False),
        sa.Column("min_units", WHOLE, nullable=False),
        sa.Column("max_units", WHOLE, nullable=False),
        sa.Column("submitted_at", NUMBER, nullable=False),
        sa.Column("started_at", NUMBER, nullable=True),
        sa.Column("finished_at", NUMBER, nullable=True),
        sa.Column("attempt", WHOLE, server_default="0", nullable=False),
        sa.Column("preemptions", WHOLE, server_default="0", nullable=False),
        sa.Column("resizes", WHOLE, server_default="0", nullable=False),
        sa.Column("progress_frac", NUMBER, nullable=True),
        sa.Column("reason", DOCUMENT, nullable=True),
        sa.Column("promised_finish_at", NUMBER, nullable=True),
        sa.Column("labels", DOCUMENT, server_default="{}", nullable=False),
        sa.Column("spec", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
        sqlite_strict=True,
    )
    op.create_table(
        "runs",
        sa.Column("job_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("number", WHOLE, autoincrement=False, nullable=False),
        sa.Column("units", WHOLE, nullable=False),
        sa.Column("places", DOCUMENT, nullable=False),
        sa.Column("started_at", NUMBER, nullable=False),
        sa.Column("ended_at", NUMBER, nullable=True),
        sa.Column("outcome", TEXT, nullable=True),
        sa.Column("exit_code", WHOLE, nullable=True),
        sa.Column("signal", WHOLE, nullable=True),
        sa.Column("max_rss_gib", NUMBER, nullable=True),
        sa.Column("cpu_s", NUMBER, nullable=True),
        sa.Column("message", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_runs"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_runs_job_id", ondelete="CASCADE"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "quotes",
        sa.Column("quote_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("job_id", WHOLE, nullable=True),
        sa.Column("made_at", NUMBER, nullable=False),
        sa.Column("policy", TEXT, nullable=False),
        sa.Column("start_at", NUMBER, nullable=True),
        sa.Column("finish_at", NUMBER, nullable=True),
        sa.Column("cost_usd", NUMBER, nullable=True),
        sa.Column("run_s", NUMBER, nullable=False),
        sa.Column("basis", TEXT, nullable=False),
        sa.Column("reason", DOCUMENT, nullable=True),
        sa.PrimaryKeyConstraint("quote_id", name="pk_quotes"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_quotes_job_id", ondelete="CASCADE"),
        sqlite_strict=True,
    )
    op.create_table(
        "nodes",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("type", TEXT, nullable=True),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("cpu", NUMBER, nullable=False),
        sa.Column("memory_gib", NUMBER, nullable=False),
        sa.Column("gpu", NUMBER, nullable=False),
        sa.Column("usd_per_h", NUMBER, nullable=True),
        sa.Column("last_seen_at", NUMBER, nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_nodes"),
        sqlite_strict=True,
    )
    op.create_table(
        "answers",
        sa.Column("user", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("at_s", NUMBER, nullable=True),
        sa.Column("body", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("user", "key", name="pk_answers"),
        sqlite_strict=True,
    )
    op.create_table(
        "tokens",
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_tokens"),
        sqlite_strict=True,
    )
    op.create_table(
        "snapshots",
        sa.Column("event_id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("at_s", NUMBER, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_snapshots"),
        sqlite_strict=True,
    )
    op.create_table(
        "meta",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_meta"),
        sqlite_strict=True,
    )
