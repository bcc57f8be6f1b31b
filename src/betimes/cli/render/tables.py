"""Tables of the live system: as wide as the terminal, uncut into a pipe, and safe for any text."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from betimes.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_NARROWEST = 16  # least width of a flexible column before others leave
_FRAME, _GAP = 1, 2  # blanks at the edge of a table, and with each column
ALL = "-o wide shows all"
_USUAL_WIDTH = 80  # of a terminal of unknown width
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Column(NamedTuple):
    """A column; in a narrow terminal the one with the highest `rank` leaves first, those with 0 never.

    `heading` may have several lines. `flexible`: its texts are cut with an ellipsis to the available room. `style`: the
    style of a text, as in `_STYLES`; empty: none.
    """

    heading: str
    rank: int = 0
    right: bool = False
    flexible: bool = False
    style: Callable[[str], str] = lambda _: ""


class Table(NamedTuple):
    """A printable table, and its columns that found room."""

    lines: list[str]
    columns: list[Column]


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int | None,
    sections: Collection[int] = (),
) -> Table:
    """A table at most `width` characters wide, if possible; None: nothing is cut.

    Columns without any text are left out. `sections`: rows with a rule behind them.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    kept = [n for n, column in enumerate(columns) if not rows or column.rank == 0 or any(r[n] for r in rows)]
    wide = {n: max([_heading(columns[n]), *(_cells(row[n]) for row in rows)]) for n in kept}
    room: dict[int, int] = {}
    while width is not None:
        flexible = [n for n in kept if columns[n].flexible]
        free = width - _FRAME - sum(wide[n] for n in kept if n not in flexible) - _GAP * len(kept)
        room = _shared(free, flexible, wide)
        fits = free >= 0 and all(room[n] >= min(wide[n], _NARROWEST) for n in flexible)
        optional = [n for n in kept if columns[n].rank]
        if fits or not optional:
            break
        kept.remove(max(optional, key=lambda n: columns[n].rank))
    return _table(
        [columns[n] for n in kept],
        [[row[n] for n in kept] for row in rows],
        [room.get(n) for n in kept],
        sections,
    )


def _shared(free: int, columns: Sequence[int], wide: dict[int, int]) -> dict[int, int]:
    """Divide `free` characters among columns; width that one does not need goes to the others."""
    room: dict[int, int] = {}
    for done, n in enumerate(sorted(columns, key=lambda n: wide[n])):
        room[n] = min(wide[n], (free - sum(room.values())) // (len(columns) - done))
    return room


def show(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    wide: bool = False,
    sections: Collection[int] = (),
    rest: str = ALL,
) -> None:
    """Print a table on standard output; if it has no room for all columns, a note follows.

    wide: nothing is cut, however narrow the terminal is. rest: how the note names the others.
    """
    room = None if wide else width()
    made = table(columns, rows, room, sections)
    _write(made.lines)
    if room is not None:
        say_left_out(len(table(columns, rows, None).columns) - len(made.columns), rest)


def say_left_out(columns: int, rest: str = ALL) -> None:
    """Tell the user how many columns were left out of a table, if any, and how to see them."""
    if columns:
        say(f"{columns} more column{'s are' if columns > 1 else ' is'} left out; {rest}.")


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, a line each, with the values aligned; long values are wrapped."""
    indent = max((len(name) for name, _ in pairs), default=0) + 4
    wide = width()
    room = 0 if wide is None else wide - indent
    for name, value in pairs:
        text = printable(value)
        lines = [text] if room < _NARROWEST else wrapped(text, room)
        for number, line in enumerate(lines):
            say(f"  {name if number == 0 else '':<{indent - 4}}  {line}".rstrip())


def wrapped(text: str, room: int) -> list[str]:
    """A text in lines of at most `room` characters, broken at blanks, and inside longer words."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if _cells(longer) <= room:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for each in word:
            if _cells(lines[-1] + each) > room:
                lines.append("")
            lines[-1] += each
    return lines


def width() -> int | None:
    """The terminal's width in characters; None: no limit, in a pipe or a file."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        return int(given)
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_WIDTH
    except OSError:
        return _USUAL_WIDTH


def say(*lines: str) -> None:
    """Print lines, with control characters escaped."""
    _write([printable(line) for line in lines])


def _write(lines: Sequence[str]) -> None:
    """Print lines; characters that the output's encoding lacks are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        text = line if encoding.lower().startswith("utf") else line.replace("…", "...").replace("─", "-")
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def _table(
    columns: list[Column],
    rows: Sequence[Sequence[str]],
    room: Sequence[int | None],
    sections: Collection[int],
) -> Table:
    headings = [column.heading.split("\n") for column in columns]
    height = max(map(len, headings), default=0)
    # Headings are aligned at the bottom, above the rule.
    padded = [[""] * (height - len(heading)) + heading for heading in headings]
    above = [[heading[n] for heading in padded] for n in range(height)]
    rows = [
        [cell if most is None else _cut(cell, max(1, most)) for cell, most in zip(row, room, strict=True)]
        for row in rows
    ]
    wide = [max(map(_cells, cells)) for cells in zip(*above, *rows, strict=True)]
    lines = [_line(row, columns, wide, lambda _: "bold") for row in above]
    lines.append(" " + "─" * (sum(wide) + _GAP * len(wide) - 1))
    for number, row in enumerate(rows):
        lines.append(_line(row, columns, wide))
        if number in sections:
            lines.append("")
    return Table(lines, columns)


def _line(
    cells: Sequence[str],
    columns: Sequence[Column],
    wide: Sequence[int],
    style: Callable[[str], str] | None = None,
) -> str:
    parts: list[str] = []
    for cell, column, size in zip(cells, columns, wide, strict=True):
        blanks = " " * (size - _cells(cell))
        text = styled(cell, (style or column.style)(cell))
        parts.append(f"{blanks}{text}" if column.right else f"{text}{blanks}")
    return (" " * _FRAME + (" " * _GAP).join(parts)).rstrip()


def styled(text: str, style: str) -> str:
    """A text in a colour, if standard output is a terminal with colours."""
    if not style or os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "dumb"):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if sys.stdout.isatty() else text


def _cut(text: str, room: int) -> str:
    """A text in at most `room` characters, with an ellipsis if it is cut."""
    if _cells(text) <= room:
        return text
    while text and _cells(text) > room - 1:
        text = text[:-1]
    return text + "…"


def _heading(column: Column) -> int:
    """Width of the heading's longest line, in characters."""
    return max(map(len, column.heading.split("\n")))


def _cells(text: str) -> int:
    """Width of a text on the terminal, in character cells."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )
