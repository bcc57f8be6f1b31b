"""How Alembic runs here: over the store's own connection, in the transaction that the store has begun."""

from __future__ import annotations

from alembic import context

from betimes.service.store.databases.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # Alembic begins none of its own
)
context.run_migrations()
