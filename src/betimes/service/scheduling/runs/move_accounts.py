"""The part of their machines' price that moved jobs pay, counted whenever who runs on these machines changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from betimes.service.engines.move_savings import largest_share, parts_usd_per_h
from betimes.service.scheduling.decisions.engine_job import held_by
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
    running = (job for job in jobs.values() if job.run is not None and job.run.launched)
    parts = parts_usd_per_h({job.job_id: _shares(job, nodes) for job in running}, prices)
    return [
        (job, job.move.paid(parts[job.job_id], at))
        for job in paying
        if job.move is not None and job.job_id in parts
    ]


def _shares(job: Job, nodes: Mapping[str, Node]) -> list[tuple[str, float]]:
    places = [] if job.run is None else [place for place in job.run.places if place[0] in nodes]
    held = held_by(job.spec, places, job.units_per_task, nodes)
    return [(name, largest_share(amounts, nodes[name].capacity)) for name, amounts in held]
