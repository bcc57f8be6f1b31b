"""Who would finish when after a change: the present state is played out twice, as it is and changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from betimes.errors import Refused, Unknown
from betimes.service.runtime.commands import CancelJobs, Command, SetNodeStatus, SetPolicy, SubmitJobs
from betimes.service.runtime.rehearsal import Rehearsal, Times
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.node import DRAINING
from betimes.service.scheduling.promise_errors import INTERVAL
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import WhatIfJob, WhatIfSpec, WhatIfView


@dataclass(frozen=True)
class AddMachines(Command[None]):
    """Add machines like those of a type that are there."""

    type: str
    count: int

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        """Raises Unknown for a type of which there is none."""
        nodes = scheduler.ledger.nodes
        like = next((node.machine for node in nodes.values() if node.machine.type == self.type), None)
        if like is None:
            known = ", ".join(sorted({node.machine.type for node in nodes.values()})) or "none"
            raise Unknown(f"there is no node of type {self.type} to add more of; there are: {known}")
        for number in range(1, self.count + 1):
            scheduler.nodes.add(
                replace(like, name=f"{self.type}.what-if-{number}", kind="virtual"), "operator"
            )


class WhatIf:
    """Both plays of a question, made between two turns, to be run in any thread."""

    def __init__(self, before: Rehearsal, after: Rehearsal, asked: WhatIfSpec, user: str) -> None:
        """before, after: two copies of one state."""
        self._asked, self._user, self._before, self._after = asked, user, before, after
        self._names = before.names()
        self.specs: dict[
            int, JobSpec
        ] = {}  # of the jobs that the change submits, by the number they would have

    def play(self) -> WhatIfView:
        """The answer. Raises what the changes raise: Refused, Unknown, Conflict, PolicyError."""
        commands = self._commands()
        if not commands:
            raise Refused("no change is given; name one: submit, add_nodes, remove_nodes, policy, cancel")
        after, results = self._after.play(commands)
        before, _ = self._before.play()
        if self._asked.submit:
            for spec, numbers in zip(self._asked.submit, results[-1], strict=True):
                self._names |= dict.fromkeys(numbers, (spec.title, self._user))
                self.specs |= dict.fromkeys(numbers, spec)
        jobs = [self._job(number, before.get(number), after[number]) for number in sorted(after)]
        return WhatIfView(made_at=self._before.now_at, jobs=jobs)

    def how_sure(self, found: WhatIfView, scheduler: Scheduler) -> WhatIfView:
        """The answer with intervals of the jobs that the change submits, by what the present scheduler has learned."""
        queue, jobs = scheduler.queue, list[WhatIfJob]()
        for one in found.jobs:
            if (spec := self.specs.get(one.job_id)) is not None:
                believed = scheduler.ledger.runtime_estimates.believed(self._user, spec)
                job = Job(one.job_id, spec, self._user, found.made_at, *believed)
                around = scheduler.ledger.promise_errors.around(
                    job, found.made_at, one.start_at, one.finish_at, queue
                )
                one = one.model_copy(update={name: around.fields.get(name) for name in INTERVAL})  # noqa: PLW2901
            jobs.append(one)
        return found.model_copy(update={"jobs": jobs})

    def _commands(self) -> Sequence[Command[Any]]:
        """The changes in the order in which they are made; jobs to submit come last."""
        asked, user = self._asked, self._user
        found: list[Command[Any]] = []
        if asked.cancel:
            found.append(CancelJobs(tuple(asked.cancel), user))
        found += [SetNodeStatus(name, DRAINING, f"user:{user}") for name in asked.remove_nodes]
        found += [AddMachines(name, count) for name, count in asked.add_nodes.items()]
        if asked.policy is not None:
            found.append(SetPolicy(asked.policy, user))
        if asked.submit:
            found.append(SubmitJobs(tuple(asked.submit), user))
        return found

    def _job(self, number: int, before: Times | None, after: Times) -> WhatIfJob:
        name, user = self._names[number]
        is_new, was = before is None, before or Times(None, None)
        return WhatIfJob(
            job_id=number,
            name=name,
            user=user,
            is_new=is_new,
            start_before_at=was.start_at,
            finish_before_at=was.finish_at,
            start_at=after.start_at,
            finish_at=after.finish_at,
        )
