"""The back end `command`: three scripts, each with a JSON object as its standard input, which print one within a limit.

They run beside the service, which looks every now and then whether they have ended. The machines are processes here,
or machines elsewhere that join the service's Ray cluster.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ValidationError, model_validator

from betimes.errors import CloudError, InputError
from betimes.service.executors.ray.connection import MACHINE, SERVICE
from betimes.service.executors.ray.joining import RentedNodes
from betimes.service.executors.rented.remote_cloud import Listed, Listing, Released, Rented
from betimes.service.machines.machine import Kind, Machine
from betimes.service.spec.spec_errors import first_fault

NAMES = ("rent", "release", "list")
LIMITS_S = {"rent": 300.0, "release": 60.0, "list": 60.0}
MOST_BYTES = 4 << 20  # of what a script prints
_M = TypeVar("_M", bound=BaseModel)


class _ListedHere(Listed):
    @model_validator(mode="after")
    def _runs_jobs(self) -> Self:
        if self.state == "up" and self.pid is None:
            raise ValueError("a machine that is up needs a pid")
        return self


class ListingHere(Listing):
    """The answer of `list`: machines whose jobs run on this one."""

    machines: list[_ListedHere]  # type: ignore[assignment]


class _ListedElsewhere(Listed):
    @model_validator(mode="after")
    def _is_elsewhere(self) -> Self:
        if self.pid is not None:
            raise ValueError("a machine that joins the cluster of --ray has no pid here; leave it out")
        return self


class ListingElsewhere(Listing):
    """The answer of `list`: machines that join the service's Ray cluster, where their jobs run."""

    machines: list[_ListedElsewhere]  # type: ignore[assignment]


def check_scripts(folder: Path) -> None:
    """Raise InputError unless all three scripts are in the folder and can be executed."""
    for name in NAMES:
        script = folder / name
        if not script.is_file():
            raise InputError(f"--fleet command:{folder}: there is no {name}; it needs rent, release and list")
        if not os.access(script, os.X_OK):
            raise InputError(f"--fleet command:{folder}: {name} cannot be executed (chmod +x {script})")


class Scripts:
    """A `Backend` of a folder's scripts. Raises InputError unless all three are there and can be executed.

    nodes: of the Ray cluster, which machines join; null: they are processes of this machine.
    """

    name = "command"

    def __init__(self, folder: Path, nodes: RentedNodes | None = None) -> None:
        check_scripts(folder)
        self._folder, self._nodes = folder, nodes
        self.kind: Kind = "rented" if nodes is None else "cloud"

    def rent(self, service: str, machine: Machine) -> ScriptCall[Rented]:
        """Call `rent`."""
        described: dict[str, Any] = {
            "name": machine.name,
            "type": machine.type,
            "cpu": machine.cpu,
            "memory_gib": machine.memory_gib,
            "gpu": machine.gpu,
            "labels": dict(machine.labels),
        }
        if self._nodes is not None:
            labels = f"{SERVICE}={self._nodes.service},{MACHINE}={machine.name}"
            described["ray"] = {"address": self._nodes.address, "labels": labels}
        return ScriptCall(self._folder / "rent", {"service": service, **described}, Rented)

    def release(self, service: str, name: str) -> ScriptCall[Released]:
        """Call `release`."""
        return ScriptCall(self._folder / "release", {"service": service, "name": name}, Released)

    def list(self, service: str) -> ScriptCall[Listing]:
        """Call `list`."""
        listing = ListingHere if self._nodes is None else ListingElsewhere
        return ScriptCall(self._folder / "list", {"service": service}, listing)


class ScriptCall(Generic[_M]):
    """A script at work, which prints a `model`. Raises CloudError where it cannot be started."""

    def __init__(self, script: Path, request: Mapping[str, Any], model: type[_M]) -> None:
        self._script, self._limit_s, self._model = script, LIMITS_S[script.name], model
        self._began_s = time.monotonic()
        self._status: int | None = None
        self._is_late = False
        files: list[int] = []
        try:
            for text in (json.dumps(request) + "\n", "", ""):
                files.append(_scratch(text))
            self._pid = os.posix_spawn(
                script,
                [str(script)],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, file, at) for at, file in enumerate(files)],
                setsid=True,
            )
        except OSError as error:
            for file in files[1:]:
                os.close(file)
            raise CloudError(f"{script} cannot be started: {error.strerror}") from None
        finally:
            if files:
                os.close(files[0])
        _, self._printed, self._errors = files

    @property
    def is_over(self) -> bool:
        """Whether it has ended; one past its time limit is killed."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() - self._began_s > self._limit_s and not self._is_late:
                self._is_late = True
                os.killpg(self._pid, signal.SIGKILL)
        return self._status is not None

    def result(self) -> _M:
        """Its output, once it is over. Raises CloudError for anything else than that."""
        printed, errors = _taken(self._printed), _taken(self._errors)
        if self._is_late:
            raise CloudError(f"{self._script} was ended, as it took longer than {self._limit_s:g} s")
        if self._status:
            last = errors.strip().rpartition("\n")[2] or "it printed no error"
            raise CloudError(f"{self._script} failed with exit status {self._status}: {last[:300]}")
        try:
            return self._model.model_validate_json(printed or "null")
        except ValidationError as error:
            raise CloudError(
                f"{self._script} printed {printed.strip()[:60]!r}, where one JSON object is expected: "
                f"{first_fault(error, self._model)}"
            ) from None


def _scratch(text: str) -> int:
    """A file without a name that holds this, as a descriptor. Raises OSError."""
    file, path = mkstemp()
    Path(path).unlink()
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _taken(file: int) -> str:
    """The contents of such a file, which is closed."""
    try:
        return os.pread(file, MOST_BYTES, 0).decode("utf-8", "replace")
    finally:
        os.close(file)
