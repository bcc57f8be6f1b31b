"""Queues: the defaults that they give to jobs, and the jobs that they do not take."""

from __future__ import annotations

from betimes.cluster.labels import as_texts
from betimes.cluster.resources import PER_UNIT
from betimes.errors import Conflict, Refused
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.job_limits import JobLimits, default_limit_s
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.queues import Queue
from betimes.service.spec.spelling import PARTITION


class Queues(Part):
    """The queues of the operator's settings. Once a job is placed, its own fields have all that its queue decides.

    So policies, play-outs and promises need not know queues, and a job keeps its place when the settings change.
    """

    name = "queues"

    def __init__(self, state: SchedulerState, settings: Settings) -> None:
        self._state, self._settings = state, settings

    def placed(self, spec: JobSpec, user: str) -> JobSpec:
        """The job with what its queue and user give it; placed again it stays the same. Raises Refused."""
        queues = self._settings.queues
        name = spec.queue or (spec.labels.get(PARTITION) if queues else None)
        queue = self._of(name) if name is not None else next((each for each in queues if each.default), None)
        if name is not None and queue is None:
            known = ", ".join(each.name for each in queues)
            has = f"the queues are {known}" if queues else "this service has no queues"
            raise Refused(f"there is no queue {name[:64]!r}; {has}", "queue")
        if spec.time_limit_s is None:
            limit_s = default_limit_s(limits for _, limits in self._limits(queue, user))
            spec = spec.model_copy(update={"time_limit_s": limit_s})
        if queue is None:
            return spec
        require = {**spec.require, **queue.require}
        if require != {**require, **spec.require}:
            labels = " and ".join(as_texts(tuple(queue.require.items())))
            raise Refused(
                f"the nodes of queue {queue.name} have {labels}; require another, or leave it out", "require"
            )
        env = spec.env
        if "SLURM_JOB_PARTITION" in env:
            env = {**env, "SLURM_JOB_PARTITION": queue.name}
        return spec.model_copy(
            update={
                "queue": queue.name,
                "labels": {**spec.labels, PARTITION: queue.name},
                "require": require,
                "priority": spec.priority or queue.priority or 0,
                "env": env,
            }
        )

    def refuses(self, spec: JobSpec, user: str) -> None:
        """A job beyond what its queue or user may have: time, elements, width, priority, and whose it is."""
        # The settings may have changed since it was taken.
        queue = None if spec.queue is None else self._of(spec.queue)
        for whose, limits in self._limits(queue, user):
            limits.check(spec, whose)
        if queue is None:
            return
        group = self._settings.groups.of(user)
        if queue.users and user not in queue.users and (group is None or group.purse not in queue.users):
            raise Refused(f"queue {queue.name} is not for {user}", "queue")
        for field, most, at, what in (
            ("cpu", queue.max_cpu, 1, "core"),
            ("gpu", queue.max_gpu, 0, "GPU"),
        ):
            has = spec.max_units * spec.unit.most[at] / PER_UNIT[at]
            if most is not None and has > most:
                whole = f"{most:g} {what}{'' if most == 1 else 's'}"
                raise Refused(
                    f"a job of queue {queue.name} may have {whole} at most, and this one asks for {has:g}",
                    field,
                )
        if queue.priority is not None and spec.priority > queue.priority:
            raise Refused(
                f"jobs of queue {queue.name} may have priority {queue.priority} at most", "priority"
            )

    def check_stays(self, spec: JobSpec) -> None:
        """Raise Conflict for a changed job that is to be in another queue than it is in."""
        if spec.queue is not None and spec.labels.get(PARTITION) != spec.queue:
            raise Conflict(
                f"a job stays in its queue ({spec.queue}); cancel it, and submit it to another one (--queue NAME)"
            )

    def _limits(self, queue: Queue | None, user: str) -> list[tuple[str, JobLimits]]:
        """The limits of a job, and whose they are."""
        found: list[tuple[str, JobLimits]] = [] if queue is None else [(f"queue {queue.name}", queue)]
        if (known := self._state.ledger.users.get(user)) is not None:
            found.append((user, known.limits))
        if (group := self._settings.groups.of(user)) is not None:
            found.append((f"group {group.name}", group))
        return found

    def _of(self, name: str) -> Queue | None:
        return next((each for each in self._settings.queues if each.name == name), None)
