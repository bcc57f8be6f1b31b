"""`betimes submit --by` and `betimes quote --by`: how probable it is that a job is done in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from betimes.service.views.models import Quote, QuoteOption
from tests.cli.conftest import Call, Tell
from tests.cli.live.test_submit import sent, tell_promise
from tests.cli.views import NOW, quote

HOUR_S = 3600.0
ENDS = {
    "finish_low_at": NOW + HOUR_S,
    "finish_median_at": NOW + 2 * HOUR_S,
    "finish_high_at": NOW + 4 * HOUR_S,
}
SetNow = Callable[[str, str], None]


@pytest.fixture
def set_now(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> SetNow:
    """Set the time and the zone of this machine."""

    def set_it(instant: str, zone: str) -> None:
        at = datetime.fromisoformat(instant).timestamp()
        tell_promise(tell, quote(made_at=at, finish_at=at + HOUR_S))
        monkeypatch.setattr("betimes.cli.render.times.now", lambda service_s=None: max(at, service_s or 0.0))
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    return set_it


def by(betimes: Call, text: str) -> str:
    """The instant that is meant, in UTC."""
    by_at = betimes("quote", "--by", text, "--json", "--", "x").json()["by"]["by_at"]
    return datetime.fromtimestamp(by_at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("18:00", "2026-11-26T17:00:00"),
        ("9:00", "2026-11-27T08:00:00"),  # has passed today
        ("14:00", "2026-11-27T13:00:00"),  # is now
        ("tomorrow 18:00", "2026-11-27T17:00:00"),
        ("today 23:59:30", "2026-11-26T22:59:30"),
        ("+90m", "2026-11-26T14:30:00"),
        ("2026-11-27T18:00+05:00", "2026-11-27T13:00:00"),
        ("2026-11-27T18:00Z", "2026-11-27T18:00:00"),
        ("2026-11-27 18:00", "2026-11-27T17:00:00"),
    ],
)
def test_times_are_of_this_machine_and_to_come(betimes: Call, set_now: SetNow, text: str, meant: str) -> None:
    set_now("2026-11-26T13:00:00Z", "Europe/Berlin")
    assert by(betimes, text) == meant


@pytest.mark.parametrize(
    ("now", "text", "words"),
    [
        ("2026-11-26T13:00:00Z", "2026-11-26T12:59Z", ["has passed"]),
        ("2026-11-26T13:00:00Z", "today 9:00", ["has passed"]),
        ("2026-11-26T13:00:00Z", "+0s", ["later"]),
        ("2026-11-26T13:00:00Z", "soon", ["'soon'", "18:00", "+3h", "2026-11-27T18:00+01:00"]),
        ("2026-11-26T13:00:00Z", "25:00", ["18:00"]),
        ("2026-11-26T13:00:00Z", "2026-11-27", ["18:00"]),
        ("2026-11-26T13:00:00Z", "+", ["18:00"]),
        ("2026-10-24T13:00:00Z", "tomorrow 2:30", ["twice", "02:30:00+02:00", "02:30:00+01:00"]),
        ("2027-03-27T13:00:00Z", "2027-03-28T02:30", ["left out", "01:30:00+01:00", "03:30:00+02:00"]),
    ],
)
def test_a_time_that_is_past_or_not_clear_submits_nothing(
    betimes: Call, tell: Tell, set_now: SetNow, now: str, text: str, words: list[str]
) -> None:
    set_now(now, "Europe/Berlin")
    for verb in ("submit", "quote"):
        said = betimes(verb, "--by", text, "--", "x")
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("betimes: --by ")
        assert said.err.count("\n") == 1
        assert all(word in said.err for word in words), said.err
    assert tell.asked == []


def test_the_zone_tells_the_two_times_of_a_night_apart(betimes: Call, set_now: SetNow) -> None:
    set_now("2026-10-24T13:00:00Z", "Europe/Berlin")
    assert by(betimes, "2026-10-25T02:30+01:00") == "2026-10-25T01:30:00"


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--by", "+1h", "--probability", "1"], "--probability 1: "),
        (["--by", "+1h", "--probability", "0"], "--probability 0: "),
        (["--probability", "0.5"], "--by 18:00"),
    ],
)
def test_a_probability_is_between_0_and_1_and_of_a_deadline(
    betimes: Call, words: list[str], text: str
) -> None:
    said = betimes("submit", *words, "--", "x")
    assert said.code == 2
    assert text in said.err


@pytest.mark.usefixtures("nowhere")
def test_several_jobs_have_no_one_deadline(betimes: Call, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("x\n")
    said = betimes("submit", "--by", "+1h", "--each-line", lines)
    assert said.code == 2
    assert "one job" in said.err


def probability(betimes: Call, in_h: float) -> float:
    return betimes("quote", "--by", f"+{in_h * HOUR_S:.3f}", "--json", "--", "x").json()["by"]["probability"]


def test_the_interval_gives_the_probability(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote(finish_at=NOW + HOUR_S, level=0.8, **ENDS))
    assert probability(betimes, 1.0) == pytest.approx(0.1)
    assert probability(betimes, 2.0) == pytest.approx(0.5)
    assert probability(betimes, 4.0) == pytest.approx(0.9)
    # Halfway in logarithms between median and high.
    half = NormalDist().cdf(NormalDist().inv_cdf(0.9) / 2)
    assert probability(betimes, 8.0**0.5) == pytest.approx(half, abs=1e-4)
    found = [probability(betimes, hours) for hours in (0.01, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 1000.0)]
    assert found == sorted(found)
    assert 0.0 < found[0] < 0.01
    # Beyond the interval a normal distribution would be surer.
    assert 0.9 < found[-2] < NormalDist().cdf(2 * NormalDist().inv_cdf(0.9))
    assert found[-1] < 1.0


def test_a_promise_that_is_sure_to_the_second_is_kept_or_not(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote(level=0.8, **dict.fromkeys(ENDS, NOW + HOUR_S)))
    assert (probability(betimes, 0.9), probability(betimes, 1.1)) == (0.0, 1.0)
    assert "with a probability of more than 99%" in betimes("quote", "--by", "+2h", "--", "x").out
    assert "with a probability of less than 1%" in betimes("quote", "--by", "+30m", "--", "x").out


def test_a_mere_point_is_said_to_be_one(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote())
    text = betimes("submit", "--by", "10:00", "--", "x").out
    assert "by 10:00  expected before that; how probably is not known: few jobs like this one yet" in text
    text = betimes("quote", "--by", "09:00", "--", "x").out
    assert "by 09:00  expected after that" in text
    tell_promise(tell, quote(finish_at=None))
    assert "by 09:00  not known" in betimes("quote", "--by", "09:00", "--", "x").out


def option(what: str, hours: float, cost_usd: float | None, **fields: Any) -> QuoteOption:
    scaled = {name: NOW + hours * (at - NOW) for name, at in ENDS.items()}
    ends = {"start_at": NOW, "finish_at": NOW + hours * HOUR_S, "cost_usd": cost_usd}
    return QuoteOption(what=what, **{**ends, **scaled, **fields})  # type: ignore[arg-type]


@pytest.fixture
def renting(tell: Tell) -> Tell:
    """One where a job waits for hours, or has a machine rented."""
    options = [
        option("wait", 2.0, 0.5, is_taken=True, why="as the policy decides (x)"),
        option("rent now", 1.0, 2.0),
    ]
    wait = {name: getattr(options[0], name) for name in ENDS}
    tell_promise(tell, quote(finish_at=options[0].finish_at, level=0.8, options=options, **wait))
    return tell


@pytest.mark.parametrize(
    ("words", "plan", "rent"),
    [
        (["--by", "+9h"], "wait", "never"),  # both reach it, and waiting is cheaper
        (["--by", "+5h"], "rent now", "now"),
        (["--by", "+5h", "--probability", "0.5"], "wait", "never"),
        (["--by", "+2h"], None, "auto"),
    ],
)
def test_the_cheapest_plan_that_reaches_the_probability_is_taken(
    betimes: Call, renting: Tell, words: list[str], plan: str | None, rent: str
) -> None:
    said = betimes("submit", *words, "--rent", "auto", "--json", "--", "x").json()["by"]
    assert said["plan"] == plan
    assert [one["what"] for one in said["options"]] == ["wait", "rent now"]
    assert sent(renting).rent == rent


def test_without_rent_auto_a_plan_is_only_named(betimes: Call, renting: Tell) -> None:
    promise = betimes("quote", "--json", "--", "x").json()
    said = betimes("submit", "--by", "+5h", "--", "x")
    assert "  by 13:00  done with a probability of 66%\n" in said.out
    assert "  plans     wait: 66%, $0.5; rent now: 95%, $2.00\n" in said.out
    assert "rent now, the cheapest that reaches 90%; `betimes submit --rent auto` takes it" in said.out
    assert sent(renting).rent == "auto"
    said = betimes("submit", "--by", "+5h", "--rent", "auto", "--", "x")
    assert said.out.endswith("  plan      rent now, the cheapest that reaches 90%\n")
    said = betimes("quote", "--by", "+2h", "--", "x")
    assert said.out.endswith("  plan      none reaches 90%\n")
    few = [{**one, **dict.fromkeys(ENDS)} for one in promise["options"]]
    unsure = {**promise, **dict.fromkeys(ENDS), "level": None, "options": few}
    tell_promise(renting, Quote.model_validate(unsure))
    said = betimes("quote", "--by", "+2h", "--", "x")
    assert said.out.endswith("how probably is not known: few jobs like this one yet\n")


def test_a_replayed_trace_has_no_dates(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote(made_at=500.0, start_at=500.0, finish_at=600.0))
    said = betimes("submit", "--by", "18:00", "--", "x")
    assert said.code == 2
    assert "write --by +3h" in said.err
    assert betimes("submit", "--by", "+3h", "--json", "--", "x").json()["by"]["by_at"] == 500.0 + 3 * HOUR_S


@pytest.mark.parametrize("verb", ["quote", "submit"])
def test_a_promise_for_a_part_of_an_array_says_nothing_of_all_of_it(
    betimes: Call, tell: Tell, verb: str
) -> None:
    tell_promise(tell, quote(finish_at=NOW + HOUR_S, level=0.8, elements=1, **ENDS))
    said = betimes(verb, "--array", "1-9", "--by", "+5h", "--", "x")
    assert "not known: the promise is not for all elements of the array\n" in said.out
