"""Services in memory whose API is asked in process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.serving import Serving

Serve = Callable[..., Serving]


@pytest.fixture
def serve(tmp_path: Path, no_fits: None) -> Iterator[Serve]:
    """Starts services, with the options of `Serving`."""
    made: list[Serving] = []

    def started(**options: Any) -> Serving:
        made.append(Serving(tmp_path / f"service-{len(made)}", **options))
        return made[-1].start()

    yield started
    for each in made:
        each.close()


@pytest.fixture
def it(serve: Serve) -> Serving:
    return serve()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A service for tests that change nothing of it; it has a held job."""
    it = Serving(tmp_path_factory.mktemp("service")).start()
    it.ask("POST", "/api/v1/jobs", json={"command": ["true"], "hold": True})
    yield it
    it.close()
