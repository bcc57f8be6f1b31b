"""How fast types of machines are, by what jobs of a workload did alone on them."""

from __future__ import annotations

import json

from betimes.cluster import Offer
from betimes.service.scheduling.throughputs import MOST_MEASURED, MeasuredRates

PLAIN = Offer(type="plain", cpu=2, memory_gib=8, usd_per_h=1.0)
QUICK = Offer(type="quick", cpu=2, memory_gib=8, usd_per_h=3.0, speeds=(("train", 4.0),))
OFFERS = (PLAIN, QUICK)


def speeds(rates: MeasuredRates, workload: str = "train") -> tuple[float | None, float | None]:
    plain, quick = rates.taught(OFFERS)
    return dict(plain.speeds).get(workload), dict(quick.speeds).get(workload)


def test_what_is_stated_holds_until_two_types_are_measured() -> None:
    rates = MeasuredRates()
    assert rates.taught(OFFERS) == OFFERS
    rates.took("train", 1, "plain", 1, 10.0)
    assert speeds(rates) == (None, 4.0)
    rates.took("train", 1, "quick", 2, 25.0)
    assert speeds(rates) == (None, 2.5)
    assert speeds(rates, "other") == (None, None), "of another workload nothing is known"


def test_the_type_that_was_measured_first_keeps_what_it_states() -> None:
    rates = MeasuredRates()
    rates.took("train", 1, "quick", 1, 20.0)
    rates.took("train", 1, "plain", 2, 10.0)
    assert speeds(rates) == (2.0, 4.0), "20 steps a second are speed 4, so that 10 are 2"


def test_owned_machines_are_the_reference() -> None:
    rates = MeasuredRates()
    rates.took("train", 1, "quick", 1, 30.0)
    rates.took("train", 1, "my-own", 2, 10.0)
    assert speeds(rates) == (None, 3.0)


def test_the_median_of_jobs_counts_and_small_changes_do_not() -> None:
    rates = MeasuredRates()
    rates.took("train", 1, "plain", 1, 10.0)
    for job, per_s in enumerate((20.0, 21.0, 900.0), 2):
        rates.took("train", 1, "quick", job, per_s)
    assert speeds(rates) == (None, 2.0), "the median of 20, 21 and 900 is within a tenth of 20"
    rates.took("train", 1, "quick", 4, 30.0)
    rates.took("train", 1, "quick", 3, 30.0)
    assert speeds(rates) == (None, 3.0), "jobs 3 and 4 have been measured again"
    for job in range(10, 10 + MOST_MEASURED):
        rates.took("train", 1, "quick", job, 50.0)
    assert speeds(rates) == (None, 5.0), "the last ones count"


def test_jobs_of_another_width_have_other_steps() -> None:
    rates = MeasuredRates()
    rates.took("train", 1, "plain", 1, 10.0)
    rates.took("train", 4, "quick", 2, 80.0)
    assert speeds(rates) == (None, 4.0), "nothing to compare yet"
    rates.took("train", 4, "plain", 3, 40.0)
    assert speeds(rates) == (None, 2.0), "on four units; plain was measured first"
    rates.took("train", 1, "quick", 4, 30.0)
    assert speeds(rates) == (None, 2.5), "of 2 on four units and 3 on one"


def test_they_survive_a_snapshot() -> None:
    rates = MeasuredRates()
    rates.took("train", 1, "plain", 1, 10.0)
    rates.took("train", 1, "quick", 2, 25.0)
    again = MeasuredRates.from_json(json.loads(json.dumps(rates.to_json())))
    assert again == rates
