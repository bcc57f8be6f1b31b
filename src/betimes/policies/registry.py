"""The policies that ship with Betimes, by name."""

from __future__ import annotations

from betimes.policies.hooks import Policy
from betimes.policies.pool.afs import afs
from betimes.policies.pool.las import las
from betimes.policies.pool.max_min import max_min
from betimes.policies.pool.orders import fifo, srsf, srtf
from betimes.policies.pool.themis import themis
from betimes.policies.pool.wfq import wfq

POLICIES: dict[str, Policy] = {p.name: p for p in (fifo, srsf, srtf, las, themis, afs, max_min, wfq)}
