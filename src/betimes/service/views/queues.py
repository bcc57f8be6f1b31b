"""The queues as the service lists them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic import Field

from betimes.service.views.listing import Listing
from betimes.service.views.models import View

if TYPE_CHECKING:
    from betimes.service.scheduling.scheduler import Scheduler


class QueueView(View):
    """A queue: a set of nodes, and the defaults and limits of its jobs; null: no limit."""

    name: str
    default: bool = False  # of jobs that name none
    require: dict[str, str] = Field(default={})  # labels of its nodes
    nodes: list[str] = Field(default=[])  # that have these now
    time_limit_s: float | None = None  # of its jobs that have none
    max_time_s: float | None = None
    max_cpu: float | None = None  # of a job
    max_gpu: float | None = None
    max_array: int | None = None  # elements of an array
    users: list[str] = Field(default=[])  # who may; empty: everyone
    priority: int | None = None  # of its jobs, which they may lower
    running_jobs: int = 0
    waiting_jobs: int = 0


def _read(scheduler: Scheduler, _: float) -> list[QueueView]:
    """The queues in the order of the settings, with their nodes and the numbers of their jobs."""
    from betimes.cluster.labels import labels_of, suits
    from betimes.service.scheduling.users import WAITING
    from betimes.service.spec.job_limits import default_limit_s

    ledger, found = scheduler.ledger, list[QueueView]()
    jobs = [job for job in ledger.jobs.values() if job.set_id is None]
    for queue in scheduler.settings.queues:
        required = labels_of(queue.require)
        mine = Counter(job.status in WAITING for job in jobs if job.spec.queue == queue.name)
        nodes = [name for name, node in ledger.nodes.items() if suits(node.labels, required)]
        fields = {**queue.model_dump(), "time_limit_s": default_limit_s([queue])}
        del fields["default_time_s"]
        found.append(QueueView(**fields, nodes=nodes, waiting_jobs=mine[True], running_jobs=mine[False]))
    return found


QUEUES = Listing(
    "queues",
    QueueView,
    _read,
    about="Sets of nodes, with the defaults and limits of the jobs that go there; Slurm calls them partitions.",
    answer="Every queue.",
    example=QueueView(
        name="debug", require={"tier": "debug"}, nodes=["here"], time_limit_s=900, max_time_s=3600, max_cpu=8,
        priority=100, running_jobs=1,
    ),
)  # fmt: skip
