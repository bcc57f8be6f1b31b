"""A table that is redrawn periodically."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from betimes.cli.render.tables import Column, say, styled, table, width
from betimes.printing import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.live import Live


class Screen:
    """On a terminal the table stays in its place; elsewhere it is printed whenever its texts have changed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._live: Live | None = None
        self._printed: tuple[object, ...] | None = None

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(highlight=False, markup=False)
            self._live = self._stack.enter_context(
                Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def draw(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
        """Show the rows with the notes below."""
        from betimes.cli.render.times import clock, now

        heading = f"{clock(now(), now())}  {_counted(len(rows))}"
        if self._live is not None:
            from rich.text import Text

            shown = table(columns, rows, self._live.console.width).lines
            notices = [styled(printable(note), "yellow") for note in notes]
            self._live.update(
                Text.from_ansi("\n".join([styled(heading, "dim"), *shown, *notices])), refresh=True
            )
            return
        current = (tuple(map(tuple, rows)), tuple(notes))
        if current != self._printed:
            self._printed = current
            say(heading)
            if rows:
                print("\n".join(table(columns, rows, width()).lines))
            say(*notes, "")
            sys.stdout.flush()


def _counted(number: int) -> str:
    return f"{number:,} job{'' if number == 1 else 's'}"
