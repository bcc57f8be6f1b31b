from tests.service.store.conftest import postgres_server, postgres_url, restart_postgres

__all__ = ["postgres_server", "postgres_url", "restart_postgres"]
