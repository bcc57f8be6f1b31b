"""One service a state directory, and one a database."""

from __future__ import annotations

import os
from pathlib import Path

from tests.service.reliability.starting import starter, until


def test_a_second_service_on_a_state_directory_says_who_has_it(tmp_path: Path) -> None:
    with starter() as service:
        service.start(tmp_path)
        refused = service.start(tmp_path)
        assert refused["exit_code"] == 1
        assert f"the service with pid {service.pid} on {os.uname().nodename}" in refused["error"]
        assert "\n" not in refused["error"]
        assert service.ask("GET", "/jobs")["items"] == []  # the first one goes on


def test_a_second_service_on_a_database_says_who_has_it(tmp_path: Path) -> None:
    with starter() as service:
        service.start(tmp_path / "one")
        database = f"sqlite:///{tmp_path / 'one' / 'betimes.db'}"
        refused = service.start(tmp_path / "another", database=database)
        assert refused["exit_code"] == 1
        assert f"the service with pid {service.pid} on " in refused["error"]


def test_a_second_service_on_a_server_says_who_has_it(tmp_path: Path, postgres_url: str) -> None:
    with starter() as service:
        assert "url" in service.start(tmp_path / "one", database=postgres_url)
        job = service.ask("POST", "/jobs", {"command": ["true"], "workdir": "/"})["job_id"]
        refused = service.start(tmp_path / "another", database=postgres_url)
        assert refused["exit_code"] == 1
        assert "in use by" in refused["error"]
        until(lambda: service.ask("GET", f"/jobs/{job}")["job"]["status"] == "finished")
        service.kill()
        assert "url" in service.start(tmp_path / "one", database=postgres_url)  # its lock has gone with it
        assert service.ask("GET", f"/jobs/{job}")["job"]["status"] == "finished"
