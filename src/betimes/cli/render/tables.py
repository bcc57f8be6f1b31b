"""Tables of the live system: as wide as the terminal, uncut into a pipe, and safe to show whatever a name holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NARROWEST = 16  # that a flexible column may become before others leave
_UNCUT = 10_000  # characters
_FRAME, _GAP = 1, 2  # blanks that a table has at its edge, and with each column


@dataclass(frozen=True)
class Column:
    """A column; the one with the highest `rank` leaves first where the terminal is narrow, those with 0 never.

    `heading` may have several lines. `flexible`: its texts are cut with an ellipsis to what room there is. `style`: of
    a text, in Rich's words.
    """

    heading: str
    rank: int = 0
    right: bool = False
    flexible: bool = False
    style: Callable[[str], str] = lambda _: ""


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int | None,
    sections: Collection[int] = (),
) -> Table:
    """A table at most `width` characters wide where that can be; None: nothing is cut.

    Columns without any text are left out. `sections`: rows behind which a line is drawn.
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
    """`free` characters among columns: what one does not need is the others'."""
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
) -> int:
    """Print a table on standard output; returns how many columns with a text in them found no room.

    wide: nothing is cut, however narrow the terminal is.
    """
    screen = console()
    width = None if wide or _is_uncut() else screen.width
    if wide:
        screen.width = _UNCUT
    made = table(columns, rows, width, sections)
    with screen.capture() as capture:
        screen.print(made)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    _write(lines)
    return len(table(columns, rows, None).columns) - len(made.columns)


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and what they are, a line each, the texts below each other; long ones go on below themselves."""
    from rich.text import Text

    screen = console()
    indent = max((len(name) for name, _ in pairs), default=0) + 4
    for name, value in pairs:
        text = printable(value)
        lines = [text]
        if not _is_uncut() and screen.width - indent >= _NARROWEST:
            lines = [line.plain.rstrip() for line in Text(text).wrap(screen, screen.width - indent)]
        for number, line in enumerate(lines or [""]):
            say(f"  {name if number == 0 else '':<{indent - 4}}  {line}".rstrip())


def say(*lines: str) -> None:
    """Print lines; nothing in them commands the terminal."""
    _write([printable(line) for line in lines])


def console() -> Console:
    """Where tables are printed: as wide as the terminal; into a pipe or a file so wide that nothing is cut."""
    from rich.console import Console

    found = Console(highlight=False, markup=False)
    if _is_uncut():
        found.width = _UNCUT
    return found


def printable(text: str) -> str:
    """A text with control characters as escapes: another user's job name must not command the terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _write(lines: Sequence[str]) -> None:
    """Print lines, with what the output's encoding lacks written as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        text = line if encoding.lower().startswith("utf") else line.replace("…", "...")
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def _table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    room: Sequence[int | None],
    sections: Collection[int],
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, most in zip(columns, room, strict=True):
        shown.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=max(1, most) if most is not None else None,
        )
    for number, row in enumerate(rows):
        cells = (Text(cell, column.style(cell)) for cell, column in zip(row, columns, strict=True))
        shown.add_row(*cells, end_section=number in sections)
    return shown


def _heading(column: Column) -> int:
    """Characters of the longest of its lines."""
    return max(map(len, column.heading.split("\n")))


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _is_uncut() -> bool:
    return not sys.stdout.isatty() and "COLUMNS" not in os.environ
