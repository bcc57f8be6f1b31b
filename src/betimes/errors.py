"""The errors that Betimes raises.

::

    BetimesError                  anything Betimes raises on purpose            exit code 1
    +-- InputError                what a user gave is wrong                     exit code 2
    |   +-- TraceError            a trace file: names file, line and field
    |   +-- CurveError            a table of speed-up curves
    |   +-- PolicyError           an unknown policy, a bad parameter, a policy file that does not load
    |   +-- ClusterError          the machine asked for is impossible
    +-- PolicyViolation           a policy decided something the core must refuse
    +-- IllegalMove               a transition that the table of legal moves forbids

A message names the object, its state and the next step, on one line.
"""

from __future__ import annotations

from pathlib import Path


class BetimesError(Exception):
    """Anything that Betimes raises on purpose."""

    exit_code = 1


class InputError(BetimesError):
    """What a user gave is wrong; the message says where and what to do."""

    exit_code = 2


class TraceError(InputError):
    """A trace file cannot be read; the message names file, line and field where they are known."""

    def __init__(
        self, message: str, path: str | Path | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        where = [str(path)] if path is not None else []
        where += [f"line {line}"] if line is not None else []
        where += [f"field {field}"] if field is not None else []
        super().__init__(f"{', '.join(where)}: {message}" if where else message)
        self.path, self.line, self.field = path, line, field


class CurveError(TraceError):
    """A table of speed-up curves cannot be used."""


class PolicyError(InputError):
    """A policy is unknown, is given a bad parameter, or its file does not load."""


class ClusterError(InputError):
    """The machine that was asked for cannot exist or cannot hold the workload."""


class PolicyViolation(BetimesError):
    """A policy decided something that the core must refuse; names policy, job and time."""


class IllegalMove(BetimesError):
    """A transition was attempted that the table of legal moves forbids."""
