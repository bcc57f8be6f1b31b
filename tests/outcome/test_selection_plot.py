"""The picture of a portfolio's history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.outcome import SelectionColumns, plot_selections
from tests.outcome.cases import four_jobs


def selections(members: int) -> SelectionColumns:
    """As many selections as members, each won by another."""
    number = np.repeat(np.arange(members), members)
    which = np.tile(np.arange(members), members)
    return SelectionColumns(
        selection=number,
        at_s=20.0 * number,
        waiting=np.ones(len(number), dtype=np.int64),
        member=np.array([f"member-{at}" for at in which]),
        score=np.where(which == number, 2.0, 1.0),
        chosen=which == number,
    )


@pytest.mark.parametrize(("members", "named"), [(3, 3), (20, 11)])
def test_members_that_were_chosen_are_named_and_rare_ones_counted(
    members: int, named: int, tmp_path: Path
) -> None:
    result = replace(four_jobs("themis"), selections=selections(members))
    plot_selections(result, tmp_path / "a.svg")
    plot_selections(result, tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert text == (tmp_path / "b.svg").read_text("utf-8")
    assert text.count("<!-- member-") == named
    assert ("<!-- 9 others (45%) -->" in text) == (members == 20)


def test_a_run_without_selections_has_no_history(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing was selected"):
        plot_selections(four_jobs("themis"), tmp_path / "a.svg")
