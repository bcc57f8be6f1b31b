"""The clock that follows the wall clock, whatever that does."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.runtime.clock import Clock, Jump

START_S = 1_700_000_000.0


@dataclass
class Sources:
    """A wall clock and a steady one, in step unless a test says otherwise."""

    wall_s: float = START_S
    steady_s: float = 500.0
    pause_s: float = 0.0  # that the process stands still between the next two readings
    suspended_s: float = 40.0  # before, too

    def wall(self) -> float:
        found, pause_s, self.pause_s = self.wall_s, self.pause_s, 0.0
        self.run(pause_s)
        return found

    def steady(self) -> float:
        return self.steady_s

    def run(self, for_s: float) -> None:
        self.wall_s += for_s
        self.steady_s += for_s

    def suspended(self) -> float:
        return self.suspended_s

    def suspend(self, for_s: float) -> None:
        self.wall_s += for_s
        self.suspended_s += for_s

    def set(self, by_s: float) -> None:
        self.wall_s += by_s


def made(floor_s: float = -math.inf, **more: float) -> tuple[Clock, Sources]:
    sources = Sources()
    return Clock(
        floor_s, wall=sources.wall, steady=sources.steady, suspended=sources.suspended, **more
    ), sources


def test_it_goes_with_the_wall_clock() -> None:
    clock, sources = made()
    for _ in range(100):
        assert clock.now_s() == sources.wall_s
        sources.run(0.25)
    assert clock.jump() is None


def test_a_suspended_machine_puts_it_forward() -> None:
    clock, sources = made()
    sources.run(10.0)
    sources.suspend(3600.0)
    assert clock.now_s() == sources.wall_s
    assert clock.jump() == Jump(3600.0, 3600.0)
    assert clock.jump() is None
    sources.run(10.0)
    assert clock.now_s() == sources.wall_s


def test_a_clock_put_forward_on_a_machine_that_was_awake_was_wrong_before() -> None:
    clock, sources = made()
    sources.set(3600.0)
    assert clock.jump() == Jump(3600.0, 3600.0, 3600.0)
    sources.suspend(600.0)
    sources.set(50.0)
    assert clock.jump() == Jump(650.0, 650.0, 50.0)


def test_a_jump_is_told_without_reading_the_time_first() -> None:
    clock, sources = made()
    sources.suspend(5.0)
    assert clock.jump() == Jump(5.0, 5.0)


def test_jumps_that_nobody_asked_about_add_up() -> None:
    clock, sources = made()
    for jump_s in (100.0, 50.0, -30.0):
        sources.set(jump_s)
        clock.now_s()
    assert clock.jump() == Jump(120.0, 150.0, 150.0)


def test_a_wall_clock_that_is_put_back_is_waited_for_at_a_slower_pace() -> None:
    clock, sources = made()
    before_s = clock.now_s()
    sources.set(-3600.0)
    assert clock.now_s() == before_s
    assert clock.jump() == Jump(-3600.0, 0.0)
    for _ in range(100):
        sources.run(10.0)
        clock.now_s()
    assert clock.now_s() - before_s == pytest.approx(1000.0 * 0.95)
    for _ in range(100):
        sources.run(1000.0)
        clock.now_s()
    assert clock.now_s() == pytest.approx(sources.wall_s, abs=1e-5)
    assert clock.jump() is None


def test_a_wall_clock_that_is_put_back_and_forward_again_leaves_no_trace() -> None:
    clock, sources = made()
    sources.set(-100.0)
    clock.now_s()
    sources.suspend(100.0)
    assert clock.jump() == Jump(0.0, 0.0)
    sources.run(50.0)
    assert clock.now_s() == pytest.approx(sources.wall_s)


@pytest.mark.parametrize("off_s", [0.9, -0.9])
def test_small_differences_are_made_up_for_in_silence(off_s: float) -> None:
    clock, sources = made()
    sources.run(2.0)
    sources.suspend(off_s)
    at_once_s = clock.now_s()
    assert at_once_s == pytest.approx(sources.wall_s - off_s)
    sources.run(10.0)
    assert clock.now_s() - at_once_s == pytest.approx(10.0 + math.copysign(0.5, off_s))
    sources.run(100.0)  # unread for so long, it does not go beyond
    assert clock.now_s() == pytest.approx(sources.wall_s)
    assert clock.jump() is None


def test_many_small_steps_are_one_jump_at_last() -> None:
    clock, sources = made()
    told: list[Jump | None] = []
    for _ in range(5):
        sources.suspend(0.6)
        told.append(clock.jump())
    assert [jump and round(jump.stepped_s, 6) for jump in told] == [None, 1.2, None, 1.2, None]


def test_it_starts_no_earlier_than_the_floor() -> None:
    clock, sources = made(START_S + 600.0)
    assert clock.now_s() == START_S + 600.0
    assert clock.jump() == Jump(-600.0, 0.0)
    sources.run(100.0)
    assert clock.now_s() == pytest.approx(START_S + 695.0)
    assert made(START_S - 600.0)[0].now_s() == START_S
    assert made(START_S + 0.5)[0].jump() is None


def test_a_process_that_was_stopped_between_readings_has_seen_no_jump() -> None:
    clock, sources = made()
    sources.pause_s = 30.0
    assert clock.now_s() == START_S
    assert clock.now_s() == sources.wall_s
    assert clock.jump() is None


MOVES = st.lists(
    st.tuples(
        st.one_of(st.just(0.0), st.floats(0, 1e-3), st.floats(0, 5000)),
        st.one_of(st.just(0.0), st.floats(-2, 2), st.floats(-1e7, 1e7)),
    ),
    max_size=40,
)


@given(MOVES, st.floats(-1e6, 1e6))
def test_it_never_goes_back_and_ends_at_the_wall_clock(
    moves: list[tuple[float, float]], ahead_s: float
) -> None:
    clock, sources = made(START_S + ahead_s)
    last_s = clock.now_s()
    for run_s, jump_s in moves:
        sources.run(run_s)
        sources.set(jump_s)
        jump, now_s = clock.jump(), clock.now_s()
        stepped_s = jump.stepped_s if jump else 0.0
        assert stepped_s >= 0
        # But for the steps, no duration is off by more than the slewing.
        assert 0.95 * run_s - 1e-5 <= now_s - last_s - stepped_s <= 1.05 * run_s + 1e-5
        assert now_s >= last_s
        assert now_s >= sources.wall_s - 1.0 - 1e-5
        last_s = now_s
    for _ in range(100):
        sources.run(1e7)
        assert clock.now_s() >= last_s
        last_s = clock.now_s()
    assert clock.now_s() == pytest.approx(sources.wall_s, abs=1e-3)


def test_reading_it_often_changes_nothing() -> None:
    clock, sources = made()
    for _ in range(10_000):
        sources.run(1e-7)  # less than a float at such a time can tell apart
        clock.now_s()
    assert clock.now_s() == pytest.approx(START_S + 1e-3, abs=1e-6)


def test_sleeping_on_the_real_clock() -> None:
    async def sleep() -> None:
        clock = Clock()
        at_s = clock.now_s() + 0.05
        await clock.sleep_until(at_s)
        assert clock.now_s() >= at_s
        await clock.sleep_until(-math.inf)
        forever = asyncio.create_task(clock.sleep_until(math.inf))
        await asyncio.sleep(0)
        forever.cancel()
        with pytest.raises(asyncio.CancelledError):
            await forever
        with clock.hold():
            assert clock.now_s() == pytest.approx(time.time(), abs=5.0)

    asyncio.run(sleep())


def test_a_sleeper_sees_a_jump() -> None:
    clock, sources = made()

    async def sleep() -> None:
        sleeper = asyncio.create_task(clock.sleep_until(START_S + 3600.0))
        await asyncio.sleep(0.01)
        assert not sleeper.done()
        sources.suspend(3600.0)
        await asyncio.wait_for(sleeper, 30.0)

    asyncio.run(sleep())


@pytest.mark.parametrize("at_s", [math.inf, 3600.0])
def test_what_happens_first_ends_the_wait(at_s: float) -> None:
    async def wait() -> float:
        clock, event = Clock(), asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, event.set)
        began_s = clock.now_s()
        await clock.wait_for(event, began_s + at_s)
        assert event.is_set()
        return clock.now_s() - began_s

    assert 0.015 < asyncio.run(asyncio.wait_for(wait(), 10)) < 5.0


def test_an_instant_ends_the_wait_for_what_does_not_happen() -> None:
    async def wait() -> None:
        clock, event = Clock(), asyncio.Event()
        at_s = clock.now_s() + 0.05
        await clock.wait_for(event, at_s)
        assert not event.is_set()
        assert clock.now_s() >= at_s

    asyncio.run(asyncio.wait_for(wait(), 10))


def test_a_jump_ends_the_wait() -> None:
    async def wait() -> None:
        clock, sources = made()
        asyncio.get_running_loop().call_later(0.05, lambda: sources.suspend(3600.0))
        await clock.wait_for(asyncio.Event(), START_S + 1800.0)
        assert clock.now_s() >= START_S + 1800.0

    asyncio.run(asyncio.wait_for(wait(), 10))


def test_how_far_it_is_ahead_of_a_wall_clock_that_was_put_back() -> None:
    clock, sources = made()
    assert clock.ahead_s == 0.0
    sources.set(-10_800.0)
    assert clock.ahead_s == pytest.approx(10_800.0)
    sources.suspend(20_000.0)
    assert clock.ahead_s == 0.0
