"""What becomes of rows that do not enter the workload: counted, or the end of reading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

from betimes.errors import TraceError

OnBadRows = Literal["fail", "skip"]


class Tally:
    """Counts the rows left out, by reason; a malformed one raises TraceError unless `on_bad_rows` is skip."""

    def __init__(self, path: Path, on_bad_rows: OnBadRows) -> None:
        self.path = path
        self.on_bad_rows = on_bad_rows
        self.skipped: Counter[str] = Counter()
        self.warnings: list[str] = []

    def malformed(self, line: int, field: str | None, reason: str, found: object = None) -> None:
        """Report a malformed row: `reason` says what was expected, `found` what stands there."""
        if self.on_bad_rows == "skip":
            self.skipped[f"{field}: {reason}" if field else reason] += 1
            return
        shown = "" if found is None else f", found {_short(found)}"
        message = f"{reason}{shown} (correct the line, or leave such rows out with --on-bad-rows skip)"
        raise TraceError(message, self.path, line, field)

    def left_out(self, reason: str, count: int) -> None:
        """Count well-formed rows that are no jobs to run (never started, no processors ...)."""
        if count:
            self.skipped[reason] += count

    def told(self) -> str:
        """All reasons with their counts, on one line."""
        return ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 50 else text[:46] + " ..."
