"""Durations, amounts of memory and widths as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.spec.spelling import parse_units
from betimes.units import parse_duration, parse_gib


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("45", 45.0), ("0", 0.0), ("1.5", 1.5), ("90s", 90.0), ("2h", 7200.0), ("1h30m", 5400.0)),
        *(
            ("1.5h", 5400.0),
            ("10min", 600.0),
            ("2d", 172_800.0),
            ("1d2h3m4s", 93_784.0),
            (" 1H 30M ", 5400.0),
        ),
        *(("1-12:00:00", 129_600.0), ("12:00:00", 43_200.0), ("0:00:05", 5.0), ("100:30:00", 361_800.0)),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "soon", "-5", "-1h", "1:30", "1h90", "30m1h", "1h1h", "12:60:00", "nan", "inf", "1e3"),
        *("1,5h", "h", "1 y", "9" * 400, "1" * 13, "\N{ARABIC-INDIC DIGIT THREE}h"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration; write seconds, or a duration such as 90s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        *(("4", 4.0), ("4GiB", 4.0), ("512MiB", 0.5), ("1.5TiB", 1536.0), ("1048576KiB", 1.0), ("4G", 4.0)),
        *(("4Gi", 4.0), ("512m", 0.5), (" 2 gib ", 2.0), ("0", 0.0)),
    ],
)
def test_amounts(text: str, gib: float) -> None:
    assert parse_gib(text) == gib


@pytest.mark.parametrize(
    "text", ["", "lots", "-4", "nan", "inf", "1e3", "4iB", "4PiB", "GiB", "4,5", "9" * 13]
)
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount of memory; write GiB, or an amount such as 512MiB"):
        parse_gib(text)


def test_an_amount_must_say_which_kilo() -> None:
    with pytest.raises(ValueError, match="'4GB' does not say whether kilo is 1000 or 1024"):
        parse_gib("4GB")


def test_widths() -> None:
    assert [parse_units(text) for text in ("4", "1-8", " 2-2 ")] == [(4, 4), (1, 8), (2, 2)]
    for text in ("", "few", "-1", "1-", "1-2-3", "1.5", "9" * 10):
        with pytest.raises(ValueError, match="no number of units; write 4, or 1-8"):
            parse_units(text)
    with pytest.raises(ValueError, match="at least 8 is more than at most 4; write 4-8"):
        parse_units("8-4")
    for text in ("0", "0-2", "1-0"):
        with pytest.raises(ValueError, match="needs at least 1 unit; write 1-4, or 1, or leave it out"):
            parse_units(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_duration, parse_gib, parse_units):
        try:
            found = read(text)
        except ValueError:
            continue
        assert all(number >= 0 for number in (found if isinstance(found, tuple) else (found,)))
