"""Kinds of events take the names that the field uses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from betimes.service.store.renamed_kinds import RENAMED

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """From the tables of revision 0003: the events' rows, none of their columns."""
    events = sa.table("events", sa.column("kind", sa.Text()))
    for before, now in RENAMED.items():
        op.execute(events.update().where(events.c.kind == before).values(kind=now))
