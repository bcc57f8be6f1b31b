"""Locks by name: one holder at a time, also where the first of several that wait has just let go."""

from __future__ import annotations

import asyncio

import pytest

from betimes.service.runtime.submissions import Locks


def test_a_lock_that_is_waited_for_is_the_lock_of_those_that_come_later() -> None:
    async def ask() -> None:
        locks, inside, most = Locks[str](), 0, 0

        async def hold() -> None:
            nonlocal inside, most
            async with locks.held("a"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        first, second = asyncio.ensure_future(hold()), asyncio.ensure_future(hold())
        await first  # the lock is free now, and the second has not taken it yet
        await asyncio.gather(second, hold(), hold())
        assert most == 1
        assert len(locks) == 0

    asyncio.run(ask())


def test_a_lock_is_let_go_and_forgotten_where_its_holder_fails() -> None:
    async def ask() -> None:
        locks = Locks[str]()

        async def fail() -> None:
            async with locks.held("a"):
                raise ValueError("refused")

        with pytest.raises(ValueError, match="refused"):
            await fail()
        assert len(locks) == 0
        async with locks.held("a"), locks.held("b"):
            assert len(locks) == 2

    asyncio.run(ask())
