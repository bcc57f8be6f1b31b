"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """From the tables of revision ${down_revision}."""
    ${upgrades if upgrades else "pass"}
