"""Eva's tables and figures: what is published stands next to its own, and the shares are of No-Packing's cost."""

from __future__ import annotations

import pytest

from betimes.reproduce import find
from betimes.reproduce.eva.planning import drawn
from betimes.reproduce.eva.runs import machines, published, rows


def test_costs_are_shares_of_no_packing_and_published_ones_belong_to_the_whole_trace() -> None:
    found = {"No-Packing": {"usd": 50.0, "jct": 2.0}, "Eva": {"usd": 30.0, "jct": 2.5}}
    whole = rows("eva-table14", "", found, ("cost", "jct"), True)
    assert [(row.case, row.metric, row.published, row.ours) for row in whole] == [
        ("No-Packing", "cost", 100.0, 100.0),
        ("No-Packing", "jct", 16.81, 2.0),
        ("Eva", "cost", 58.0, 60.0),
        ("Eva", "jct", 19.42, 2.5),
    ]
    part = rows("eva-table14", "200", found, ("cost",), False)
    assert [(row.case, row.published) for row in part] == [("200/No-Packing", None), ("200/Eva", None)]


def test_a_uniform_table_has_one_throughput_for_every_pair() -> None:
    table = machines(0.8).interference
    assert table is not None
    assert {table.pair(one, other) for one in table.workloads for other in table.workloads} == {0.8}


def test_the_tasks_of_table_4_are_those_of_the_specification() -> None:
    """No-Packing of seed 0: 1,013.8824 USD an hour."""
    from betimes.policies.packing import NoPacking, Round

    tasks = drawn(200, 0)
    plan = NoPacking().plan(Round(0.0, tasks))
    assert plan.usd_per_h(tasks.catalogue) == pytest.approx(1013.8824)


def test_sizes_are_parts_of_an_experiment() -> None:
    assert find("eva-table14").parts == ("200", "1000", "6274")
    assert find("eva-table14:6274").name == "eva-table14:6274"
    assert published("eva-table5", "8000", "planning") == 22.06
