"""How a policy for a pool rents machines: the parameters that every such policy takes, and the rule that they make.

`wfq:rent_within=1h,rent_price=2.5,rent_budget=20`: need, price, budget (docs/notes/pool-that-rents.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from betimes.cluster import Offer
from betimes.errors import PolicyError
from betimes.policies.hooks import Parameter

RENTING = (
    Parameter(
        "rent_within",
        "rents as many units as are needed for all believed work to be done within this time; without it nothing is "
        "rented",
        low=1.0,
        high=1e9,
        is_duration=True,
    ),
    Parameter(
        "rent_price", "the most that a rented unit may cost, USD an hour; by default any price", low=0.0
    ),
    Parameter(
        "rent_budget",
        "the most that all rented machines may cost together, USD an hour; by default any",
        low=0.0,
    ),
)


RENTS_NOTHING = (
    "rents nothing of what is offered: give it rent_within (such as rent_within=1h), or choose another"
)
"""What is said of a policy for a pool where machines are offered, after its name."""


@dataclass(frozen=True)
class RentingRule:
    """Rent so many units that all believed work is done within `within_s`, at these prices at most."""

    within_s: float
    most_usd_per_unit_h: float = math.inf
    most_usd_per_h: float = math.inf  # of all rented machines


def renting_rule(policy: str, values: Mapping[str, Any]) -> RentingRule | None:
    """The rule that a policy's parameters make; null: it rents nothing. Raises PolicyError."""
    within_s, price, budget = (values.get(each.name) for each in RENTING)
    if within_s is None:
        lost = next((each.name for each in RENTING[1:] if values.get(each.name) is not None), None)
        if lost is not None:
            raise PolicyError(
                f"policy {policy}, parameter {lost}: nothing is rented without rent_within; give that too, as in "
                "rent_within=1h"
            )
        return None
    return RentingRule(within_s, math.inf if price is None else price, math.inf if budget is None else budget)


def check_offers(policy: str, offers: Sequence[Offer]) -> None:
    """Raise PolicyError for an offer of machines that differ in more than size and price."""
    for offer in offers:
        odd = _not_for_pools(offer)
        if odd is not None:
            raise PolicyError(
                f"policy {policy}: offer {offer.type} has {odd}, and a pool rents machines that are alike and come up; "
                "leave it out, or choose a policy for nodes"
            )


def _not_for_pools(offer: Offer) -> str | None:
    """What an offer has that a pool has no use for; null: nothing."""
    odd = {
        "spot": offer.spot is not None,
        "boot_sigma": offer.boot_sigma > 0.0,
        "boot_failure_frac": offer.boot_failure_frac > 0.0,
        "speeds": bool(offer.speeds),
    }
    return next((name for name, is_given in odd.items() if is_given), None)
