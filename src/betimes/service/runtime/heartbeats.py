"""Leases of nodes: a node without a heartbeat for so long is lost."""

from __future__ import annotations

import math


class Heartbeats:
    """The last heartbeat of each node. Times are of a clock that never goes back; an earlier one counts as the last.

    A lease ends at the instant of the last beat plus `lease_s`: a beat that comes at that instant, before `expired` is
    asked, is in time.
    """

    def __init__(self, lease_s: float) -> None:
        if not 0 < lease_s < math.inf:
            raise ValueError(f"expected a lease of more than 0 s, found {lease_s}")
        self.lease_s = lease_s
        self._latest_s = -math.inf
        # Every beat moves its node to the end, so the first one is the first to expire.
        self._heard_s: dict[str, float] = {}

    def beat(self, node: str, now_s: float) -> None:
        """A heartbeat; a node that is new, or was lost, is watched from now on."""
        self._latest_s = max(self._latest_s, now_s)
        self._heard_s.pop(node, None)
        self._heard_s[node] = self._latest_s

    def forget(self, node: str) -> None:
        """The node is watched no more: it was removed."""
        self._heard_s.pop(node, None)

    def last_s(self, node: str) -> float | None:
        """The instant of the last heartbeat; null: it is not watched."""
        return self._heard_s.get(node)

    def next_expiry_s(self) -> float:
        """The end of the next lease; infinity: no node is watched."""
        return next(iter(self._heard_s.values()), math.inf) + self.lease_s

    def expired(self, now_s: float) -> list[str]:
        """The nodes whose leases have ended, the oldest first. Each is returned once, and then no longer watched."""
        lost: list[str] = []
        for node, heard_s in self._heard_s.items():
            if heard_s + self.lease_s > now_s:
                break
            lost.append(node)
        for node in lost:
            del self._heard_s[node]
        return lost

    def extend(self, by_s: float, now_s: float) -> None:
        """Every lease ends so much later, but none later than after a heartbeat just now.

        For when the clock was put forward by so much (`Jump.stepped_s`), or heartbeats could not be received.
        """
        if not 0 <= by_s < math.inf:
            raise ValueError(f"expected leases to be extended by 0 s or more, found {by_s}")
        self._latest_s = max(self._latest_s, now_s)
        for node, heard_s in self._heard_s.items():
            self._heard_s[node] = min(heard_s + by_s, self._latest_s)
