"""The clock of replays and tests."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.runtime.clock import VirtualClock


def test_at_infinite_speed_it_jumps_from_sleeper_to_sleeper() -> None:
    clock = VirtualClock(100.0)
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, *at_s: float) -> None:
        for each_s in at_s:
            await clock.sleep_until(each_s)
            woken.append((name, clock.now_s()))

    async def run() -> None:
        await asyncio.gather(sleep("a", 150.0, 1e9), sleep("b", 120.0, 150.0), sleep("c", 50.0, 150.0))

    asyncio.run(run())
    assert woken == [("c", 100.0), ("b", 120.0), ("a", 150.0), ("c", 150.0), ("b", 150.0), ("a", 1e9)]
    assert clock.jump() is None


@given(st.lists(st.lists(st.floats(0, 100), max_size=5), max_size=6))
def test_everybody_wakes_exactly_when_they_asked(naps: list[list[float]]) -> None:
    clock = VirtualClock()
    woken: list[float] = []

    async def sleep(naps_s: list[float]) -> None:
        for nap_s in naps_s:
            at_s = clock.now_s() + nap_s
            await clock.sleep_until(at_s)
            assert clock.now_s() == at_s
            woken.append(at_s)

    async def run() -> None:
        await asyncio.gather(*(sleep(each) for each in naps))

    asyncio.run(run())
    assert woken == sorted(woken)
    assert len(woken) == sum(map(len, naps))


def test_it_waits_for_what_is_ready_to_run() -> None:
    clock = VirtualClock()

    async def run() -> None:
        first: asyncio.Queue[int] = asyncio.Queue()
        second: asyncio.Queue[int] = asyncio.Queue()

        async def pass_on() -> None:
            for _ in range(5):
                await second.put(await first.get())

        async def answer() -> None:
            for number in range(5):
                await first.put(number)
                assert await second.get() == number
                assert clock.now_s() == 0.0
            await clock.sleep_until(3.0)

        late = asyncio.create_task(clock.sleep_until(5.0))
        await asyncio.gather(pass_on(), answer())
        assert clock.now_s() == 3.0
        await late
        assert clock.now_s() == 5.0

    asyncio.run(run())


def test_work_in_a_thread_holds_it() -> None:
    clock = VirtualClock()

    async def run() -> None:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(release.set)

        late = asyncio.create_task(clock.sleep_until(5.0))
        with clock.hold(), clock.hold():
            await asyncio.sleep(0.02)
            await asyncio.to_thread(work)
            await release.wait()
            assert clock.now_s() == 0.0
        await late

    asyncio.run(run())
    assert clock.now_s() == 5.0


def test_it_is_held_also_where_it_was_about_to_jump() -> None:
    clock = VirtualClock()

    async def run() -> None:
        late = asyncio.create_task(clock.sleep_until(5.0))
        for _ in range(3):
            await asyncio.sleep(0)
        with clock.hold():
            await asyncio.sleep(0.02)
            assert clock.now_s() == 0.0
        await late

    asyncio.run(run())
    assert clock.now_s() == 5.0


def test_who_is_cancelled_wakes_nobody() -> None:
    clock = VirtualClock()

    async def run() -> None:
        with clock.hold():
            early, late = (asyncio.create_task(clock.sleep_until(at_s)) for at_s in (10.0, 20.0))
            await asyncio.sleep(0)
        early.cancel()
        await late
        assert early.cancelled()
        assert clock.now_s() == 20.0
        forever = asyncio.create_task(clock.sleep_until(math.inf))
        await asyncio.sleep(0.02)
        assert (clock.now_s(), forever.done()) == (20.0, False)
        forever.cancel()

    asyncio.run(run())


def test_cancelled_at_the_moment_of_waking() -> None:
    clock = VirtualClock(speed=0)

    async def run() -> None:
        sleeper = asyncio.create_task(clock.sleep_until(1.0))
        await asyncio.sleep(0)
        clock.advance_to(1.0)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    asyncio.run(run())


def test_by_hand() -> None:
    clock = VirtualClock(speed=0)
    clock.advance_to(5.0)
    clock.advance_to(2.0)
    assert clock.now_s() == 5.0

    async def run() -> None:
        sleepers = [asyncio.create_task(clock.sleep_until(at_s)) for at_s in (7.0, 6.0)]
        await asyncio.sleep(0.01)
        assert not any(sleeper.done() for sleeper in sleepers)
        clock.advance_to(6.5)
        await sleepers[1]
        assert not sleepers[0].done()
        clock.advance_to(7.0)
        await sleepers[0]

    asyncio.run(run())


def test_with_a_speed() -> None:
    steady_s = 10.0
    clock = VirtualClock(1000.0, 3600.0, steady=lambda: steady_s)
    assert clock.now_s() == 1000.0
    steady_s += 2.0
    assert clock.now_s() == 8200.0
    clock.advance_to(10_000.0)
    steady_s += 1.0
    assert clock.now_s() == 13_600.0


def test_sleeping_with_a_speed() -> None:
    clock = VirtualClock(0.0, 1000.0)

    async def sleep(at_s: float) -> float:
        await clock.sleep_until(at_s)
        return clock.now_s()

    async def run() -> list[float]:
        forever = asyncio.create_task(clock.sleep_until(math.inf))
        jobs: list[Coroutine[Any, Any, float]] = [sleep(40.0), sleep(20.0), sleep(0.0)]
        found = await asyncio.gather(*jobs)
        forever.cancel()
        return found

    late, early, first = asyncio.run(run())
    assert late >= 40.0
    assert early >= 20.0
    assert first >= 0.0


@pytest.mark.parametrize("speed", [-1.0, math.nan])
def test_wrong_speeds(speed: float) -> None:
    with pytest.raises(ValueError, match="expected a speed of 0 or more"):
        VirtualClock(0.0, speed)
