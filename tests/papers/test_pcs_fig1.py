"""Figure 1 of PCS comes out as printed, to the digit."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from betimes_papers import Row, reproduce


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return reproduce("pcs-fig1")


def ours(rows: list[Row], metric: str) -> dict[str, float]:
    return {row.case: row.ours for row in rows if row.metric == metric}


def test_mean_jct(rows: list[Row]):
    assert ours(rows, "jct_mean") == pytest.approx(
        {"srsf": 11.25, "themis": 13.5, "fifo": 15.75, "afs": 11.25, "max-min": 16.25, "wfq": 12.25}
    )


def test_mean_prediction_error(rows: list[Row]):
    assert ours(rows, "pred_err_mean") == pytest.approx(
        {
            "srsf": 45.625,
            "themis": 24 + 1 / 6,
            "fifo": 0.0,
            "afs": 45.625,
            "max-min": 43.28125,
            "wfq": 35 / 9,
        }
    )


def test_peak_unfairness_by_both_definitions(rows: list[Row]):
    by_run = ours(rows, "unfairness_fair_run_max")
    assert by_run["srsf"] == pytest.approx(100 * (27 / 24.5 - 1))
    assert by_run["themis"] == 0.0
    assert by_run["fifo"] == pytest.approx(500.0)
    averaged = ours(rows, "unfairness_max")
    assert averaged["srsf"] == pytest.approx(66.1538, abs=1e-4)
    assert averaged["themis"] == pytest.approx(9.2857, abs=1e-4)
    assert averaged["fifo"] == pytest.approx(592.3077, abs=1e-4)


def test_every_published_figure_is_met_to_its_last_digit(rows: list[Row]):
    published = [row for row in rows if row.published is not None]
    assert len(published) == 9 + 4 + 7 + 9
    for row in published:
        exact = row.metric == "jct_mean" or row.metric.startswith("promised_finish")
        assert row.ours == pytest.approx(row.published, abs=1e-9 if exact else 0.5), row


def test_pictures_and_rows_are_written_and_are_the_same_every_time(tmp_path: Path):
    told: list[tuple[str, int, int]] = []
    rows = reproduce("pcs-fig1", out=tmp_path / "a", progress=lambda *step: told.append(step))
    reproduce("pcs-fig1", out=tmp_path / "b")
    written = json.loads((tmp_path / "a" / "rows.json").read_text())
    assert written["name"] == "pcs-fig1"
    assert [set(row) for row in written["rows"]] == [
        {"case", "metric", "published", "ours", "unit", "note"}
    ] * len(rows)
    ET.parse(tmp_path / "a" / "pcs-fig1.svg")
    for name in ("rows.json", "pcs-fig1.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert told[0][1] == 0
    assert told[-1][1] == told[-1][2]
