"""The policies that ship with Betimes, by name."""

from __future__ import annotations

from betimes.policies.afs import afs
from betimes.policies.fifo import fifo
from betimes.policies.hooks import Policy
from betimes.policies.las import las
from betimes.policies.max_min import max_min
from betimes.policies.srsf import srsf
from betimes.policies.srtf import srtf
from betimes.policies.themis import themis
from betimes.policies.wfq import wfq

POLICIES: dict[str, Policy] = {p.name: p for p in (fifo, srsf, srtf, las, themis, afs, max_min, wfq)}
