"""The sessions of a PostgreSQL database, ended as a restart of the server ends them."""

from __future__ import annotations

from sqlalchemy import create_engine, make_url, text


def end_sessions(url: str) -> None:
    """End every session of the database but the one that asks."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid != pg_backend_pid()"
            )
        )
    engine.dispose()
