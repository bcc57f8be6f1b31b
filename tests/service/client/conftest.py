"""A service in memory in a thread of its own, and a client of either kind that finds it by its state directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.client.both import Both
from tests.service.serving import Background, Serving


@pytest.fixture
def service(tmp_path: Path, no_fits: None) -> Background:
    return Background(Serving(tmp_path / "service"), tmp_path / "state")


@pytest.fixture
def running(service: Background) -> Iterator[Background]:
    with service():
        yield service


@pytest.fixture(params=["blocking", "async"])
def call(request: pytest.FixtureRequest, service: Background) -> Both:
    return Both(request.param, state=service.state)


@pytest.fixture(params=["blocking", "async"])
def kind_of_client(request: pytest.FixtureRequest) -> str:
    return request.param
