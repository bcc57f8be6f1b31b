"""The price of the machines that moved jobs alone keep, counted whenever who runs on these machines changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from betimes.service.engines.move_savings import alone_usd_per_h
from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.nodes.node import Node
from betimes.service.scheduling.runs.move_record import MoveRecord


def count_moved(
    moved: Iterable[Job], jobs: Mapping[int, Job], nodes: Mapping[str, Node], changed: Set[str], at: float
) -> None:
    """What runs on the changed nodes is about to be another: count what moved jobs there have paid until now."""
    paying = [
        job
        for job in moved
        if job.run is not None and job.run.launched and any(name in changed for name, _ in job.run.places)
    ]
    for job, move in paid_until(paying, jobs, nodes, at):
        job.move = move


def paid_until(
    paying: Sequence[Job], jobs: Mapping[int, Job], nodes: Mapping[str, Node], at: float
) -> Iterable[tuple[Job, MoveRecord]]:
    """The records of these jobs' moves, counted up to an instant."""
    if not paying:
        return []
    prices = {name: node.machine.usd_per_h or 0.0 for name, node in nodes.items()}
    held = {
        job.job_id: [name for name, _ in job.run.places]
        for job in jobs.values()
        if job.run is not None and job.run.launched
    }
    return [
        (job, job.move.paid(alone_usd_per_h(job.job_id, held[job.job_id], held, prices), at))
        for job in paying
        if job.move is not None and job.job_id in held
    ]
