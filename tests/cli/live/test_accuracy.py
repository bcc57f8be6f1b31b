"""`betimes accuracy`: what is asked, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.api.examples import ACCURACY
from betimes.service.views.models import AccuracyGroup, BesideSlurm, JudgedPromise
from tests.cli.conftest import Call, Tell


def test_the_figures_in_words(betimes: Call, tell: Tell) -> None:
    tell(accuracy=ACCURACY)
    out = betimes("accuracy", "--since", "7d", "--by", "user").out
    assert tell.asked == [("accuracy", 604_800.0, 0.0, "user", False, None)]
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
        "Off by: the true end from the promised one",
    ):
        assert text in out
    assert betimes("accuracy", "--json").json()["first"]["kept"] == 79


def test_beside_slurm_its_answers_stand_beside_the_promises(betimes: Call, tell: Tell) -> None:
    ours = ACCURACY.first
    slurm = ours.model_copy(update={"promises": 97, "err_p50_s": 14_400.0, "bias_mean_s": -31_200.0})
    group = AccuracyGroup(
        name="waited over 5 min", figures=ours, slurm=BesideSlurm(promises=ours, slurm=slurm, limit=ours)
    )
    tell(accuracy=ACCURACY.model_copy(update={"beside_slurm": [group], "groups": []}))
    words = next(line for line in betimes("accuracy").out.split("\n") if "waited over" in line)
    for text in ("79% of 100", "7 min", "97", "4 h", "-8.7 h"):
        assert text in words


@pytest.mark.usefixtures("tell")
def test_there_may_be_none(betimes: Call) -> None:
    assert betimes("accuracy").out == "No promised job has finished in this time.\n"


def test_it_is_drawn(betimes: Call, tell: Tell, tmp_path: Path) -> None:
    one = JudgedPromise(
        job_id=1, user="ada", name="x", policy="fifo", basis="estimate", made_at=0.0, finish_at=100.0,
        finish_low_at=90.0, finish_median_at=105.0, finish_high_at=200.0, level=0.8, finished_at=110.0,
    )  # fmt: skip
    tell(accuracy=ACCURACY.model_copy(update={"promises": [one] * 20}))
    betimes("accuracy", "--plot", str(tmp_path / "a.svg"))
    assert tell.asked == [("accuracy", None, 0.0, None, True, None)]
    assert "Coverage, 20 promises" in (tmp_path / "a.svg").read_text()


@pytest.mark.usefixtures("tell")
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
def test_bad_input_is_refused(betimes: Call, words: list[str], error: str) -> None:
    failed = betimes("accuracy", *words)
    assert failed.code == 2
    assert error in failed.err
