"""Instance types for tests, charged for by the second begun."""

from __future__ import annotations

from typing import Any

from betimes.cluster.offer import Offer, Spot
from betimes.cluster.revocation import Exponential


def kind(
    type: str,  # noqa: A002
    cpu: float,
    memory_gib: float,
    gpu: float = 0.0,
    usd_per_h: float = 0.0,
    *,
    reclaims_per_h: float = 0.0,
    **more: Any,
) -> Offer:
    """An offer; with `reclaims_per_h` its machines are taken away so often, at the full price."""
    spot = Spot(1.0, Exponential(1.0 / reclaims_per_h)) if reclaims_per_h else None
    more = {"bill_step_s": 1.0} | more
    return Offer(type=type, cpu=cpu, memory_gib=memory_gib, gpu=gpu, usd_per_h=usd_per_h, spot=spot, **more)
