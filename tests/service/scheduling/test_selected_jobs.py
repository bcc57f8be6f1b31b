"""Several jobs are steered all or none, or those to which it can be done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from betimes.errors import Conflict, Unknown
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.spec.job_spec import JobSpec
from tests.service.four_cores import on_four_cores, spec


async def submitted(backend: ServiceBackend, *specs: JobSpec) -> list[int]:
    return [each.job_id for each in await backend.submit(specs, "ann")]


def numbers(found: Sequence[object]) -> list[int]:
    return [getattr(each, "job_id") for each in found]  # noqa: B009


def test_those_that_are_over_are_left_out(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        first, second, third = await submitted(backend, *(spec(hold=True) for _ in range(3)))
        await backend.steer("cancel", [second], "ann")
        with pytest.raises(Conflict, match=f"job {second} is cancelled"):
            await backend.steer("cancel", [first, second, third], "ann")
        done = await backend.steer("cancel", [first, second, third], "ann", where_possible=True)
        assert [(view.job_id, view.status) for view in done] == [(first, "cancelled"), (third, "cancelled")]
        assert await backend.steer("cancel", [first, second, third], "ann", where_possible=True) == []
        with pytest.raises(Unknown, match="no job 999"):
            await backend.steer("cancel", [first, 999], "ann", where_possible=True)

    on_four_cores(tmp_path, ask)


def test_hold_and_release_too(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        held, free = await submitted(backend, spec(hold=True), spec(hold=True))
        await backend.steer("release", [free], "ann")
        assert numbers(await backend.steer("release", [held, free], "ann", where_possible=True)) == [held]
        running, cancelled = await submitted(backend, spec(), spec(hold=True))
        await backend.steer("cancel", [cancelled], "ann")
        assert numbers(await backend.steer("hold", [running, cancelled], "ann", where_possible=True)) == []

    on_four_cores(tmp_path, ask)
