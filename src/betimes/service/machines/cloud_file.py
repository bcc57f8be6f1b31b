"""A fake cloud from a TOML file.

::

    seed = 0                    # of all that is drawn by lot; 0 by default
    quota = 20                  # the most machines held at once; any number by default

    [[types]]                   # one table an instance type
    type = "a100"
    cpu = 12                    # cores
    memory_gib = 85
    gpu = 1                     # 0 by default
    usd_per_h = 3.67            # 0 by default
    capacity = 8                # the most that there are at once; any number by default
    boot_s = 60                 # the median time to boot; 0 by default
    boot_sigma = 0.2            # its spread, of the logarithm; 0 by default
    boot_failure_frac = 0.01    # of machines that never come up; 0 by default
    reclaims_per_h = 0.1        # how often each is taken away; 0, never, by default
    notice_s = 120              # from the notice until it is taken away; 120 by default
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from betimes.errors import ClusterError
from betimes.service.faults import told
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import OpenCloud
from betimes.service.machines.scenario import InstanceType
from betimes.service.spec import MOST_AMOUNT, MOST_SECONDS, Amount, Label

MOST_MACHINES = 1_000_000

Span = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]


class TypeTable(BaseModel):
    """An instance type; see `InstanceType`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Label
    cpu: float = Field(ge=0.001, le=MOST_AMOUNT)  # what is rounded down to nothing holds no job
    memory_gib: float = Field(ge=0.001, le=MOST_AMOUNT)
    gpu: Amount = 0.0
    usd_per_h: Amount = 0.0
    capacity: int | None = Field(default=None, ge=0, le=MOST_MACHINES)
    boot_s: Span = 0.0
    boot_sigma: float = Field(default=0.0, ge=0, le=10)
    boot_failure_frac: float = Field(default=0.0, ge=0, le=1)
    reclaims_per_h: float = Field(default=0.0, ge=0, le=1e6)
    notice_s: Span = 120.0


class CloudFile(BaseModel):
    """All that a file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = 0
    quota: int | None = Field(default=None, ge=0, le=MOST_MACHINES)
    types: list[TypeTable] = Field(min_length=1)


def read_cloud(path: str | os.PathLike[str]) -> OpenCloud:
    """The cloud that a file describes; raises ClusterError, on one line, naming file, table and field."""
    found = _checked(Path(path))
    types = [InstanceType(**table.model_dump()) for table in found.types]

    def open_cloud(held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> FakeCloud:
        cloud = FakeCloud(types, found.seed, found.quota)
        cloud.resume(held, made)
        return cloud

    return open_cloud


def _checked(path: Path) -> CloudFile:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ClusterError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ClusterError(f"{path}: not UTF-8 text; save the file in UTF-8") from None
    try:
        found = CloudFile.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise ClusterError(f"{path}, {_first_fault(error)}") from None
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ClusterError(f"{path}: not TOML: {reason}") from None
    names = [table.type for table in found.types]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ClusterError(
                f"{path}, [[types]] table {number + 1}, field type: {name} is there already, in table "
                f"{names.index(name) + 1}; a type has one table"
            )
    return found


def _first_fault(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False)
    place = first["loc"]
    inner = len(place) > 1
    known = TypeTable.model_fields if inner else CloudFile.model_fields
    what = "instance type" if inner else "cloud"
    table = f"[[types]] table {int(place[1]) + 1}, " if inner else ""
    field = f"field {place[-1]}: " if len(place) != 2 else ""  # of two, the table as a whole is at fault
    more = f" (and {len(others)} more)" if others else ""
    return f"{table}{field}{told([first], tuple(known), what)[0].text}{more}"
