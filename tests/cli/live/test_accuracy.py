"""`betimes accuracy`: what is asked, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.api.examples import ACCURACY
from betimes.service.views.models import JudgedPromise
from tests.cli.conftest import Call
from tests.cli.stand_in import Service


def test_the_figures_in_words(betimes: Call, service: Service) -> None:
    out = betimes("accuracy", "--since", "7d", "--by", "user").out
    assert service.asked[-1] == ("accuracy", (604_800.0, 0.0, {"by": "user", "promises": False}))
    assert "79% of 100" in out
    for text in (
        "first",
        "latest",
        "users' estimates",
        "one ratio for all",
        "12%",
        "2.0%",
        "First promises by user",
        "ada",
        "Errors are of the time from the promise to the end",
    ):
        assert text in out
    assert betimes("accuracy", "--json").json()["first"]["kept"] == 79


def test_there_may_be_none(betimes: Call, service: Service) -> None:
    service.account = ACCURACY.model_copy(update={"first": ACCURACY.first.model_copy(update={"promises": 0})})
    assert betimes("accuracy").out == "No promised job has finished in this time.\n"


def test_it_is_drawn(betimes: Call, service: Service, tmp_path: Path) -> None:
    one = JudgedPromise(
        job_id=1, user="ada", name="x", policy="fifo", basis="estimate", made_at=0.0, finish_at=100.0,
        finish_low_at=90.0, finish_median_at=105.0, finish_high_at=200.0, level=0.8, finished_at=110.0,
    )  # fmt: skip
    service.account = ACCURACY.model_copy(update={"promises": [one] * 20})
    betimes("accuracy", "--plot", str(tmp_path / "a.svg"))
    assert service.asked[-1][1][2]["promises"]
    assert "Coverage, 20 promises" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--since", "1d", "--until", "2d"], "--since 1d: the period ends (2d ago) before it begins"),
        (["--since", "0"], "--since 0: the period ends (now) before it begins"),
        (["--since", "yesterday"], "--since: "),
        (["--by", "colour"], "--by"),
        (["--plot", "a.svg"], "no promised job has finished in this time, so there is nothing to draw"),
    ],
)
def test_bad_input_is_refused(betimes: Call, service: Service, words: list[str], error: str) -> None:
    failed = betimes("accuracy", *words)
    assert failed.code == 2
    assert error in failed.err
