"""The service's clocks: one that follows the wall clock without its jumps, and a virtual one for replays and tests.

Both give seconds since 1970, never go back, and let a coroutine sleep until an instant.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, NamedTuple

Source = Callable[[], float]  # seconds

LONGEST_SLEEP_S = 1.0  # by the event loop's clock, which stands still while the machine is suspended
_LONGEST_UNSEEN_S = 1.0  # between two checks of a clock against the wall clock

# Rounds of the event loop for ready callbacks, and those that they make ready, before a clock jumps: a result may pass
# through so many futures and queues.
_TURNS = 32


class Jump(NamedTuple):
    """The wall clock was set, or the machine was suspended."""

    wall_s: float  # how far the wall clock jumped; negative: back
    stepped_s: float  # how far the service's clock was put forward for it, 0 or more
    corrected_s: float = 0.0  # the part of that in which the machine was awake: the earlier time was wrong


def suspended_s() -> float:
    """Seconds for which the machine has been suspended since it booted, or an unknown time ago.

    Where the system does not count them, all by which the wall clock is ahead of the steady one.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.time() if boot is None else time.clock_gettime(boot)) - time.monotonic()


class Clock:
    """Wall time at the start, carried on by a steady clock, and kept near the wall clock without ever going back.

    A wall clock that comes to be more than `threshold_s` ahead (a suspended machine, a correction) is followed at
    once: that much time has really passed, or the earlier time was wrong. One that was put back is not: this clock
    runs slower, by `slew_frac`, until it has been caught up with. Smaller differences are made up for in the same way,
    so but for the steps no duration is wrong by more than that. `floor_s` is an instant before which it must not
    start: that of the last event in the store. Not safe for several threads at once.
    """

    def __init__(
        self,
        floor_s: float = -math.inf,
        *,
        threshold_s: float = 1.0,
        slew_frac: float = 0.05,
        wall: Source = time.time,
        steady: Source = time.monotonic,
        suspended: Source = suspended_s,
    ) -> None:
        self._threshold_s, self._slew_frac = threshold_s, slew_frac
        self._wall, self._steady, self._suspended = wall, steady, suspended
        wall_s, steady_s = wall(), steady()
        self._suspended_s = suspended()  # when the clocks were last compared
        self._offset_s = wall_s - steady_s  # when the wall clock was last looked at
        self._last_s = max(wall_s, floor_s)
        self._anchor_s, self._anchor_steady_s = self._last_s, steady_s
        self._behind_s = wall_s - self._last_s  # at the anchor; negative: ahead
        self._jump: Jump | None = None
        if wall_s < floor_s - threshold_s:
            self._jump = Jump(wall_s - floor_s, 0.0)

    def now_s(self) -> float:
        """Seconds since 1970; never less than before."""
        before_s, wall_s, suspended_s, after_s = (
            self._steady(),
            self._wall(),
            self._suspended(),
            self._steady(),
        )
        elapsed_s = before_s - self._anchor_steady_s
        made_up_s = min(abs(self._behind_s), self._slew_frac * elapsed_s)
        now_s = self._anchor_s + elapsed_s + math.copysign(made_up_s, self._behind_s)
        # A process that was stopped between the readings has not seen a jump.
        if after_s - before_s < self._threshold_s / 2:
            now_s = self._look(now_s, before_s, wall_s, suspended_s - self._suspended_s)
            self._suspended_s = suspended_s
        self._last_s = max(self._last_s, now_s)
        return self._last_s

    @property
    def ahead_s(self) -> float:
        """Seconds by which this clock is ahead of the wall clock, which was put back; 0: no more than usual."""
        ahead_s = self.now_s() - self._wall()
        return ahead_s if ahead_s > self._threshold_s else 0.0

    def jump(self) -> Jump | None:
        """The wall clock's jump since the last call; null: none."""
        self.now_s()
        taken, self._jump = self._jump, None
        return taken

    async def sleep_until(self, at_s: float) -> None:
        """Return once it is `at_s`: at once if it is already, within a second after a jump."""
        await asyncio.sleep(0)
        while (left_s := at_s - self.now_s()) > 0:
            await asyncio.sleep(min(left_s, LONGEST_SLEEP_S))

    async def wait_for(self, event: asyncio.Event, at_s: float) -> None:
        """Return once the event is set, or it is `at_s`, or the wall clock has jumped, within a second after that."""
        while not event.is_set() and self._jump is None and (left_s := at_s - self.now_s()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, LONGEST_SLEEP_S) if left_s < math.inf else None):
                    await event.wait()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Nothing: real time cannot be held. See `VirtualClock.hold`."""
        yield

    def _look(self, now_s: float, steady_s: float, wall_s: float, slept_s: float) -> float:
        """Compare with the wall clock; the time. slept_s: for which the machine was suspended since the last look."""
        jumped_s = wall_s - steady_s - self._offset_s
        self._offset_s += jumped_s
        behind_s = wall_s - now_s
        stepped_s = behind_s if behind_s > self._threshold_s else 0.0
        if stepped_s or abs(jumped_s) > self._threshold_s:
            earlier = self._jump or Jump(0.0, 0.0)
            awake_s = stepped_s - (slept_s if slept_s > self._threshold_s else 0.0)
            corrected_s = awake_s if awake_s > self._threshold_s else 0.0
            self._jump = Jump(
                earlier.wall_s + jumped_s, earlier.stepped_s + stepped_s, earlier.corrected_s + corrected_s
            )
        elif steady_s - self._anchor_steady_s < _LONGEST_UNSEEN_S:
            return now_s
        self._anchor_s, self._anchor_steady_s = now_s + stepped_s, steady_s
        self._behind_s = behind_s - stepped_s
        return self._anchor_s


class VirtualClock:
    """A clock with a speed: 1 is real time, 3600 an hour a second, infinity jumps from event to event, 0 stands still.

    At infinite speed the time is exactly that of the first sleeper that is due, as soon as nothing else is left to
    run: ready callbacks of the event loop get a few turns before, and work elsewhere (a thread, a socket) holds the
    clock meanwhile. `advance_to` moves a clock of any speed forward.
    """

    def __init__(
        self, start_s: float = 0.0, speed: float = math.inf, *, steady: Source = time.monotonic
    ) -> None:
        if not speed >= 0:
            raise ValueError(f"expected a speed of 0 or more, found {speed}")
        self._speed, self._steady = speed, steady
        self._runs = 0 < speed < math.inf
        self._base_s, self._base_steady_s = start_s, steady()
        self._sleepers: list[_Sleeper] = []
        self._numbers = count()
        self._alarm: asyncio.Handle | None = None
        self._holders = 0

    def now_s(self) -> float:
        """The virtual time, s; never less than before."""
        if not self._runs:
            return self._base_s
        return self._base_s + (self._steady() - self._base_steady_s) * self._speed

    ahead_s = 0.0  # it has no wall clock to be ahead of

    def jump(self) -> Jump | None:
        """Null: a virtual clock has no wall clock to follow."""
        return None

    async def sleep_until(self, at_s: float) -> None:
        """Return once it is `at_s`. Those due at the same instant wake in the order in which they fell asleep."""
        if at_s <= self.now_s():
            await asyncio.sleep(0)
            return
        sleeper = _Sleeper(at_s, next(self._numbers), asyncio.get_running_loop().create_future())
        heappush(self._sleepers, sleeper)
        self._set_alarm()
        try:
            await sleeper.woken
        except asyncio.CancelledError:
            self._forget(sleeper)
            raise

    async def wait_for(self, event: asyncio.Event, at_s: float) -> None:
        """Return once the event is set, or it is `at_s`."""
        waiters: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait())]
        if at_s < math.inf:
            waiters.append(asyncio.ensure_future(self.sleep_until(at_s)))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)

    def advance_to(self, at_s: float) -> None:
        """Move on to `at_s` unless it is later, and wake all sleepers due by then."""
        self._base_s, self._base_steady_s = max(self.now_s(), at_s), self._steady()
        self._wake()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep a clock of infinite speed from jumping: for work outside the event loop."""
        self._holders += 1
        if not self._runs:
            self._set_alarm()  # it may have been about to jump
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders and self._sleepers:
                self._set_alarm()

    def _set_alarm(self) -> None:
        """See to it that the first sleeper is woken."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._sleepers or self._sleepers[0].at_s == math.inf:
            return
        loop = asyncio.get_running_loop()
        if self._runs:
            left_s = (self._sleepers[0].at_s - self.now_s()) / self._speed
            self._alarm = loop.call_later(max(left_s, 0.0), self._wake)
        elif self._speed and not self._holders:
            self._alarm = loop.call_soon(self._jump_on, _TURNS)

    def _jump_on(self, turns: int) -> None:
        if turns:
            self._alarm = asyncio.get_running_loop().call_soon(self._jump_on, turns - 1)
            return
        self._base_s = max(self._base_s, self._sleepers[0].at_s)
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0].at_s <= self.now_s():
            sleeper = heappop(self._sleepers)
            if not sleeper.woken.done():
                sleeper.woken.set_result(None)
        self._set_alarm()

    def _forget(self, sleeper: _Sleeper) -> None:
        if sleeper in self._sleepers:
            self._sleepers.remove(sleeper)
            heapify(self._sleepers)
            self._set_alarm()


class _Sleeper(NamedTuple):
    at_s: float
    number: int
    woken: asyncio.Future[None]
