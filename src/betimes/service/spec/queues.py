"""Queues, which Slurm calls partitions: sets of nodes, and the defaults and limits of the jobs that go there."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from betimes.service.spec.job_spec import NodeLabels, Priority
from betimes.service.spec.tables import Named, parse_tables
from betimes.service.spec.users import USER_WORD

_Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
_Guest = Annotated[str, Field(pattern=f"^@?{USER_WORD}$")]


class Queue(Named):
    """A queue, as a table `[[queues]]` of the settings has it; null: no limit, and nothing is filled in."""

    default: bool = False  # of jobs that name none
    require: NodeLabels = Field(default_factory=dict)  # labels that its nodes have
    max_cpu: _Amount | None = None  # of a job on all of its units
    max_gpu: _Amount | None = None
    users: list[_Guest] = Field(default_factory=list, max_length=10_000)
    """Who may: users, and groups as `@physics`; none: everyone."""
    priority: Priority | None = None
    """The priority of its jobs, which they may lower."""


def parse_queues(tables: Any) -> tuple[Queue, ...]:
    """Tables `[[queues]]`, or a file of them. Raises ValueError, naming queue and field."""
    found = parse_tables(Queue, tables)
    if len(named := [queue.name for queue in found if queue.default]) > 1:
        raise ValueError(f"queues {' and '.join(named)}: only one of them can be the default")
    return found
