"""`betimes queues`: sets of nodes, and the defaults and limits of the jobs that go there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.cli.live.listing import Shown, show_list
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Output, State
from betimes.units import length

if TYPE_CHECKING:
    from betimes.service.views.queues import QueueView


def _long(of_s: float | None) -> str:
    return "" if of_s is None else length(of_s)


def _most(of: float | None) -> str:
    return "" if of is None else f"{of:g}"


_COLUMNS: Shown[QueueView] = (
    (Column("Queue", flexible=True), lambda each: f"{each.name}{'*' * each.default}"),
    (Column("Nodes", right=True), lambda each: str(len(each.nodes))),
    (Column("Running", right=True), lambda each: str(each.running_jobs)),
    (Column("Waiting", right=True), lambda each: str(each.waiting_jobs)),
    (Column("Limit", right=True), lambda each: _long(each.time_limit_s)),
    (Column("Longest", right=True), lambda each: _long(each.max_time_s)),
    (Column("Cores", rank=1, right=True), lambda each: _most(each.max_cpu)),
    (Column("GPUs", rank=1, right=True), lambda each: _most(each.max_gpu)),
    (Column("Priority", rank=2, right=True), lambda each: _most(each.priority)),
    (Column("For", rank=3, flexible=True), lambda each: ", ".join(each.users) or "all"),
    (
        Column("Labels", rank=4, flexible=True),
        lambda each: ", ".join(f"{key}={value}" for key, value in each.require.items()),
    ),
)


def queues(output: Output = None, state: State = None, as_json: Json = False) -> None:
    """List the queues: nodes and jobs there now, the time limit of jobs that have none, and the most of a job.

    The default one, for jobs that name none, has a star. `betimes submit --queue NAME` submits to one.
    """
    none = "There are no queues; tables [[queues]] in the service's settings make some."
    show_list(
        lambda service: service.queues(), _COLUMNS, none, state, as_json=as_json, wide=output is not None
    )
