"""Locks by name, each of which is there as long as someone holds it or waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Locks(Generic[K]):
    """One lock a name; those that wait for it get it in the order in which they came."""

    def __init__(self) -> None:
        self._locks: dict[K, asyncio.Lock] = {}
        self._users: Counter[K] = Counter()  # that hold the lock of a name, or wait for it

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def held(self, name: K) -> AsyncIterator[None]:
        """The lock of a name, while this is entered."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._users[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._locks[name]
