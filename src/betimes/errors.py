"""The errors that Betimes raises.

::

    BetimesError                  anything Betimes raises on purpose            exit code 1
    +-- InputError                what a user gave is wrong                     exit code 2
    |   +-- TraceError            a trace file: names file, line and field
    |   +-- CurveError            a table of speed-up curves
    |   +-- PolicyError           an unknown policy, a bad parameter, a policy file that does not load
    |   +-- ClusterError          the machine asked for is impossible
    |   +-- JobFileError          a file of jobs: names file, line, job and field
    |   +-- FieldError            names the field at fault
    |   |   +-- Refused           a job that cannot be taken: names the limit
    |   |   +-- Unknown           there is no such job, node or run
    |   +-- Conflict              what is asked does not go with the state of things
    |   +-- NotAllowed            no token, or one that does not allow it
    +-- PolicyViolation           a policy decided something the core must refuse
    +-- IllegalMove               a transition that the table of legal moves forbids
    +-- SlurmError                a command of Slurm is missing, fails, or does not answer
    +-- ServiceError              the live service cannot do what it should
        +-- Unavailable           not now: it is starting, stopping, or its store cannot be written
        |   +-- TooMany           more requests than a token may make in this time
        +-- NotReachable          no service answers
        +-- CloudError            a cloud does not answer as it should
        +-- StoreError            the database: names it and says what to do
            +-- StoreInUse        another service has it
            +-- StoreFull         the disk is full
            +-- StoreLocked       another process keeps it locked
            +-- StoreTooNew       a later version has written it
            +-- StoreReadOnly     it may be read, not written
            +-- StoreDamaged      what is in it cannot be read
            +-- StoreUnreachable  the connection to its server is lost, or cannot be made
            +-- StoreArchived     the events asked for are in a file
            +-- StoreRefused      what was to be written cannot be kept

A message names the object, its state and the next step, on one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def did_you_mean(given: str, known: Iterable[str], most: int = 1) -> str:
    """`" (did you mean 'x'?)"` for the nearest of the known names, at most so many; empty where none is near."""
    near = nearest(given, known, most)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def nearest(given: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are nearest to the one given, in whatever case, the nearest first."""
    import difflib

    names = {name.lower(): name for name in known}
    return [names[name] for name in difflib.get_close_matches(given.lower(), names, n=most)]


class BetimesError(Exception):
    """Anything that Betimes raises on purpose."""

    exit_code = 1


class InputError(BetimesError):
    """An input of the user is wrong; the message says where and what to do."""

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


class SlurmError(BetimesError):
    """A command of an existing Slurm is missing, fails, or does not answer."""


class JobFileError(InputError):
    """A file of jobs cannot be used; the message names file, line, job and field where they are known."""

    def __init__(
        self,
        message: str,
        path: str | Path,
        line: int | None = None,
        job: str | None = None,
        field: str | None = None,
    ) -> None:
        where = [str(path)]
        where += [f"line {line}"] if line is not None else []
        where += [job] if job else []
        where += [f"field {field}"] if field else []
        super().__init__(f"{', '.join(where)}: {message}")
        self.path, self.line, self.field = path, line, field


class FieldError(InputError):
    """An input of which a field may be at fault, `field`, which the message then begins with."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field

    def among(self, count: int, place: int) -> FieldError:
        """The same of one job of `count` that were sent together; of several it names the place: `jobs[3].cpu`."""
        if count == 1:
            return self
        field = f"jobs[{place}]" if self.field is None else f"jobs[{place}].{self.field}"
        return type(self)(str(self).removeprefix(f"{self.field}: "), field)


class Refused(FieldError):
    """A job that cannot be taken; the message names the limit."""


class Unknown(FieldError):
    """There is no such job, node or run."""


class Conflict(InputError):
    """A request does not go with the present state; the message names the state and the next step."""


class NotAllowed(InputError):
    """There is no token, or it does not allow what is asked."""


class ServiceError(BetimesError):
    """The live service cannot do what it should."""


class Unavailable(ServiceError):
    """Not now: the service is starting, stopping, or cannot write its store."""


class TooMany(Unavailable):
    """A token has made too many requests; nothing was done, and the next may be made after `retry_s`."""

    def __init__(self, message: str, retry_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class NotReachable(ServiceError):
    """No service answers at the address."""


class CloudError(ServiceError):
    """A cloud does not answer as it should; as far as it says, nothing has changed."""


class StoreError(ServiceError):
    """The database cannot be used; the message names it and says what to do."""


class StoreInUse(StoreError):
    """Another service has the database."""


class StoreFull(StoreError):
    """There is no room to write."""


class StoreLocked(StoreError):
    """Another process keeps the database locked."""


class StoreTooNew(StoreError):
    """A later version of Betimes has written the database."""


class StoreReadOnly(StoreError):
    """The database may be read, but not written."""


class StoreDamaged(StoreError):
    """The database cannot be read, or is not one of Betimes."""


class StoreUnreachable(StoreError):
    """The connection to the database's server is lost or cannot be made; committing the same again is safe."""


class StoreArchived(StoreError):
    """The events that were asked for have been moved to a file, up to event `upto`."""

    def __init__(self, message: str, upto: int) -> None:
        super().__init__(message)
        self.upto = upto


class StoreRefused(StoreError):
    """Data cannot be stored as they are: trying again does not help."""
