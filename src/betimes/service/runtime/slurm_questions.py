"""Questions about an existing Slurm: a job that it does not have, jobs with another request, and another policy.

The last look is planned once more with the rows that are asked about; nothing is asked of Slurm.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from betimes.errors import Conflict, Refused, Unknown
from betimes.foresight.engines import NODES, engine_for
from betimes.printing import printable
from betimes.service.engines.messages import Expected
from betimes.service.engines.named_policies import check_live
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.promises import Promises
from betimes.service.runtime.rehearsal import Played, Times
from betimes.service.runtime.slurm_source import Look, Observation, number_of, play_of, spec_of
from betimes.service.runtime.what_if import compared
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import PLANNED, Forecast
from betimes.service.scheduling.reasons import reason
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec, split_after
from betimes.service.spec.spelling import job_number
from betimes.service.views.models import Quote, Reason, WhatIfSpec, WhatIfView
from betimes.slurm.asked import Request, changed, new_job
from betimes.slurm.jobs import SlurmJob
from betimes.slurm.queue import POLICY, Queue, queue_of

_NOT_ANSWERED = {
    "add_nodes": "nodes that Slurm does not have are in no partition",
    "rent": "Slurm rents nothing here",
    "maintenance": "reservations that have not begun are not modelled",
    "load": "the plan of Slurm is played out without jobs that come later",
}
"""Changes that cannot be asked about, and why."""
_KINDS = {"ok": "afterok", "any": "afterany", "start": "after", "fail": "afternotok", "corr": "aftercorr"}
"""Slurm's kinds of dependency, by those of `split_after`."""
_ANSWERED = ", ".join(name for name in WhatIfSpec.model_fields if name not in _NOT_ANSWERED)


def request_of(spec: JobSpec, user: str) -> Request:
    """A job as a request to Slurm: a unit has CPUs; partition, nodes and whole nodes are labels of these names.

    Raises Refused.
    """
    if spec.demand:
        raise Refused("Slurm knows no families of machines; leave it out", "demand")
    nodes = spec.labels.get("nodes")
    if nodes is not None and not (nodes.isascii() and nodes.isdigit() and 0 < int(nodes) < 1_000_000):
        raise Refused(f"{nodes[:40]!r} is no number of nodes", "nodes")
    dependency = ",".join([*map(_dependency, spec.after), *(["singleton"] if spec.singleton else [])])
    held_by = {
        "JobHeldUser": spec.hold,
        "Dependency": dependency,
        "BeginTime": spec.begin_at is not None,
        "Licenses": spec.resources,
        "Reservation": "reservation" in spec.labels,
    }
    return Request(
        cpus=max(1, math.ceil(spec.cpu * spec.max_units)),
        nodes=None if nodes is None else int(nodes),
        limit_s=math.nan if spec.time_limit_s is None else spec.time_limit_s,
        partitions=_partitions(spec.labels.get("partition")),
        user=user,
        name=spec.title,
        is_exclusive="exclusive" in spec.labels,
        reason=next((why for why, is_so in held_by.items() if is_so), "Priority"),
        gres=f"gpu:{math.ceil(spec.gpu * spec.max_units)}" if spec.gpu else "",
        features="&".join(key if value == "yes" else f"{key}={value}" for key, value in spec.required),
        dependency=dependency,
    )


def _note(spec: JobSpec) -> str | None:
    """What was asked for and changes nothing; null: nothing was."""
    if (qos := spec.labels.get("qos")) is None:
        return None
    return (
        f"QOS {printable(qos)[:60]} is not modelled: its priority and its limits change nothing here; the job is taken "
        "to be the last that waits in its partition"
    )


def _dependency(after: str) -> str:
    """One of a job's dependencies as `squeue` prints it."""
    job, on = split_after(after)
    return f"{_KINDS[on]}:{job_number(job) if isinstance(job, int) else job}"


def _partitions(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))


class SlurmQuestions:
    """Answers from the last look. Calls may overlap."""

    def __init__(self, controller: Controller, promises: Promises) -> None:
        self._controller, self._promises = controller, promises

    @property
    def _scheduler(self) -> Scheduler:
        return self._controller.scheduler

    @property
    def _observation(self) -> Observation:
        observation = self._scheduler.settings.observation
        assert isinstance(observation, Observation), "it was made with the engine's settings"
        return observation

    async def quote(self, spec: JobSpec, user: str) -> Quote:
        """The end of a job that Slurm does not have, if it were submitted now; of an array that of one element.

        Raises Refused, Unavailable.
        """
        look, made_at = self._observation.last, self._controller.clock.now_s()
        row = new_job(request_of(spec, user), look.picture, look.machines)
        queue = await asyncio.to_thread(_queue, look, [row])
        job = self._job(row, queue, made_at)
        errors, found = self._scheduler.ledger.promise_errors, None
        expected, grid = self._scheduler.expected(), errors.expected(job, made_at)
        if grid is not None:
            expected[job.job_id] = grid
        why = queue.unforeseen.get(row.id)
        start_at = finish_at = None
        sure = dict[str, Any]()
        if why is None:
            found = await self._forecast(queue, expected, made_at)
            start_at, finish_at = found.times(job.job_id)
            queued = self._scheduler.queue
            believed_at = found.believed_end_at(job.job_id)
            sure = errors.around(job, made_at, start_at, finish_at, queued, made_at, believed_at).fields
        run_s, basis = errors.takes(job, made_at)
        waits = start_at is None or start_at > made_at + 1.0
        kept = queue.kept.get(row.id)
        waits_for = reason("observed", kept) if kept is not None else None
        if waits_for is None and waits:
            waits_for = self._scheduler.wait_reasons(found).why(job)
        return Quote(
            made_at=made_at,
            earliest_at=made_at,
            policy=self._scheduler.ledger.policy,
            start_at=start_at,
            finish_at=finish_at,
            run_s=run_s,
            basis=basis,
            reason=None if waits_for is None else Reason(**waits_for),
            elements=1 if spec.array else None,
            note=_note(spec),
        ).model_copy(update=sure)

    async def what_if(self, asked: WhatIfSpec, user: str) -> WhatIfView:
        """The ends of jobs with other requests, or under another policy. Raises Refused, Unknown, Unavailable."""
        for field, why in _NOT_ANSWERED.items():
            if getattr(asked, field):
                raise Refused(f"{why}; here these can be asked about: {_ANSWERED}", field)
        if not asked.model_dump(exclude_defaults=True):
            raise Refused(f"no change is given; name one: {_ANSWERED}")
        policy = POLICY if asked.policy is None else await self._compiled(asked.policy)
        look, made_at = self._observation.last, self._controller.clock.now_s()
        jobs, expected = dict(self._scheduler.ledger.jobs), self._scheduler.expected()
        rows, new = self._rows(asked, user, look)
        queue = await asyncio.to_thread(_queue, _with_nodes(_without(look, asked.cancel), asked), rows)
        for row in rows:
            if (why := queue.unforeseen.get(row.id)) is not None:
                raise Refused(f"job {row.id} with this request would be promised nothing: {why}")
        for row in new:
            job = self._job(row, queue, made_at)
            jobs[job.job_id] = job
            if (grid := self._scheduler.ledger.promise_errors.expected(job, made_at)) is not None:
                expected[job.job_id] = grid
        before = await self._forecast(look.queue, expected, made_at)
        then = await self._forecast(queue, expected, made_at, policy)
        gone = {number: Times(None, None) for number in asked.cancel}
        after = _played(then, jobs)
        return compared(_played(before, jobs), after._replace(times={**after.times, **gone}), made_at)

    async def _compiled(self, policy: str) -> str:
        """A policy for nodes, once it can be played out. Raises Refused, PolicyError."""
        if engine_for(policy, prefers_nodes=True) != NODES:
            raise Refused(f"{policy} is for a pool of units; name a policy for nodes, as in easy", "policy")
        named = policy if policy.startswith(f"{NODES}:") else f"{NODES}:{policy}"
        check_live(named, ())
        await self._controller.compile(named)
        return named

    async def _forecast(
        self, queue: Queue, expected: Expected, made_at: float, policy: str = POLICY
    ) -> Forecast:
        play = play_of(queue, self._scheduler.ledger.epoch_at, expected, policy)
        with self._controller.clock.hold():
            return await self._promises.foreseen(play, made_at)

    def _job(self, row: SlurmJob, queue: Queue, made_at: float) -> Job:
        """A job that Slurm does not have as it would be here."""
        names, number = self._observation.names, number_of(row.id)
        if number is None:
            raise Conflict("Slurm's numbers of jobs are used up")
        spec = spec_of(row, queue, names)
        return Job(
            number,
            spec,
            names.of(row.user),
            made_at,
            spec.time_limit_s or 0.0,
            PLANNED,
            status=Status.QUEUED,
        )

    def _rows(self, asked: WhatIfSpec, user: str, look: Look) -> tuple[list[SlurmJob], list[SlurmJob]]:
        """The rows that are changed or added, and those of them that are added. Raises Refused, Unknown."""
        rows, picture = list[SlurmJob](), look.picture
        by_number = {number_of(job.id): job for job in picture.jobs.values() if not job.is_over}
        for edit in asked.edit:
            job = by_number.get(edit.job_id)
            if job is None:
                raise Unknown(
                    f"Slurm shows no job {edit.job_id} that runs or waits; `betimes jobs` lists them"
                )
            rows.append(
                changed(
                    job,
                    look.machines,
                    limit_s=edit.time_limit_s,
                    cpus=edit.units,
                    nodes=edit.nodes,
                    partitions=_partitions(edit.partition),
                )
            )
        new = list[SlurmJob]()
        for spec in asked.submit:
            new.append(new_job(request_of(spec, user), picture, look.machines))
            picture = picture.having(new[-1])
        for number in asked.cancel:
            if number not in by_number:
                raise Unknown(f"Slurm shows no job {number} that runs or waits; `betimes jobs` lists them")
        return [*rows, *new], new


def _queue(look: Look, rows: Sequence[SlurmJob]) -> Queue:
    return queue_of(look.picture.having(*rows), look.machines)


def _without(look: Look, numbers: Sequence[int]) -> Look:
    """The look without some jobs."""
    kept = {job_id: job for job_id, job in look.picture.jobs.items() if number_of(job_id) not in numbers}
    return replace(look, picture=replace(look.picture, jobs=kept))


def _with_nodes(look: Look, asked: WhatIfSpec) -> Look:
    """The look with nodes that take jobs, or none. Raises Unknown."""
    nodes = dict(look.machines.nodes)
    for names, is_open in ((asked.remove_nodes, False), (asked.undrain_nodes, True)):
        for name in names:
            if name not in nodes:
                raise Unknown(f"Slurm shows no node {name[:60]}; `betimes nodes` lists them")
            nodes[name] = replace(nodes[name], is_open=is_open)
    return replace(look, machines=replace(look.machines, nodes=nodes))


def _played(found: Forecast, jobs: Mapping[int, Job]) -> Played:
    times = {number: Times(*found.times(number)) for number in found.job if number in jobs}
    never = sum(each.finish_at is None for each in times.values())
    return Played(times, jobs, (), never, None)
