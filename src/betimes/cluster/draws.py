"""Random draws for a rented machine, by its type and number alone: twin and service draw the same."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from betimes.cluster.offer import Offer


class Draw(NamedTuple):
    """A machine's time to boot, whether it then fails, and its age when it gets notice (infinity: never), s."""

    boot_s: float
    fails: bool
    age_s: float


def draw(offer: Offer, seed: int | str, number: int) -> Draw:
    """The draw for the machine of a type with this number (0, 1, ...), under this seed."""
    source = random.Random(f"{seed}/{offer.type}/{number}")
    boot_s = offer.boot_s * math.exp(source.gauss(0.0, offer.boot_sigma))
    fails = source.random() < offer.boot_failure_frac
    age_s = offer.spot.revocation.age_s(source.random()) if offer.spot is not None else math.inf
    return Draw(boot_s, fails, age_s)
