"""The table of what the papers claim first."""

from __future__ import annotations

import pytest
from betimes_papers import find, reproduce
from betimes_papers.experiment import Row
from betimes_papers.headlines import HEADLINES, PAPERS, rows_of, verdict


@pytest.mark.parametrize(
    ("published", "ours", "kind", "said"),
    [
        (-40.0, -34.5, "effect", "matches"),
        (-40.0, -80.0, "effect", "matches"),
        (-40.0, -19.0, "effect", "weaker"),
        (-40.0, 1.0, "effect", "contrary"),
        (23.9, -6.4, "effect", "contrary"),
        (4.0, 4.3, "within", "matches"),
        (4.0, -20.0, "within", "matches"),
        (4.0, 5.0, "within", "weaker"),
        (4.0, 8.1, "within", "contrary"),
    ],
)
def test_a_verdict(published: float, ours: float, kind: str, said: str) -> None:
    assert verdict(published, ours, kind) == said


def test_rows_are_made_of_those_of_the_experiments() -> None:
    (headline,) = [each for each in HEADLINES if each.claim.startswith("table 4")]
    (row,) = rows_of(
        [headline], {"eva-table4": [Row("No-Packing", "cost", 156.0, 151.0, "% of the optimum")]}
    )
    assert (row.case, row.published, row.ours) == ("eva/" + headline.claim, 56.0, 51.0)
    assert row.note == "matches"


def test_each_paper_has_headlines_and_can_be_asked_for_alone() -> None:
    assert PAPERS == ("pcs", "fitgpp", "portfolio", "eva", "waiting")
    assert find("headlines:fitgpp").needs == ()
    assert set(find("headlines:pcs").needs) < set(find("headlines").needs)


@pytest.mark.slow
def test_the_headlines_of_fitgpp_are_found_in_its_experiments() -> None:
    rows = reproduce("headlines:fitgpp")
    verdicts = [row.note.partition(":")[0] for row in rows]
    assert verdicts == ["matches", "contrary", "contrary", *["matches"] * 4, "contrary"]
