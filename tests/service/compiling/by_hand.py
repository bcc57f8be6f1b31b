"""Policies that are compiled when a test says so, or at once."""

from __future__ import annotations

import asyncio

from betimes.service.compiling.kernels import Kernels


class ByHand:
    """A `Compile`: each policy waits until the test lets it end, well or with an error; `at_once` does not."""

    def __init__(self, *at_once: str) -> None:
        self.at_once, self.asked = at_once, list[str]()
        self._ends: dict[str, asyncio.Future[None]] = {}

    async def __call__(self, policy: str) -> None:
        self.asked.append(policy)
        if policy not in self.at_once:
            self._ends[policy] = asyncio.get_running_loop().create_future()
            await self._ends[policy]

    def end(self, policy: str, error: Exception | None = None) -> None:
        """Let it be compiled, or not compile."""
        if error is None:
            self._ends[policy].set_result(None)
        else:
            self._ends[policy].set_exception(error)

    def kernels(self) -> Kernels:
        return Kernels(self, self.at_once.__contains__, interpreted=False)


def before_listening() -> Kernels:
    """A service with these compiles its policy in its own process, and listens after that."""

    async def nothing(policy: str) -> None:
        """The engine compiles what it calls."""

    return Kernels(nothing, lambda _: True)
