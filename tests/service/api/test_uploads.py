"""Directories are sent as archives: who may, how large, and how they are asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from betimes.errors import Unavailable
from tests.service.api.test_routes import ask
from tests.service.serving import Fake, fake
from tests.service.uploads.packing import sha256

DATA = b"an archive"
PATH = f"/api/v1/uploads/{sha256(DATA)}"
ZIP = {"Content-Type": "application/zip"}


@pytest.fixture
def it() -> Fake:
    return fake()


def failure(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status
    return answer.json()["error"]


def test_what_was_sent_is_there(it: Fake) -> None:
    assert ask(it, "GET", "/api/v1/uploads").json() == {"most_bytes": 4 << 20, "most_files": 1000}
    assert failure(ask(it, "GET", PATH), 404)["code"] == "unknown"
    sent = ask(it, "PUT", PATH, content=DATA, headers=ZIP)
    assert (sent.status_code, sent.json()) == (201, {"sha256": sha256(DATA), "archive_bytes": len(DATA)})
    assert ask(it, "GET", PATH).json() == sent.json()
    assert it.backend.uploads == {sha256(DATA): DATA}


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_path_names_a_sha256(it: Fake, method: str) -> None:
    for name in ("x", "0" * 63, "G" * 64, sha256(DATA).upper(), sha256(DATA) + "%0A"):
        found = failure(ask(it, method, f"/api/v1/uploads/{name}", content=DATA, headers=ZIP), 422)
        assert found["field"] == "sha256"


def test_another_content_than_its_name_says_is_refused(it: Fake) -> None:
    found = failure(ask(it, "PUT", PATH, content=b"another", headers=ZIP), 422)
    assert (found["code"], found["field"]) == ("refused", "sha256")


def test_it_is_for_the_operator_and_sent_as_what_it_is(it: Fake) -> None:
    for token in ("", "Bearer unknown"):
        assert failure(ask(it, "PUT", PATH, content=DATA, headers={**ZIP, "Authorization": token}), 401)
    run = {"Authorization": f"Bearer {it.backend.runs.issue(1, 1)}"}
    assert failure(ask(it, "PUT", PATH, content=DATA, headers={**ZIP, **run}), 403)
    found = failure(ask(it, "PUT", PATH, content=DATA, headers={"Content-Type": "text/plain"}), 415)
    assert found["message"] == "send the body as Content-Type: application/zip, not text/plain"
    assert it.backend.uploads == {}


def test_it_has_a_size_and_the_rest_of_what_is_far_too_large_is_not_read(it: Fake) -> None:
    it.backend.most_upload_bytes = 1000
    assert failure(ask(it, "PUT", PATH, content=bytes(1001), headers=ZIP), 413)["code"] == "too-large"
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 100
            yield bytes(100)

    assert failure(ask(it, "PUT", PATH, content=pieces(), headers=ZIP), 413)
    assert taken <= 2200


def test_want_of_room_is_told(it: Fake) -> None:
    it.backend.failing = Unavailable(
        "the upload cannot be kept in x (No space left on device); make room there"
    )
    found = failure(ask(it, "PUT", PATH, content=DATA, headers=ZIP), 503)
    assert (found["code"], "make room there" in found["message"]) == ("unavailable", True)
