"""Rented machines are looked after for as long as the service runs, whatever a look meets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from betimes.service.startup import bootstrap


def test_a_look_that_fails_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bootstrap, "POLL_S", 0.0)
    full, looks = OSError("Too many open files"), list[OSError | bool]()
    looks += [full, full, False, True]
    begun, reported = list[Any](), asyncio.Queue[object]()

    def poll() -> bool:
        found = looks.pop(0) if looks else False
        if isinstance(found, OSError):
            raise found
        return found

    controller: Any = SimpleNamespace(
        listeners=[],
        background=SimpleNamespace(go=begun.append),
        inbox=SimpleNamespace(tell=lambda _, request: reported.put_nowait(request)),
    )
    rentals: Any = SimpleNamespace(poll=poll, advance=object())
    executor: Any = SimpleNamespace()

    async def main() -> None:
        bootstrap._look_after(controller, rentals, executor)
        task = asyncio.ensure_future(begun[0])
        assert await asyncio.wait_for(reported.get(), 60.0) is rentals.advance
        task.cancel()

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [
        "rented machines cannot be looked after just now; it is tried again"
    ], "once for the same trouble"
