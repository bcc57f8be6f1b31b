"""The databases behind the store: SQLite and PostgreSQL, their tables and statements."""
