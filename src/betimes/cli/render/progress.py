"""Output on standard error: bars if it is a terminal, and notes once nothing can be refused any more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from betimes.printing import report

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Display:
    """Bars by name, and notes kept (each once) until `say_notes`.

    Bad input must leave one line on standard error, so nothing else is printed before a run has succeeded.
    """

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside, draw bars if standard error is a terminal; afterwards they are removed."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            Remaining(elapsed_when_finished=True),
        )
        progress = Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with progress:
            self._progress = progress
            try:
                yield
            finally:
                self._progress, self._bars = None, {}

    def expect(self, name: str, more: int | None) -> None:
        """Announce a bar of this name, or add `more` to its total; None: the total is unknown."""
        if self._progress is None:
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=more)
        elif more is not None:
            task = self._progress.tasks[self._progress.task_ids.index(self._bars[name])]
            self._progress.update(self._bars[name], total=(task.total or 0) + more)

    def advance(self, name: str, more: int) -> None:
        """Advance the bar by `more`."""
        if self._progress is not None and name in self._bars:
            self._progress.advance(self._bars[name], more)

    def at(self, name: str, label: str, done: int, total: int) -> None:
        """Draw the bar `name` so far, under another label."""
        if self._progress is not None:
            self.expect(name, None)
            self._progress.update(self._bars[name], description=label, completed=done, total=total)

    def finish(self, name: str) -> None:
        """Remove the finished bar."""
        if self._progress is not None and name in self._bars:
            self._progress.remove_task(self._bars.pop(name))

    def note(self, text: str) -> None:
        """Keep a note for `say_notes`."""
        self._notes[text] = None

    def say_notes(self) -> None:
        """Print the notes, a line each."""
        for text in self._notes:
            report("betimes: note", text)
        self._notes = {}
