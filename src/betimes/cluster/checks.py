"""Checks of the fields of nodes, offers and clusters: each raises ClusterError, naming the field."""

from __future__ import annotations

from numbers import Integral, Number, Real
from pathlib import Path
from typing import cast

from betimes.errors import ClusterError
from betimes.text_file import read_text

MOST_CHARACTERS = 256
MOST_SECONDS = 1e9
MOST_USD_PER_H = 1e9


def check_amount(field: str, value: object, most: float, *, above: float | None = None) -> None:
    """A number from 0 to `most`, or, where `above` is given, one above that."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    # Not converted first: an int of any length compares with a float but need not fit one. NaN is in no range.
    if not number or not (0 if above is None else above) <= cast(float, value) <= most or value == above:
        wanted = f"from 0 to {most:.0f}" if above is None else f"above {above:g}, to {most:.0f}"
        raise ClusterError(f"field {field}: expected a number {wanted}, found {shown(value)}")


def check_whole(field: str, value: object, least: int, most: int, what: str = "") -> None:
    """A whole number from `least` to `most`, of `what`."""
    if not is_whole(value) or not least <= cast(int, value) <= most:
        raise ClusterError(
            f"field {field}: expected a whole number {f'of {what} ' if what else ''}from {least} to {most}, "
            f"found {shown(value)}"
        )


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def family_of(type_: str) -> str:
    """The default family of an instance type: the part before the dot, as in `p3.2xlarge`."""
    return type_.partition(".")[0].strip() or type_


def check_name(field: str, value: object) -> None:
    """A printable text of 1 to `MOST_CHARACTERS` characters without spaces around it."""
    text = isinstance(value, str) and value.isprintable() and value == value.strip()
    if not text or not 1 <= len(str(value)) <= MOST_CHARACTERS:
        raise ClusterError(
            f"field {field}: expected a printable name of 1 to {MOST_CHARACTERS} characters, "
            f"found {shown(value)}"
        )


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and short."""
    # Python refuses to write out an int of thousands of digits.
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of 19 digits or more"
    text = str(value) if isinstance(value, Number) else repr(value)  # not np.float64(0.5)
    return text if len(text) <= 50 else text[:46] + " ..."


def file_text(path: Path) -> str:
    """The text of a file, plain or gzipped; raises ClusterError naming file and line."""

    def failure(message: str, line: int | None) -> ClusterError:
        return ClusterError(f"{path}{f', line {line}' if line else ''}: {message}")

    return read_text(path, failure, "a list of nodes")
