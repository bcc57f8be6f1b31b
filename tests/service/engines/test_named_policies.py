"""Policies that rent for jobs, in the service: what is refused when it starts, and not when the first job waits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from betimes.cluster import Offer
from betimes.errors import PolicyError
from betimes.service.engines.named_policies import check_live
from tests.foresight.waits.fixtures import stump

OFFER = Offer(type="m8", cpu=8, memory_gib=32, usd_per_h=0.384)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("sww:b=1h,waits=learned", "learned waits need a model"),
        ("sww:b=1h,waits=learned,model=none.npz", "model none.npz: cannot be read"),
        ("njw:spot=true", "the service rents the spot machines that the cluster file offers"),
        ("sww:b=-5m", "parameter b: -300 is not between 0 and"),
        ("ljw:t=-1", "parameter t: -1 is not between 0 and"),
        ("pool:max-min:rent_price=1", "nothing is rented without rent_within"),
    ],
)
def test_what_cannot_be_done_live(policy: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        check_live(policy, [OFFER])


def test_offers_that_renting_cannot_be_weighed_by() -> None:
    with pytest.raises(PolicyError, match="none are offered"):
        check_live("njw", [])
    with pytest.raises(PolicyError, match="none are offered"):
        check_live("fifo:rent_within=1h", [])
    with pytest.raises(PolicyError, match="offer m8 has speeds, and a pool rents machines that are alike"):
        check_live("fifo:rent_within=1h", [replace(OFFER, speeds=(("train", 2.0),))])
    with pytest.raises(PolicyError, match=r"offer m8 costs nothing \(usd_per_h\)"):
        check_live("njw", [replace(OFFER, usd_per_h=0.0)])
    with pytest.raises(
        PolicyError, match="offer m8 has speeds, and a machine that is rented for one job alone"
    ):
        check_live("njw", [replace(OFFER, speeds=(("train", 2.0),))])


def test_a_model_that_is_there(tmp_path: Path) -> None:
    stump("waitq-size", 0.5, 1.0, 2.0).save(tmp_path / "model.npz")
    check_live(f"sww:b=1h,waits=learned,model={tmp_path / 'model.npz'}", [OFFER])
    check_live("compound:t=15m,b=1h", [OFFER])  # both oracles: foreseen by a play-out, or by estimates
