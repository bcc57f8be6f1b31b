"""Options that take a duration."""

from __future__ import annotations

from betimes.errors import InputError


def parse_option(option: str, text: str, least_s: float = 0.0, most_s: float = 1e9) -> float:
    """An option's duration in seconds; raises InputError naming the option and its limits."""
    from betimes.units import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    if not least_s <= seconds <= most_s:
        raise InputError(f"{option} {text}: give a time from {least_s:g}s to {most_s:g}s")
    return seconds
