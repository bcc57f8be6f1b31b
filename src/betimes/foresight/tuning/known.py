"""Values that are known already, by policy: kept in the user's cache directory, so that nothing is evaluated twice."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from betimes.errors import InputError
from betimes.foresight.objectives import Values
from betimes.foresight.tuning.problem import Problem
from betimes.kernels import cache_root

FOLDER = "tuning"


class Known:
    """The values of policies on one problem; in a file of lines that only grows, unless it is not `kept`.

    Searches of the same problem share it, whatever their seed and solver; a line that a crash left half written counts
    for nothing. Raises InputError where the file cannot be read or written.
    """

    def __init__(self, problem: Problem, kept: bool = True) -> None:
        self.path = cache_root() / FOLDER / f"{problem.key()}.jsonl" if kept else None
        self._objectives = len(problem.objectives)
        self._values: dict[str, Values | None] = {}
        if self.path is not None and self.path.exists():
            with _reported(self.path):
                lines = self.path.read_text(encoding="utf-8").splitlines()
            self._values.update(found for found in map(self._read, lines) if found is not None)

    def __contains__(self, policy: str) -> bool:
        return policy in self._values

    def __getitem__(self, policy: str) -> Values | None:
        return self._values[policy]

    def add(self, found: Iterable[tuple[str, Values | None]]) -> None:
        """Keep what policies came to."""
        new = {policy: values for policy, values in found if policy not in self._values}
        self._values.update(new)
        if self.path is not None and new:
            lines = (json.dumps({"policy": policy, "values": values}) for policy, values in new.items())
            with _reported(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    # The first newline closes a line that a crash may have left open.
                    file.write("\n" + "\n".join(lines) + "\n")

    def _read(self, line: str) -> tuple[str, Values | None] | None:
        try:
            found: Any = json.loads(line)
            policy, values = cast(str, found["policy"]), found["values"]
            numbers = None if values is None else tuple(float(value) for value in values)
        except (ValueError, KeyError, TypeError):
            return None
        return (policy, numbers) if numbers is None or len(numbers) == self._objectives else None


@contextmanager
def _reported(path: Path) -> Generator[None]:
    """What goes wrong with the file is told as what the user can set right."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: the cache of evaluations cannot be used ({error.strerror or error}); "
            "set BETIMES_CACHE_DIR to another folder, or search without it (--no-cache)"
        ) from error
