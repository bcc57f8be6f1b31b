"""Tables: what they say, how wide they are, and that a pipe gets all of it in plain text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.outcome import Result, over_seeds, result_table, show, summarise
from tests.outcome.cases import columns, four_jobs, random_results, result

POLICIES = ("fifo", "srsf", "themis")


def shown(summaries: list[dict[str, Any]], width: int | None = None, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    show(summaries, file, width)
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="four")
def _four() -> list[dict[str, Any]]:
    return [summarise(four_jobs(policy)) for policy in POLICIES]


def rows(text: str) -> dict[str, list[str]]:
    """The words of every line, by its first word."""
    return {words[0]: words[1:] for line in text.splitlines() if (words := line.split())}


def test_a_comparison_marks_the_best(four: list[dict[str, Any]]) -> None:
    found = rows(shown(four))
    # jobs, JCT mean, over best; then the figures of all columns in their order
    assert found["fifo"][:4] == ["4", "27", "15.8", "1.40"]
    assert found["srsf"][:4] == ["4", "27", "11.2*", "1.00*"]
    assert found["themis"][:4] == ["4", "27", "13.5", "1.20"]
    assert "592.3" not in shown(four)  # the peak is not among the figures; the mean is
    assert "148.08" in shown(four)
    assert "500.0 %" in shown(four)


def test_what_all_share_is_nobodys_best(four: list[dict[str, Any]]) -> None:
    same = [{**four[0], "policy": name} for name in ("a", "b")]
    assert "*" not in "".join(rows(shown(same))["a"])


def test_equal_bests_share_the_mark() -> None:
    figures = [("a", 2.0), ("b", 2.0000001), ("c", 3.0)]
    found = rows(shown([{"policy": name, "slowdown_mean": value} for name, value in figures]))
    assert [found[name] for name, _ in figures] == [["2.00*"], ["2.00*"], ["3.00"]]


def test_high_utilisation_is_good() -> None:
    found = rows(shown([{"policy": n, "utilisation_frac": u} for n, u in (("a", 0.5), ("b", 0.75))]))
    assert (found["a"], found["b"]) == (["50", "%"], ["75", "%*"])


def test_one_unit_a_column() -> None:
    jct_s = {"a": 300.0, "b": 600_000.0}
    text = shown([{"policy": name, "jct_mean_s": value} for name, value in jct_s.items()])
    assert "mean (min)" in text
    assert (rows(text)["a"][0], rows(text)["b"][0]) == ("5*", "10,000")


def test_a_pipe_gets_everything_in_plain_text(four: list[dict[str, Any]]) -> None:
    policy = "wfq:thresholds=1627+969473,weights=19/20+12/250+1/500,zeta_min=0.598,delta=0.235"
    text = shown([*four, {**four[0], "policy": policy}])
    assert "\x1b" not in text
    assert "…" not in text
    assert "left out" not in text
    assert f"wfq = {policy}\n" in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert max(map(len, text.splitlines())) > 80


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 132, 200])
def test_a_comparison_fits_its_terminal(four: list[dict[str, Any]], width: int) -> None:
    text = shown(four, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for words in ("JCT", "mean", "fifo", "srsf", "themis"):
        assert words in text


def test_columns_that_leave_are_counted(four: list[dict[str, Any]]) -> None:
    file = io.StringIO()
    left_out = show(four, file, 80)
    assert left_out > 0
    assert show(four, file, 80, wide=True) == 0
    wide = file.getvalue().splitlines()
    assert max(map(len, wide)) > 80


def test_a_narrow_terminal_gets_a_list(four: list[dict[str, Any]]) -> None:
    text = shown(four, 40)
    assert text.index("fifo") < text.index("srsf") < text.index("themis")
    assert "Prediction error mean" in text
    assert text.count("JCT mean") == 3


def test_one_result_is_a_list_of_figures(four: list[dict[str, Any]]) -> None:
    lines = shown(four[2:]).splitlines()
    assert lines[0] == "themis"
    figures = {line[:24].strip(): line[24:].strip() for line in lines[1:]}
    assert figures["JCT mean"] == "13.5 s"
    assert figures["Prediction error mean"] == "24.2 %"
    assert figures["Event loop"] == "500 ms"
    assert "Unfinished" not in figures
    assert "Cost" not in figures


def test_trouble_is_shown_when_there_is_some() -> None:
    text = shown([summarise(result(columns(2, finish_s=[1.0, float("nan")], state=[0, 1])))])
    assert rows(text)["Unfinished"] == ["1"]


def test_intervals_show_their_half_width() -> None:
    runs = [summarise(result(columns(1, finish_s=[finish]))) for finish in (20.0, 40.0)]
    both = [over_seeds(runs), {**over_seeds(runs[:1]), "policy": "srsf"}]
    assert "30.0 ± 127.1" in shown(both)
    assert rows(shown(both))["srsf"][2] == "20.0*"
    assert "30.0 +/- 127.1" in shown(both, encoding="ascii")


def test_a_missing_figure_is_a_dash() -> None:
    found = rows(
        shown([{"policy": "a", "jct_mean_s": None, "slowdown_mean": 1.5}, {"policy": "b", "jct_mean_s": 3.0}])
    )
    assert (found["a"], found["b"]) == (["-", "1.50"], ["3", "-"])


def test_brackets_in_a_name_are_no_markup(four: list[dict[str, Any]]) -> None:
    named = [{**four[0], "policy": "[red]a"}, {**four[1], "policy": "b"}]
    assert "[red]a" in shown(named)
    assert "[red]a" in shown(named[:1])


def test_a_table_can_be_printed_by_itself(four: list[dict[str, Any]]) -> None:
    assert result_table(four[0]).row_count > 10


@settings(max_examples=15)
@given(st.lists(random_results(), min_size=1, max_size=4), st.integers(40, 220))
def test_any_results_can_be_shown(results: list[Result], width: int) -> None:
    text = shown([summarise(one) for one in results], width)
    assert text.strip()
    assert "nan" not in text
