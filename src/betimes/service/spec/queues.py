"""Queues, which Slurm calls partitions: sets of nodes, and the defaults and limits of the jobs that go there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from betimes.service.spec.job_limits import JobLimits
from betimes.service.spec.job_spec import MOST_SECONDS, NodeLabels, Priority, QueueName
from betimes.service.spec.spec_errors import first_fault
from betimes.service.spec.users import UserName
from betimes.units import parse_duration

MOST_QUEUES = 100


def _span(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


_Time = Annotated[float, BeforeValidator(_span), Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]
_Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Queue(JobLimits):
    """A queue, as a table `[[queues]]` of the settings has it; null: no limit, and nothing is filled in."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    name: QueueName
    default: bool = False  # of jobs that name none
    require: NodeLabels = Field(default_factory=dict)  # labels that its nodes have
    default_time_s: _Time | None = Field(default=None, alias="default_time")
    max_time_s: _Time | None = Field(default=None, alias="max_time")
    max_cpu: _Amount | None = None  # of a job on all of its units
    max_gpu: _Amount | None = None
    users: list[UserName] = Field(default_factory=list, max_length=10_000)  # who may; none: everyone
    priority: Priority | None = None
    """The priority of its jobs, which they may lower."""


_FIELDS = tuple(field.alias or name for name, field in Queue.model_fields.items())


def parse_queues(tables: Any) -> tuple[Queue, ...]:
    """Tables `[[queues]]`, or the name of a TOML file that has them. Raises ValueError, naming queue and field."""
    if isinstance(tables, str):
        tables = _tables_of(Path(tables).expanduser())
    if not isinstance(tables, list | tuple) or len(tables) > MOST_QUEUES:
        raise ValueError(f"give at most {MOST_QUEUES} tables [[queues]], or a file that has them")
    found: dict[str, Queue] = {}
    for number, table in enumerate(tables, 1):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        name = table.get("name") if isinstance(table, Mapping) else None  # pyright: ignore
        where = f"queue {name[:60]}" if isinstance(name, str) else f"table {number}"
        try:
            queue = Queue.model_validate(table)
        except ValidationError as error:
            raise ValueError(f"{where}: {first_fault(error, _FIELDS, 'queue')}") from None
        if queue.name in found:
            raise ValueError(f"{where}: stands twice; leave one of them out")
        if queue.max_time_s is not None and (queue.default_time_s or 0.0) > queue.max_time_s:
            raise ValueError(f"{where}: default_time is more than max_time")
        found[queue.name] = queue
    if len(named := [queue.name for queue in found.values() if queue.default]) > 1:
        raise ValueError(f"queues {' and '.join(named)}: only one of them can be the default")
    return tuple(found.values())


def _tables_of(file: Path) -> Any:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: cannot be read as TOML: {error}") from None
    if set(found) != {"queues"}:
        raise ValueError(f"{file}: expected tables [[queues]], and nothing else")
    return found["queues"]
