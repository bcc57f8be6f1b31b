"""Directories are sent as archives: who may, how large, and how they are asked for."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from betimes.service.uploads import kept
from betimes.service.uploads.archive import MIB, MOST_FILES
from tests.service.serving import Serving
from tests.service.uploads.packing import file, made, sha256

DATA = made(file("run.sh"))
PATH = f"/api/v1/uploads/{sha256(DATA)}"
ZIP = {"Content-Type": "application/zip"}


def failure(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status
    return answer.json()["error"]


def test_what_was_sent_is_there(it: Serving) -> None:
    assert it.ask("GET", "/api/v1/uploads").json() == {"most_bytes": 100 * MIB, "most_files": MOST_FILES}
    assert failure(it.ask("GET", PATH), 404)["code"] == "unknown"
    sent = it.ask("PUT", PATH, content=DATA, headers=ZIP)
    assert (sent.status_code, sent.json()) == (201, {"sha256": sha256(DATA), "archive_bytes": len(DATA)})
    assert it.ask("GET", PATH).json() == sent.json()
    assert it.backend.uploads.path(sha256(DATA)).read_bytes() == DATA


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_path_names_a_sha256(it: Serving, method: str) -> None:
    for name in ("x", "0" * 63, "G" * 64, sha256(DATA).upper(), sha256(DATA) + "%0A"):
        found = failure(it.ask(method, f"/api/v1/uploads/{name}", content=DATA, headers=ZIP), 422)
        assert found["field"] == "sha256"


def test_another_content_than_its_name_says_is_refused(it: Serving) -> None:
    found = failure(it.ask("PUT", PATH, content=b"another", headers=ZIP), 422)
    assert (found["code"], found["field"]) == ("refused", "sha256")


def test_it_is_for_the_operator_and_sent_as_what_it_is(it: Serving) -> None:
    for token in ("", "Bearer unknown"):
        assert failure(it.ask("PUT", PATH, content=DATA, headers={**ZIP, "Authorization": token}), 401)
    run = {"Authorization": f"Bearer {it.backend.run_tokens.issue(1, 1)}"}
    assert failure(it.ask("PUT", PATH, content=DATA, headers={**ZIP, **run}), 403)
    found = failure(it.ask("PUT", PATH, content=DATA, headers={"Content-Type": "text/plain"}), 415)
    assert found["message"] == "send the body as Content-Type: application/zip, not text/plain"
    assert it.ask("GET", PATH).status_code == 404


def test_it_has_a_size_and_the_rest_of_what_is_far_too_large_is_not_read(
    it: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_BYTES_A_FILE", 0)
    it.backend.uploads.most_bytes = 1000
    assert failure(it.ask("PUT", PATH, content=bytes(1002), headers=ZIP), 413)["code"] == "too-large"
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 100
            yield bytes(100)

    assert failure(it.ask("PUT", PATH, content=pieces(), headers=ZIP), 413)
    assert taken <= 2200


def test_want_of_room_is_told(it: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    found = failure(it.ask("PUT", PATH, content=DATA, headers=ZIP), 503)
    assert (found["code"], "make room there" in found["message"]) == ("unavailable", True)
