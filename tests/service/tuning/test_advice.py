"""Advice on a service's own last jobs: the twin's figures, beside its work, and what can be put in force."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Conflict
from betimes.foresight.advice import Advice
from betimes.service.runtime.seen import Seen
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import User, UserLimits
from betimes.service.tuning.advice import AdviceOrder
from betimes.service.tuning.process import ReportProgress
from betimes.service.views.models import AdviceSpec
from tests.service.tuning.living import House, spec

PERIOD = AdviceSpec(last_s=1e6, budget_s=600.0)


def pairs(count: int, **asked: Any) -> list[tuple[float, JobSpec]]:
    """A job of 100 s, and right behind it one of 10 s, again and again."""
    return [(at * 1000.0, spec(work_s, **asked)) for at in range(count) for work_s in (100.0, 10.0)]


class Advisers:
    """Works advice out in a thread, once the test lets it."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.orders: list[AdviceOrder] = []

    async def __call__(self, order: AdviceOrder, told: ReportProgress, _: asyncio.Event) -> Advice:
        self.orders.append(order)
        await self.may.wait()
        return await asyncio.to_thread(order.work, lambda: False, told)


async def advice_in(house: House) -> Advice:
    """The advice of a service, once it is there."""
    await house.backend.advise(PERIOD)
    await house.until(lambda: house.backend.adviser.view().going is None)
    found = await house.backend.advice()
    assert found.problem is None
    assert found.advice is not None
    return found.advice


def test_the_last_jobs_under_other_policies(tmp_path: Path) -> None:
    async def asked() -> None:
        advisers = Advisers()
        house = House(tmp_path, "nodes:fifo", cores=1.0, advises=advisers)
        async with house.open(pairs(60)):
            await house.all_over()
            begun = await house.backend.advise(PERIOD)
            assert begun.going is not None
            again = await house.backend.advise(AdviceSpec(last_s=60.0))
            assert again.going == begun.going, "what goes on is not begun again"
            advisers.may.set()
            found = await advice_in(house)
            assert len(advisers.orders) == 1
            assert (found.jobs, found.in_force) == (120, "nodes:fifo")
            by_name = {row.policy: row.figures for row in found.rows}
            # In order of arrival the short job waits for 100 s; else the long one for 10 s.
            assert by_name["nodes:fifo"]["wait_s"] == pytest.approx(50.0, abs=0.1)
            assert by_name["sjf:backfill=easy"]["wait_s"] == pytest.approx(5.0, abs=0.1)
            (worth,) = found.worth
            await house.backend.set_policy(worth.policy, "operator")
            in_force = await house.backend.policy()
            assert in_force.policy == worth.policy
            assert house.told("policy-set")[-1].data["policy"] == worth.policy

    asyncio.run(asked())


def test_without_jobs_there_is_nothing_to_say(tmp_path: Path) -> None:
    async def asked() -> None:
        advisers = Advisers()
        advisers.may.set()
        house = House(tmp_path, "nodes:fifo", cores=1.0, advises=advisers)
        async with house.open(pairs(2)):
            await house.all_over()
            found = await advice_in(house)
            assert "4 jobs" in str(found.problem)
            assert not found.rows
            assert found.left_out
            alone = await Seen(house.backend, "bob").advice()
            assert alone.advice is not None
            assert alone.advice.left_out == (), "its reasons may name jobs of others"
        async with House(tmp_path / "empty", advises=advisers).open() as empty:
            with pytest.raises(Conflict, match="no job has been submitted"):
                await empty.backend.advise(PERIOD)

    asyncio.run(asked())


def test_what_cannot_be_put_in_force_is_left_out_with_the_reason(tmp_path: Path) -> None:
    async def asked() -> None:
        advisers = Advisers()
        house = House(tmp_path, "nodes:fifo", cores=1.0, advises=advisers)
        async with house.open(pairs(2)):
            await house.all_over()
            await house.backend.add_user(User(name="ann", limits=UserLimits(max_units=1)), "operator")
            await house.backend.advise(PERIOD)
            await house.until(lambda: bool(advisers.orders))
            fitting = advisers.orders[0].fitting
            advisers.may.set()
            await house.until(lambda: house.backend.adviser.view().advice is not None)
            found = house.backend.adviser.view().advice
        assert found is not None
        assert found.not_simulated == ("limits of users",)
        assert "easy" in fitting.policies
        assert any(policy.startswith("portfolio") for policy in fitting.policies), "it heeds users' limits"
        assert "no machines are on offer" in [each.why for each in fitting.left_out if "eva" in each.policies]

    asyncio.run(asked())
