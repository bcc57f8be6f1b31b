"""Of each run: its memory limit, how that was enforced, and how much of its output is not kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NUMBER = sa.Double().with_variant(sa.REAL(), "sqlite")
TEXT = sa.Text()
DOCUMENT = sa.Text().with_variant(postgresql.JSON(), "postgresql")

_BEFORE = "job_id, number, units, places, started_at, ended_at, outcome, exit_code, signal, max_rss_gib, cpu_s, message"


def upgrade() -> None:
    """From the tables of revision 0002."""
    added = [
        sa.Column("memory_limit_gib", NUMBER, nullable=True),
        sa.Column("memory_limited_by", TEXT, nullable=True),
        sa.Column("log_lost_bytes", WHOLE, nullable=True),
    ]
    if op.get_bind().dialect.name != "sqlite":
        for column in added:
            op.add_column("runs", column)
        return
    # SQLite would write new columns behind the constraints: its tables are to read as those of a new database.
    op.rename_table("runs", "runs_before")
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
        *added,
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_runs"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_runs_job_id", ondelete="CASCADE"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO runs ({_BEFORE}) SELECT {_BEFORE} FROM runs_before")
    op.drop_table("runs_before")
